"""The launcher that answers a submission with a recorded run."""

import json

import pytest
from patience import LIMIT

from dlojz.jobs import jobs, replay, submit
from dlojz.jobs.replay import normalised
from dlojz.system.errors import UsageError
from dlojz.training import records

SCRIPT = """
    import os, sys
    from pathlib import Path
    run = Path(os.environ["DLOJZ_RUN"])
    print("ran", *sys.argv[1:])
    (run / "record.jsonl").write_text('{"event": "start", "time": 1, "command": "train"}\\n')
    (run / "traces").mkdir()
    (run / "traces" / "one.json").write_text("{}")
    sys.exit(3 if "--wrong" in sys.argv else 0)
    """


@pytest.fixture
def recorded(ws, monkeypatch, tmp_path):
    """Runs that the machine's own queue has recorded, moved to a folder of their own."""
    ws.script("train.py", SCRIPT)
    submit("train.py --amp bf16 --lr 0.1", name="amp").wait(LIMIT)
    submit("train.py --wrong", name="wrong").wait(LIMIT)
    folder = tmp_path / "recorded"
    (ws.folder / "runs").rename(folder)
    ws.script("train.py", "raise SystemExit('it ran')")
    monkeypatch.setenv(replay.VARIABLE, str(folder))
    return folder


def test_a_submission_gets_the_recorded_run(ws, recorded):
    job = submit("train.py --lr=0.1 --amp bf16", name="mine")
    assert job.state == "COMPLETED" and job.exit_code == 0 and job.log.strip() == "ran --amp bf16 --lr 0.1"
    assert "nothing ran here: this is the recorded run amp-001" in repr(job)
    assert job.run == "mine-001" and job.command == "train.py --lr=0.1 --amp bf16"
    assert job.record.start["command"] == "train" and (job.folder / "traces" / "one.json").exists()
    before = json.loads((recorded / "amp-001" / "job.json").read_text())["status"]
    assert job.elapsed == pytest.approx(before["ended"] - before["started"], abs=0.01)
    assert not ws.queue.ids(), "the machine's queue has nothing to do with it"


def test_a_failure_is_replayed_too(recorded):
    job = submit("train.py --wrong", name="wrong")
    assert (job.state, job.exit_code) == ("FAILED", 3)
    job.cancel()
    assert job.wait(1).state == "FAILED"


def test_it_is_found_again_and_rerun(ws, recorded):
    job = submit("train.py --wrong", name="wrong")
    assert submit("train.py --wrong", name="wrong").found
    assert job.rerun().run == "wrong-002" and jobs["wrong"].state == "FAILED"


def test_a_sweep(recorded):
    sweep = submit(["train.py --wrong", "train.py --amp bf16 --lr 0.1"], name="sweep").wait(1)
    assert sweep.states == ["FAILED", "COMPLETED"] and len({job.id for job in sweep}) == 2


def test_what_is_not_recorded_is_refused_and_leaves_nothing(ws, recorded):
    with pytest.raises(UsageError, match=r"no recorded run of `train.py --amp fp16 --lr 0.1`: did you mean 'train.py --amp bf16"):
        submit(["train.py --wrong", "train.py --amp fp16 --lr 0.1"], name="other")
    with pytest.raises(UsageError, match=r"has no recorded run of `train.py --wrong \(2 processes\)`"):
        submit("train.py --wrong", name="other", processes=2)
    assert not list((ws.folder / "runs").iterdir())


def test_the_same_name_goes_first_then_the_latest(recorded):
    source = recorded / "amp-001"
    for name, submitted in (("amp-002", 2e9), ("other-001", 3e9)):
        (recorded / name).mkdir()
        content = json.loads((source / "job.json").read_text()) | {"submitted": submitted}
        content["request"]["name"] = name.partition("-")[0]
        (recorded / name / "job.json").write_text(json.dumps(content))
        (recorded / name / "out.log").write_text(name)
    command = "train.py --amp bf16 --lr 0.1"
    assert [submit(command, name=name).log for name in ("amp", "other", "third")] == ["amp-002", "other-001", "other-001"]


def test_a_site_names_its_recorded_runs(ws, recorded, monkeypatch):
    monkeypatch.delenv(replay.VARIABLE)
    (ws.folder / "sites").mkdir()
    (ws.folder / "sites" / "seen.toml").write_text('launcher = "replay"\nrecorded = "../../recorded"\ngpus = 0\n')
    monkeypatch.setenv("DLOJZ_SITE", "seen")
    assert submit("train.py --wrong", name="wrong").state == "FAILED"


@pytest.mark.parametrize("variable, expected", [("", "there is no folder of recorded runs"), ("none", "does not exist")])
def test_where_there_is_no_folder(ws, monkeypatch, tmp_path, variable, expected):
    monkeypatch.setenv(replay.VARIABLE, variable and str(tmp_path / variable))
    with pytest.raises(UsageError, match=expected):
        replay.recordings("laptop")


@pytest.mark.parametrize("one, other, same", [
    ("train.py --a 1 --b", "train.py --b --a=1", True),
    ("train.py --a 1 --a 2", "train.py --a 2", True),
    ("train.py --run-dir x --lr -0.5", "train.py --lr -0.5", True),
    ("train.py --lr -0.5", "train.py --lr 0.5", False),
    ("-m one.module unused --a", "-m one.module uneven --a", False),
    ("train.py --a 1 2", "train.py --a 2 1", False),
    ("train.py a b", "train.py b a", False),
    ("train.py", "-m train.py", False),
])
def test_commands_that_are_one(one, other, same):
    assert (normalised(one.split()) == normalised(other.split())) == same


def test_records_are_copies(recorded):
    job = submit("train.py --amp bf16 --lr 0.1", name="amp")
    (job.folder / records.NAME).write_text("")
    assert records.read(recorded / "amp-001").start
