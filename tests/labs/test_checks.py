"""Every check is proved: what is wrong it must refuse, with the words meant for it; what is right it must accept.

The answers of a lab are in its answers.py: each replaces some of the fences of the reference (`dlojz.labs.answers`).
"""

import re
import time

import pytest

from dlojz import workspace
from dlojz.labs import catalogue, fences
from dlojz.labs.checking import run_check
from dlojz.labs.outcome import NOT_ATTEMPTED, SOLVED, WRONG
from dlojz.labs.probe import Limits, Session

LABS = [lab for lab in catalogue.labs().values() if (lab.folder / "check.py").exists()]
LIMITS = Limits(seconds=60)  # the tests may share their cores with others


def answers(kind):
    return [pytest.param(lab, answer, id=f"{lab.id}-{answer.name}")
            for lab in LABS for answer in catalogue.answers(lab) if answer.kind == kind]


@pytest.fixture(scope="session")
def session():
    """One process that has imported torch. Each run is a fork of it, as it is in a check of its own."""
    with Session(LIMITS) as session:
        yield session


def laid_out(folder, lab, bodies=(), later="stubs"):
    """A trainee's files: earlier labs solved, these bodies in fences of this one, later labs stubbed or solved."""
    solved = [other.id for other in catalogue.labs().values() if later == "solved" or other.place <= lab.place]
    answered = dict(bodies)
    for name in catalogue.files():
        text = catalogue.laid_out(name, solved)
        here = {fence: body for fence, body in answered.items() if fence in catalogue.reference_fences(name)}
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(fences.replace(text, here, name))
    return folder


def checked(lab, folder, session, kind, note):
    """``note``: pytest's record_property; the table at the end of all tests (conftest.py) is made of it."""
    begun = time.monotonic()
    outcome = run_check(lab.id, folder, LIMITS, session)
    note("check", [lab.id, kind, time.monotonic() - begun])
    return outcome


@pytest.mark.parametrize("lab, answer", answers("wrong"))
def test_wrong(lab, answer, session, tmp_path, record_property):
    outcome = checked(lab, laid_out(tmp_path, lab, answer.fences), session, "wrong", record_property)
    assert outcome.state == WRONG, outcome
    assert re.search(answer.expect, outcome.message, re.DOTALL), outcome.message
    assert "Where to look: " in outcome.message


@pytest.mark.parametrize("later", ["stubs", "solved"])
@pytest.mark.parametrize("lab, answer", answers("right"))
def test_right(lab, answer, later, session, tmp_path, record_property):
    outcome = checked(lab, laid_out(tmp_path, lab, answer.fences, later), session, "right", record_property)
    assert outcome.state == SOLVED, outcome
    assert outcome.verified


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
@pytest.mark.parametrize("later", ["stubs", "solved"])
def test_reference(lab, later, session, tmp_path, record_property):
    outcome = checked(lab, laid_out(tmp_path, lab, (), later), session, "right", record_property)
    assert outcome.state == SOLVED, outcome


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_stub(lab, tmp_path):
    workspace.create(tmp_path)
    outcome = run_check(lab.id, tmp_path)
    assert outcome.state == NOT_ATTEMPTED and outcome.seconds < 4, outcome


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_a_check_of_its_own(lab, tmp_path, record_property):
    """As a trainee runs it, torch's import included."""
    outcome = checked(lab, laid_out(tmp_path, lab), None, "alone", record_property)
    assert outcome.state == SOLVED, outcome


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.id)
def test_enough_answers(lab):
    kinds = [answer.kind for answer in catalogue.answers(lab)]
    wrong, right = kinds.count("wrong"), kinds.count("right")
    assert wrong >= 6 and right >= 3, f"{lab.id} needs six wrong answers and three right ones"
