"""Where an answer makes the script stop in a line after its fence, beside what the trainee has written for other labs."""

import socket

import pytest

from dlojz.labs import catalogue, fences, workspace
from dlojz.labs.checking import run_check
from dlojz.labs.outcome import CANNOT_CHECK, SOLVED, WRONG
from dlojz.labs.probe import Limits, Session

ANSWERS = {
    "channels_last.batch": "images = images.permute(0, 2, 3, 1)\n",
    "gpu.batch": "images = images.permute(0, 2, 3, 1).to(device)\nlabels = labels.to(device)\n",
    "dataloader": 'loading = {"workers": args.num_workers}\n',
    "augmentation.randaugment": "return v2.RandAugment\n",
    "ddp_advanced.unused": "model = DistributedDataParallel(net)\n",
    "ddp_advanced.uneven": "batches = batches[: args.batches - 5]\n",
}


@pytest.fixture(scope="module")
def session():
    with Session(Limits(seconds=60)) as session:
        session.ready()
        yield session


@pytest.fixture
def folder(tmp_path):
    """A workspace in which all is solved, the lab amp in the trainee's own way."""
    workspace.create(tmp_path / "work", ["all"])
    write(tmp_path / "work", "amp.dtype", "_own = None\n" + catalogue.reference_fences("train.py")["amp.dtype"].body)
    return tmp_path / "work"


def write(folder, fence, body):
    lab = next(lab for lab in catalogue.labs().values() if fence in lab.stubs)
    file = folder / lab.file_of(fence)
    file.write_text(fences.replace(file.read_text(), {fence: body}, lab.file_of(fence)))
    return lab.id


@pytest.mark.parametrize("fence", ANSWERS)
def test_it_is_the_answer(folder, session, fence):
    lab = write(folder, fence, ANSWERS[fence])
    outcome = run_check(lab, folder, Limits(seconds=60), session)
    assert outcome.state == WRONG and "Where to look: the fence" in outcome.message, outcome
    assert "outside" not in outcome.message


def test_it_is_what_the_trainee_has_changed_elsewhere(folder, session):
    file = folder / "train.py"
    file.write_text(file.read_text().replace("def validate(", "def validate_all(", 1))
    outcome = run_check("channels_last", folder, Limits(seconds=60), session)
    assert outcome.state == CANNOT_CHECK and "outside this lab's fences" in outcome.message, outcome


def test_a_port_that_another_program_has(folder, session):
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        how = f'init_method="tcp://127.0.0.1:{other.getsockname()[1]}", rank=procs.rank, world_size=procs.world_size'
        lab = write(folder, "ddp.init", f'if procs.world_size > 1:\n    dist.init_process_group("gloo", {how})\n')
        outcome = run_check(lab, folder, Limits(seconds=60), session)
    assert outcome.state == CANNOT_CHECK and "uses that port" in outcome.message, outcome


def test_all_is_well(folder, session):
    assert run_check("channels_last", folder, Limits(seconds=60), session).state == SOLVED


def test_a_long_message_ends_with_a_whole_word():
    from dlojz.labs.probe.log import _short

    assert _short("It stops here.") == "It stops here"
    assert _short("all " * 200, 10) == "all all …"
