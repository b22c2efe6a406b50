"""Every notebook, executed twice: in a solved workspace each of its checks says solved, in a fresh one not attempted.

The solved one trains. In the fresh one the runs of the solved one answer the submissions, but for `make test-all`."""

import time
from types import SimpleNamespace

import harness
import pytest

from dlojz.labs import catalogue, notebooks, workspace
from dlojz.training.records import Record

pytestmark = pytest.mark.spread
NOTEBOOKS = workspace.notebooks()


def executed(folder, name, solved, recorded=None):
    harness.lay_out(folder, solved)
    checked = notebooks.checks_in(notebooks.read(name))
    done = harness.execute(folder, name, "SOLVED" if solved else "NOT_ATTEMPTED", checked, recorded)
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
def test_has_the_form_of_a_notebook(name):
    """No outputs, no answers, links that lead somewhere, and what the notebook of a lab must say."""
    assert not notebooks.problems(name)


@pytest.mark.parametrize("name, cell, said", [
    ("day0_start.ipynb", "start-16", "x-001 recorded no step (CANCELLED). Run it again: job = job.rerun()"),
    ("day2_3_ddp_advanced.ipynb", "ddp-advanced-29", 
     "x-001 recorded no error (CANCELLED). Run it again: uneven = uneven.rerun()"),
])
def test_a_cell_says_what_a_cancelled_run_did_not_record(name, cell, said, capsys):
    source = next("".join(each["source"]) for each in notebooks.read(name)["cells"] if each["id"] == cell)
    run = SimpleNamespace(run="x-001", state="CANCELLED", record=Record([]), wait=lambda: run)
    known = {"job": run, "submit": lambda *words, **options: run, "two": {}}
    exec(source, known)
    assert said in (known.get("step"), capsys.readouterr().out.strip())


def test_each_lab_has_a_notebook():
    labs = [lab.id for lab in catalogue.labs().values() if not lab.notebook]
    assert sorted(labs) == sorted(notebooks.lab_of(name) for name in NOTEBOOKS if notebooks.lab_of(name))


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


@pytest.mark.parametrize("why", [pytest.param(why, marks=[] if "job" in why else pytest.mark.long) for why in FAILING])
def test_notices(why, fresh):
    cells, expected, message = FAILING[why]
    name = f"{why.replace(' ', '_')}.ipynb"
    harness.write(fresh / name, *cells)
    done = harness.execute(fresh, name, expected, {"gpu"})
    assert done.code == 1 and message in done.output, done.output


@pytest.mark.long  # so does each notebook of the kit
def test_lets_pass_what_is_right(fresh):
    harness.write(fresh / "right.ipynb", IMPORT, 'check("gpu")')
    done = harness.execute(fresh, "right.ipynb", "NOT_ATTEMPTED", {"gpu"})
    assert done.code == 0, done.output


def test_a_cell_that_does_not_end(fresh):
    harness.write(fresh / "sleeps.ipynb", "import time", "time.sleep(6000)")
    done = harness.execute(fresh, "sleeps.ipynb", "NOT_ATTEMPTED", {"gpu"}, cell_seconds=2, seconds=500)
    assert done.code == 1 and "Timeout of 2 seconds exceeded" in done.output, done.output


@pytest.mark.long
def test_a_notebook_that_does_not_end(fresh):
    """A cell that even an interrupt does not end: the whole is ended, and its kernel with it. That has begun in 40 seconds."""
    pid = fresh / "pid"
    cell = f"""
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))
while True: time.sleep(1)"""
    harness.write(fresh / "stubborn.ipynb", cell)
    done = harness.execute(fresh, "stubborn.ipynb", "NOT_ATTEMPTED", {"gpu"}, cell_seconds=900, seconds=40)
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
