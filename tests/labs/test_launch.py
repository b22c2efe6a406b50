"""`dlojz launch`: which statements of a notebook submit, what a day would submit, and what is submitted when."""

import ast

import pytest

from dlojz import cli
from dlojz.jobs import jobs, recorded
from dlojz.labs import catalogue, launch, notebooks, workspace
from dlojz.system import sites
from dlojz.system.errors import UsageError

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


def test_each_submission_of_the_notebooks_is_found(here):
    for name in workspace.notebooks():
        cells = ["".join(cell["source"]) for cell in notebooks.read(name)["cells"] if cell["cell_type"] == "code"]
        asked = sum(text.count("submit(") for text in cells)
        assert asked == sum(ast.unparse(one).count("submit(") for one in launch.statements(notebooks.read(name))), name


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


def test_an_unsolved_workspace_is_refused(here):
    with pytest.raises(UsageError, match=r"labs that are not solved \(gpu, amp\).*--solved all"):
        launch.launch(launch.labs_of("amp"))


@pytest.mark.parametrize("what, said", [("day9", "there is no day 9"), ("anp", "did you mean 'amp'"), ("", "no day or lab ''")])
def test_what_is_no_day(what, said):
    with pytest.raises(UsageError, match=said):
        launch.labs_of(what)


def test_a_hunt_is_launched_with_its_lab():
    assert [lab.id for lab in launch.labs_of("profiler_hunt")] == ["profiler", "profiler_hunt"]


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
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("both"))
    assert line.split(None, 3)[1:] == ["2", "h100", "NVIDIA H100 80GB, torch 2.9, 2001-09-09"]
    assert recorded.reference("gpu").recorded == "h200", "the kit's are there too"
    assert cli.main(["reference", "save", "one", "--into", str(given / "other")]) == 0
    assert (given / "other" / "h100" / "one.jsonl").is_file()
    assert cli.main(["reference", "save", "none"]) == 2 and "there is no run 'none'" in capsys.readouterr().err
