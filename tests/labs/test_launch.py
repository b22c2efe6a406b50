"""`dlojz launch`: which statements of a notebook submit, what a day would submit, and what is submitted when."""

import ast
import os
import re
import shutil
from types import SimpleNamespace

import pytest

from dlojz import cli
from dlojz.doctor import evening
from dlojz.doctor.report import broken, fine
from dlojz.jobs import Job, jobs, recorded
from dlojz.jobs.job import load
from dlojz.labs import catalogue, launch, notebooks, workspace
from dlojz.system import sites
from dlojz.system.errors import UsageError
from dlojz.ui import words

CELLS = """
from dlojz import check, submit, views
import numpy
here = {"run": "quick.py", "names": ("a", "b")}
figure = views.dashboard(here)
rows = {name: 1 for name in here["names"]}
name = numpy.zeros(3)

one = submit(here["run"], name="one").wait()
check("gpu")
views.dashboard(one)

def seeds(switches, name):
    return submit([f"{here['run']} {switches} {seed}" for seed in (1, 2)], name=name)
both = seeds("--x", "both")
numpy.linalg.solve(name, name)

after = submit(f"{here['run']} --after {one.folder.name}", name="after")
gone = submit("quick.py --forever", name="too_long")
wrong = submit("nowhere.py", name="wrong")
more = submit(f"quick.py {wrong.folder}", name="more")

again = earlier("one", "quick.py")
%timeit one
"""
KEPT = ["from dlojz import", "here =", "one =", "def seeds", "both =", "after =", "gone =", "wrong =", "more ="]


def notebook(text=CELLS):
    return {"cells": [notebooks.cell(f"c{i}", "code", part) for i, part in enumerate(text.split("\n\n"))]}


@pytest.fixture
def given(here, monkeypatch, tmp_path):
    """A solved workspace whose notebooks are all the one above, with a queue of its own."""
    workspace.create(here, ["all"])
    (here / "quick.py").write_text("print('done')")
    monkeypatch.setenv("DLOJZ_QUEUE", str(tmp_path / "queue"))
    monkeypatch.setattr(launch.notebooks, "read", lambda name: notebook())
    return here


def test_only_what_submits_and_what_that_needs():
    kept = [ast.unparse(one) for one in launch.statements(notebook())]
    assert [line.startswith(begin) for line, begin in zip(kept, KEPT, strict=True)] == [True] * len(KEPT)


def test_the_names_of_the_runs():
    assert launch.names(notebook()) == ["one", "both", "after", "too_long", "wrong", "more"]
    some = notebook('for kind in ("a", "b"):\n    submit("x.py", name=f"of_{kind}")\n    submit("x.py", name=kind)')
    assert launch.names(some) == ["of_*"]


def test_each_submission_of_the_notebooks_is_found(here):
    for name in workspace.notebooks():
        cells = ["".join(cell["source"]) for cell in notebooks.read(name)["cells"] if cell["cell_type"] == "code"]
        asked = sum(text.count("submit(") for text in cells)
        assert asked == sum(ast.unparse(one).count("submit(") for one in launch.statements(notebooks.read(name))), name


def test_no_two_notebooks_call_different_runs_the_same():
    """They share a workspace: `jobs["sweep"]`, and the records of all, must mean one thing."""
    found = {}
    for name in workspace.notebooks():
        for run in re.findall(r'submit\(.*?\bname="(\w+)"', notebooks.text(notebooks.read(name))):
            assert found.setdefault(run, name) == name, run


def test_a_day_as_it_would_be_submitted(here, monkeypatch, capsys):
    monkeypatch.setenv("IDRPROJ", "abc")
    assert cli.main(["launch", "day1", "--dry-run", "--site", "jean-zay"]) == 0
    said = capsys.readouterr().out
    names = {line.split()[0] for line in said.splitlines()[1:-1]}
    assert {"cpu", "gpu", "sweep", "too_large", "amp", "amp_pair", "channels_last", "profile_small", "shapes_mended"} <= names
    labs = [lab for lab in catalogue.labs().values() if lab.day == 1]
    minutes, count = sum(lab.gpu_minutes for lab in labs), len(said.splitlines()) - 2
    assert f"{count} runs for the site jean-zay, about {minutes:g} GPU-minutes in all, {count * 20} if each" in said
    assert not list((here / "runs").iterdir()) and sites.current().name == "laptop"
    assert [words.gpu_minutes(count) for count in (0.5, 1, 3.0)] == ["0.5 GPU-minutes", "1 GPU-minute", "3 GPU-minutes"]


def test_what_shows_a_script_before_it_is_mended_is_left_out(here):
    """A solved workspace has only the mended ones, and would call what they do `shapes` and `own_before`."""
    workspace.create(here, ["all"])
    planned = [each.name for each in launch.plan(launch.labs_of("profiler") + launch.labs_of("own")).requests]
    assert planned == ["profile_small", "profile_large", "shapes_mended", "letters_mended", "faces_mended", "own", "own_trace"]


def test_all_is_submitted_each_when_it_can_be(given, capsys):
    said = []
    found = launch.launch(launch.labs_of("amp"), say=said.append, pause=0.05)
    assert [job.run for job in found] == ["one-001", "both-001", "both-002", "after-001"]
    assert all(job.state == "COMPLETED" and launch.went_as_meant(job) for job in found)
    assert jobs["after"].command == "quick.py --after one-001" and jobs["after"].submitted > jobs["one"].status.started
    assert sum("nowhere.py" in line for line in said) == 1 and "more" not in jobs and "too_long" not in jobs

    assert cli.main(["launch", "amp"]) == 1, "a run that cannot be submitted is said, and is a failure"
    out = capsys.readouterr().out
    assert "COMPLETED (was there already)" in out and "nowhere.py" in out and len(jobs) == 4
    assert "4 runs have ended as they should" in out


def test_a_day_is_rehearsed(given, monkeypatch, capsys):
    """Every launch with a time limit of its own, in a workspace of its own; what did not end well is on the page."""
    (given / "quick.py").write_text("import os; print(os.environ['DLOJZ_SCALE'])")
    monkeypatch.setattr(evening, "doctor", lambda: SimpleNamespace(findings=[fine("Site", "x"), broken("Disk", "full", "Free")]))
    monkeypatch.setattr(evening.inductor, "warm", lambda: "it is warm")
    monkeypatch.setattr(evening.layout, "create", lambda folder, _: shutil.copytree(given, folder))
    assert cli.main(["rehearse", "amp", "--html", str(given / "page.html")]) == 1
    out = capsys.readouterr().out
    assert "2 things are broken" in out and "Disk" in out and "nowhere.py" in out and "it is warm" in out
    assert len(re.findall(r"ok +(one-001|both-00[12]|after-001) +COMPLETED in", out)) == 4
    (folder,) = given.glob("rehearsal-*")
    assert not list((given / "runs").iterdir()) and load(folder / "runs" / "one-001").request.seconds == 300
    assert (folder / "runs" / "one-001" / "out.log").read_text() == "ci\n" and "DLOJZ_SCALE" not in os.environ
    assert "nowhere.py" in (given / "page.html").read_text()


def test_a_launch_that_failed_says_how_its_log_ends(tmp_path):
    status = {"state": "FAILED", "reason": "exit code 1", "started": 12.0, "ended": 15.0, "exit_code": 1}
    asked = {"name": "amp", "command": ["train.py"], "site": "x"}
    (tmp_path / "amp-001").mkdir()
    (tmp_path / "amp-001" / "err.log").write_text("Traceback\nNo module named torch\n\n")
    said = evening.say_launch(Job(tmp_path / "amp-001", {"request": asked, "status": status, "submitted": 2.0, "id": "1",
                                                             "launcher": "local"}))
    assert said.text == "FAILED in 3.00 s, after 10.0 s in the queue: exit code 1" and said.level == "broken"
    assert said.advice.endswith("err.log ends with: No module named torch")


SHOWN = "ReservationName=course StartTime=2026-11-29T08:00:00 EndTime={end}\n   Nodes=gpu[1-4] State={state}\n"


@pytest.mark.parametrize("name, end, state, level, said", [
    ("course", "2099-01-01T00:00:00", "ACTIVE", "fine", "nodes gpu[1-4]"),
    ("course", "2099-01-01T00:00:00", "INACTIVE", "worth knowing", "has not begun"),
    ("course", "2020-01-01T00:00:00", "INACTIVE", "broken", "it is over"),
    ("other", "", "", "broken", "knows no reservation other"), ("", "", "", "worth knowing", "none"),
])
def test_a_reservation(name, end, state, level, said):
    class Fake:
        def run(self, command, seconds):
            known = command == ["scontrol", "show", "reservation", "course"]
            return SimpleNamespace(returncode=not known, stdout=SHOWN.format(end=end, state=state) if known else "")

    site = sites.parse(f'launcher = "slurm"\ndirectives = ["--reservation={name}"]\n' if name else 'launcher = "slurm"', "x")
    (found,) = evening.say_reservation(Fake(), site)
    assert found.level == level and said in found.text


def test_storage(tmp_path, monkeypatch):
    site = sites.parse(f'[storage.work]\npath = "{tmp_path}"\nquota = "1 TB"\n[storage.gone]\npath = "$NO_SUCH/x"\n', "x")
    monkeypatch.setattr(evening, "LOW", 0)
    monkeypatch.setattr(evening, "FEW", 0)
    work, gone = evening.say_storage(site)
    assert work.level == "fine" and "your quota is 1 TB" in work.text and "$NO_SUCH/x is not there" in gone.text
    monkeypatch.setattr(evening, "LOW", 1e30)
    assert next(evening.say_storage(site)).level == "broken"


def test_an_unsolved_workspace_is_refused(here):
    with pytest.raises(UsageError, match=r"labs that are not solved \(gpu, amp\).*--solved all"):
        launch.launch(launch.labs_of("amp"))


@pytest.mark.parametrize("what, said", [("day9", "there is no day 9"), ("anp", "did you mean 'amp'"), ("", "no day or lab ''")])
def test_what_is_no_day(what, said):
    with pytest.raises(UsageError, match=said):
        launch.labs_of(what)


def test_a_silent_controller_is_asked_once(here, monkeypatch):
    asked = []

    def silent(cluster):
        asked.append(cluster)
        raise UsageError("sinfo fails")

    monkeypatch.setattr(sites, "discovered", silent)
    with pytest.raises(UsageError, match="sinfo fails"):
        launch.plan(launch.labs_of("day1"), "slurm")
    assert len(asked) == 1


def test_a_hunt_is_launched_with_its_lab():
    assert [lab.id for lab in launch.labs_of("profiler_hunt")] == ["profiler", "profiler_hunt"]


def test_what_is_never_kept_is_no_gap(here, monkeypatch):
    """lab.toml says what records no timed step (heads.py times none); `reference list` asks for none of them."""
    workspace.create(here, ["all"])
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    for one in launch.plan(list(catalogue.labs().values())).requests:
        script = next((here / part for part in one.command if part.endswith(".py")), None)
        records_steps = script and re.search(r"Training|bench|run\.steps\(", script.read_text())
        known = one.name in {"heads", "own_trace", *notebooks.ends()}
        assert known or bool(records_steps) != launch.is_stepless(one.name), one.name
    monkeypatch.setattr(launch, "kept_runs", dict)
    listed = set(re.findall(r"[\w*]+", launch.recorded().replace("\n", " , ")))
    assert "each" in listed and not listed & {"shapes", "own_before", "heads"}
    assert not listed & {"search", "links", "pipeline", "ddp_statistics", "hunt_*", "fsdp_hunt_*"}


def test_a_pattern_is_no_run_that_a_notebook_names(monkeypatch):
    def gaps(*names):
        monkeypatch.setattr(launch, "kept_runs", lambda: {"h100": {name: [] for name in names}})
        return next(line for line in launch.recorded().splitlines() if line.startswith("ddp "))

    assert re.split("  +", gaps("ddp_advanced", "ddp_one")) == ["ddp", "ddp_one", "ddp, ddp_*, ddp_talk"]
    assert re.split("  +", gaps("ddp_4")) == ["ddp", "ddp_*", "ddp_one, ddp, ddp_talk"]


def test_records_are_kept_for_the_site(given, monkeypatch, capsys):
    """A run of this site is found by `reference`, before those of the kit."""
    (given / "quick.py").write_text(
        "import json, os\nfrom pathlib import Path\n"
        "steps = [{'event': 'step', 'step': n, 'seconds': 0.5, 'images': 8, **({'warmup': True} if n < 3 else {})} "
        "for n in range(1, 400)]\n"
        "events = [{'event': 'start', 'time': 1e9, 'machine': {'gpu': 'NVIDIA H100 80GB', 'device': 'cuda'}, "
        "'versions': {'torch': '2.9'}}, *steps, {'event': 'end', 'status': 'completed'}]\n"
        "Path(os.environ['DLOJZ_RUN'], 'record.jsonl').write_text('\\n'.join(map(json.dumps, events)))")
    launch.launch(launch.labs_of("amp"), say=len, pause=0.05)
    (given / "sites").mkdir()
    (given / "sites" / "mine.toml").write_text('launcher = "local"\nreferences = "ours"\n')
    monkeypatch.setenv("DLOJZ_SITE", "mine")
    assert cli.main(["reference", "save"]) == 0
    out = capsys.readouterr().out
    assert f"one-001: {given}/sites/ours/h100/one.jsonl" in out and "h100/both-2.jsonl" in out
    run = recorded.reference("one", on="H100")
    assert run.numbers["images_per_second"] == pytest.approx(16) and len(run.record.steps) <= recorded.MOST + 2
    assert run.record.steps[-1]["step"] == 399 and len(recorded.reference("both")) == 2
    assert cli.main(["reference", "list"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines["both"].split(None, 3)[1:] == ["2", "h100", "NVIDIA H100 80GB, torch 2.9, 2001-09-09"]
    assert re.split("  +", lines["ddp"]) == ["ddp", "one, both, after", "wrong, more"], "`too_long` is there to be cancelled"
    assert recorded.reference("gpu").recorded == "h200", "the kit's are there too"
    assert "replaces" not in out
    assert cli.main(["reference", "save", "one"]) == 0
    assert "h100/one.jsonl (replaces the record that was there)" in capsys.readouterr().out
    assert cli.main(["reference", "save", "one", "--into", str(given / "other")]) == 0
    assert (given / "other" / "h100" / "one.jsonl").is_file()
    assert cli.main(["reference", "save", "none"]) == 2 and "there is no run 'none'" in capsys.readouterr().err
