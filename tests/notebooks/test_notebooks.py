"""Every notebook, executed twice: in a solved workspace each of its checks says solved, in a fresh one not attempted.

The solved one trains. In the fresh one the runs of the solved one answer the submissions, but for `make test-all`."""

import json
import re
import time

import harness
import pytest
from patience import patient

from dlojz import paths, workspace
from dlojz.labs import catalogue

NOTEBOOKS = workspace.notebooks()


def read(name):
    return json.loads(paths.share("notebooks", name).read_text(encoding="utf-8"))


def lab_of(name):
    """The lab that a notebook is about: dayN_M_ID.ipynb; None for one without (day0_start)."""
    match = re.fullmatch(r"day\d_\d+_(\w+)\.ipynb", name)
    return match and match[1]


def executed(folder, name, solved, recorded=None):
    harness.lay_out(folder, solved)
    done = harness.execute(folder, name, "SOLVED" if solved else "NOT_ATTEMPTED", harness.checks_in(read(name)), recorded)
    assert done.code == 0, done.output


@pytest.mark.slow
@pytest.mark.timeout(2500)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_executes_solved_then_fresh(name, tmp_path):
    executed(tmp_path / "solved" / "work", name, solved=True)
    executed(tmp_path / "fresh" / "work", name, solved=False, recorded=tmp_path / "solved" / "work" / "runs")


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_trains_in_a_fresh_workspace(name, tmp_path):
    executed(tmp_path / "work", name, solved=False)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_is_clean(name):
    """No outputs, nothing that makes nbval look away, no answers."""
    notebook = read(name)
    assert notebook["nbformat"] == 4 and notebook["metadata"]["kernelspec"]["name"] == "python3"
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    for cell in notebook["cells"]:
        assert not cell["metadata"], "a tag or a setting"
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
            assert not re.search("NBVAL|PYTEST_VALIDATE", "".join(cell["source"]))
            assert not re.search(r"\b(solve|diff|catch_up|reset)\(", "".join(cell["source"])), "only the trainee does this"


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if lab_of(name)])
def test_belongs_to_its_lab(name):
    notebook, lab = read(name), catalogue.lab(lab_of(name))
    text = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
    head = "".join(notebook["cells"][0]["source"])
    assert name.startswith(f"day{lab.day}_{lab.order}_")
    assert f"# Day {lab.day}, lab {lab.order}: " in head
    said = f"Difficulty {lab.difficulty} of 5 · importance {lab.importance} of 5 · {lab.minutes} minutes"
    said += f", of which {lab.gpu_minutes:g} on a GPU" if lab.gpu_minutes else ""
    assert f"{said} · lab `{lab.id}`" in head
    assert "You will be able to" in head
    labs = [lab, *(other for other in catalogue.labs().values() if other.notebook == lab.id)]
    assert harness.checks_in(notebook) == {each.id for each in labs}
    assert f'predict("{lab.id}", "{lab.prediction.question}")' in text, "another is compared with nothing"
    for each in labs:
        assert f'edit("{each.id}")' in text and f'quiz("{each.id}")' in text and f"`>>> {each.id}`" in text
        for file in each.files:
            assert f"[{file}]({file})" in text
        for fence in each.fences:
            assert f"`{fence}`" in text, "each fence is named in the table of what to write"


def test_each_lab_has_a_notebook():
    labs = [lab.id for lab in catalogue.labs().values() if not lab.notebook]
    assert sorted(labs) == sorted(lab_of(name) for name in NOTEBOOKS if lab_of(name))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_lead_somewhere(name):
    """Links without an address are to files of the workspace."""
    text = "\n".join("".join(cell["source"]) for cell in read(name)["cells"] if cell["cell_type"] == "markdown")
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if not target.startswith("https://"):
            assert target in (*workspace.references(), *NOTEBOOKS, workspace.MARKER), target


# --- the harness itself: each of these notebooks has to fail, and for its own reason ------------------------------------------


@pytest.fixture
def fresh(tmp_path):
    folder = tmp_path / "work"
    harness.lay_out(folder, solved=False)
    return folder


IMPORT = "from dlojz import check, submit"
FAILING = {
    "another outcome": ([IMPORT, 'check("gpu")'], "SOLVED", "says NOT_ATTEMPTED, expected SOLVED"),
    "an exception": (["print('well')", "1 / 0"], "NOT_ATTEMPTED", "ZeroDivisionError"),
    "a check that is not there": ([IMPORT], "NOT_ATTEMPTED", "checked were"),
    "a job that failed": ([IMPORT, 'submit("train.py --model no_such", name="wrong").wait()', 'check("gpu")'], "NOT_ATTEMPTED",
                          "wrong-001 is FAILED"),
}


@pytest.mark.parametrize("why", FAILING)
def test_notices(why, fresh):
    cells, expected, message = FAILING[why]
    name = f"{why.replace(' ', '_')}.ipynb"
    harness.write(fresh / name, *cells)
    done = harness.execute(fresh, name, expected, {"gpu"})
    assert done.code == 1 and message in done.output, done.output


def test_lets_pass_what_is_right(fresh):
    harness.write(fresh / "right.ipynb", IMPORT, 'check("gpu")')
    done = harness.execute(fresh, "right.ipynb", "NOT_ATTEMPTED", {"gpu"})
    assert done.code == 0, done.output


def test_a_cell_that_does_not_end(fresh):
    harness.write(fresh / "sleeps.ipynb", "import time", "time.sleep(6000)")
    done = harness.execute(fresh, "sleeps.ipynb", "NOT_ATTEMPTED", {"gpu"}, cell_seconds=2, seconds=500)
    assert done.code == 1 and "Timeout of 2 seconds exceeded" in done.output, done.output


def test_a_notebook_that_does_not_end(fresh):
    """A cell that even an interrupt doesn't end: the whole is ended, and its kernel with it."""
    pid = fresh / "pid"
    cell = f"""
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))
while True: time.sleep(1)"""
    harness.write(fresh / "stubborn.ipynb", cell)
    done = harness.execute(fresh, "stubborn.ipynb", "NOT_ATTEMPTED", {"gpu"}, cell_seconds=900, seconds=patient(15))
    assert done.code is None and "ended after" in done.output
    until = time.monotonic() + 120
    while alive(pid.read_text()) and time.monotonic() < until:
        time.sleep(0.2)
    assert not alive(pid.read_text()), "the kernel goes on"


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
