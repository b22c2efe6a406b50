"""Every notebook, executed twice: in a solved workspace each of its checks says solved, in a fresh one not attempted."""

import time

import harness
import pytest

from dlojz.labs import catalogue, notebooks, workspace

NOTEBOOKS = workspace.notebooks()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("state", ["fresh", "solved"])
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_executes(name, state, tmp_path):
    folder = tmp_path / "work"
    harness.lay_out(folder, solved=state == "solved")
    expected = "SOLVED" if state == "solved" else "NOT_ATTEMPTED"
    done = harness.execute(folder, name, expected, notebooks.checks_in(notebooks.read(name)))
    assert done.code == 0, done.output


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_has_the_form_of_a_notebook(name):
    """No outputs, no answers, links that lead somewhere, and what the notebook of a lab must say."""
    assert not notebooks.problems(name)


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


@pytest.mark.parametrize("why", FAILING)
def test_notices(why, fresh):
    cells, expected, message = FAILING[why]
    name = f"{why.replace(' ', '_')}.ipynb"
    harness.write(fresh / name, *cells)
    done = harness.execute(fresh, name, expected, {"gpu"}, cell_seconds=60, seconds=120)
    assert done.code == 1 and message in done.output, done.output


def test_lets_pass_what_is_right(fresh):
    harness.write(fresh / "right.ipynb", IMPORT, 'check("gpu")')
    done = harness.execute(fresh, "right.ipynb", "NOT_ATTEMPTED", {"gpu"}, cell_seconds=60, seconds=120)
    assert done.code == 0, done.output


def test_a_cell_that_does_not_end(fresh):
    harness.write(fresh / "sleeps.ipynb", "import time", "time.sleep(600)")
    began = time.monotonic()
    done = harness.execute(fresh, "sleeps.ipynb", "NOT_ATTEMPTED", {"gpu"}, cell_seconds=2, seconds=100)
    assert done.code == 1 and "Timeout of 2 seconds exceeded" in done.output, done.output
    assert time.monotonic() - began < 60


def test_a_notebook_that_does_not_end(fresh):
    """A cell that even an interrupt doesn't end: the whole is ended, and its kernel with it."""
    pid = fresh / "pid"
    cell = f"""
import os, pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))
while True: time.sleep(1)"""
    harness.write(fresh / "stubborn.ipynb", cell)
    done = harness.execute(fresh, "stubborn.ipynb", "NOT_ATTEMPTED", {"gpu"}, cell_seconds=90, seconds=15)
    assert done.code is None and "ended after 15 s" in done.output
    until = time.monotonic() + 20
    while alive(pid.read_text()) and time.monotonic() < until:
        time.sleep(0.2)
    assert not alive(pid.read_text()), "the kernel goes on"


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
