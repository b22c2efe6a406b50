"""Every check is proved: what is wrong it must refuse, with the words meant for it; what is right it must accept.

The answers of a lab are in its answers.py: each replaces some of the fences of the reference (`dlojz.labs.answers`).
"""

import time

import pytest

from dlojz.labs import catalogue, proof, workspace
from dlojz.labs.checking import run_check
from dlojz.labs.outcome import SOLVED
from dlojz.labs.probe import Limits, Session

pytestmark = pytest.mark.spread
LABS = [lab for lab in catalogue.labs().values() if (lab.folder / "check.py").exists()]
LIMITS = Limits(seconds=2 * Limits().seconds)  # others compute beside it, and start CUDA beside it
LATER = ["stubs", pytest.param("solved", marks=pytest.mark.long)]  # what stands in the fences of later labs


MANY = {"wrong": 3, "right": 2}  # answers of each lab that `make test` tries: `make test-all` tries the rest


def answers(kind):
    for lab in LABS:
        given = [answer for answer in catalogue.answers(lab) if answer.kind == kind]
        for number, answer in enumerate(given):
            marks = [pytest.mark.long] if number >= MANY[kind] else []
            yield pytest.param(lab, answer, id=f"{lab.id}-{answer.name}", marks=marks)


@pytest.fixture(scope="session")
def session():
    """One process that has imported torch. Each run is a fork of it, as it is in a check of its own."""
    with Session(LIMITS) as session:
        yield session


def checked(lab, folder, session, kind, note):
    """``note``: pytest's record_property; the table at the end of all tests (conftest.py) is made of it."""
    begun = time.monotonic()
    outcome = run_check(lab.id, folder, LIMITS, session)
    note("check", [lab.id, kind, time.monotonic() - begun])
    return outcome


@pytest.mark.parametrize("lab, answer", list(answers("wrong")))
def test_wrong(lab, answer, session, tmp_path, record_property):
    outcome = checked(lab, proof.laid_out(tmp_path, lab, answer.fences), session, "wrong", record_property)
    assert not proof.fault(answer, outcome)


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("lab, answer", list(answers("right")))
def test_right(lab, answer, later, session, tmp_path, record_property):
    outcome = checked(lab, proof.laid_out(tmp_path, lab, answer.fences, later), session, "right", record_property)
    assert not proof.fault(answer, outcome)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
@pytest.mark.parametrize("later", LATER)
def test_reference(lab, later, session, tmp_path, record_property):
    outcome = checked(lab, proof.laid_out(tmp_path, lab, {}, later), session, "right", record_property)
    assert outcome.state == SOLVED, outcome


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_stub(lab, tmp_path):
    workspace.create(tmp_path)
    outcome = run_check(lab.id, tmp_path)
    assert not proof.stub_fault(outcome)


@pytest.mark.parametrize("lab", [pytest.param(lab, id=lab.id, marks=[pytest.mark.long] if at > 1 else [])
                                 for at, lab in enumerate(LABS)])
def test_a_check_of_its_own(lab, tmp_path, record_property):
    """As a trainee runs it, torch's import included."""
    outcome = checked(lab, proof.laid_out(tmp_path, lab), None, "alone", record_property)
    assert outcome.state == SOLVED, outcome
