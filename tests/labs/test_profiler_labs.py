"""The figures of the notebook about the profiler, and the scripts of its hunt."""

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from dlojz import views
from dlojz.labs import catalogue, fences, workspace
from dlojz.labs.checking import run_check
from dlojz.labs.outcome import WRONG
from dlojz.labs.probe import Limits, Session
from dlojz.labs.profiler import figures
from dlojz.labs.profiler_hunt import bench
from dlojz.system import paths
from dlojz.training import records
from dlojz.training.chronometer import Chronometer, HostClock

HUNT = catalogue.lab("profiler_hunt")
LOOK = {"hunt/slow_shapes.py": "unpacked", "hunt/slow_letters.py": "to read a value", "hunt/slow_faces.py": "operations"}


def script(folder, name, *switches, code=0, **variables):
    """``python hunt/NAME.py`` in a solved or fresh workspace; its output, once its exit code was looked at."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DLOJZ", "SLURM"))}
    own = {"DLOJZ_SITE": "laptop", "DLOJZ_SCALE": "ci", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(paths.PACKAGE.parent)}
    done = subprocess.run([sys.executable, f"hunt/{name}.py", *map(str, switches)], cwd=folder, env=inherited | own | variables,
                          text=True, capture_output=True, timeout=600, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A fresh workspace in which one script has run with --profile."""
    folder = tmp_path_factory.mktemp("hunt") / "work"
    workspace.create(folder)
    said = script(folder, "slow_letters", "--profile", "--run-dir", folder / "runs" / "letters")
    return folder, said


def test_a_script_leaves_a_record_and_a_trace(traced):
    folder, said = traced
    run = folder / "runs" / "letters"
    record = records.read(run)
    assert record.start["model"] == "Net" and record.start["args"]["profile"] and len(record.steps) == 6
    assert record.end["status"] == "completed" and record.end["trace"] is True
    assert "96 letters; most often wrong" in said and "steps             6 of 6" in said
    assert "loader" in repr(views.trace(run)) and "diagnosis" in repr(views.trace(run))


def test_writing_a_trace_is_no_part_of_a_step(tmp_path):
    now = [0.0]

    def clock():
        return now[0]

    class Slow:
        def step(self):
            now[0] += 100

    record = records.Writer()
    run = bench.Run(bench.arguments("-", ["--steps", "4", "--device", "cpu", "--run-dir", str(tmp_path)]), record)
    run.chronometer = Chronometer(record, clock=HostClock(clock), host=clock)
    run.profiler = lambda: nullcontext(Slow())
    for seconds in run.steps([1, 2]):
        now[0] += seconds
    record.flush()
    assert [step["seconds"] for step in records.read(tmp_path).steps] == [1, 2, 1, 2]


def test_counted(traced, tmp_path):
    text = repr(figures.counted(traced[0] / "runs" / "letters"))
    row = next(line for line in text.splitlines() if line.startswith("values asked for"))
    assert float(row.split()[-1]) == pytest.approx(4 * 16, abs=1)  # four for each of the 16 letters of a batch
    (tmp_path / "record.jsonl").write_text(json.dumps({"event": "start"}) + "\n")
    nothing = figures.counted(tmp_path)
    assert "nothing" in repr(nothing) and tmp_path.name in repr(nothing)


def test_counted_on_a_gpu():
    row = SimpleNamespace
    launches = row(kernels=900.0, runs=3e-6, every=9e-6)
    facts = row(seconds=0.02, loader=0.001, on_gpu=True, busy=0.25, launches=launches, called=3.0, reads=row(count=1.0, where=""))
    assert figures._numbers(facts) == {
        ("per step", "ms"): 20, ("waits for the loader", "ms"): 1, ("operators", "calls"): 3,
        ("values asked for", "aten::item"): 1, ("the GPU is busy", "%"): 25, ("kernels", ""): 900,
        ("a kernel runs", "µs"): pytest.approx(3),
        ("a launch every", "µs"): pytest.approx(9)}


def test_schedule_is_torch_s():
    text = repr(figures.schedule(5, 3, 5, 1, 20))
    assert "steps 6 to 8: warms up" in text and "steps 9 to 13: records" in text and "at the end of step 13." in text
    assert "at the end of steps 5 and 10." in repr(figures.schedule(1, 1, 3, 2, 20))
    assert "too short for this schedule" in repr(figures.schedule(steps=7))
    assert "a trace is written then, of no step" in repr(figures.schedule(steps=8))


def test_figures_are_text_and_pages():
    found = [figures.schedule(), figures.patterns(), figures.cost(operations=20, repeat=1)]
    for view in found:
        page = view._repr_html_()
        assert repr(view) and "<" not in repr(view) and "<script" not in page
        assert 'fill="#000' not in re.sub(r"<text[^>]*>", "", page)  # black words lie on a colour
    assert all(f"  {pattern.name}: " in repr(found[1]) for pattern in figures.PATTERNS) and len(figures.PATTERNS) == 6


@pytest.mark.parametrize("switches, variables, message", [
    (["--steps", "0"], {}, "argument --steps"),
    (["--batch-size", "4096", "--steps", "2"], {}, "too few items for a batch of 4096"),
    ([], {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}, "is for one process"),
], ids=["no steps", "too few items", "torchrun"])
def test_wrong_usage(traced, tmp_path, switches, variables, message):
    said = script(traced[0], "slow_shapes", "--run-dir", tmp_path / "run", *switches, code=2, **variables)
    assert message in said.splitlines()[-1]


@pytest.fixture(scope="module")
def session():
    with Session(Limits(seconds=60)) as session:
        yield session


@pytest.mark.parametrize("file", HUNT.files)
def test_each_cause_is_found_where_it_is_left(file, session, tmp_path):
    """The two others are mended."""
    for name in catalogue.files():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = catalogue.laid_out(name, catalogue.labs())
        stubs = {fence: HUNT.stubs[fence] for fence in HUNT.fences_in(name)} if name == file else {}
        (tmp_path / name).write_text(fences.replace(text, stubs, name))
    outcome = run_check("profiler_hunt", tmp_path, Limits(seconds=60), session)
    assert outcome.state == WRONG and LOOK[file] in outcome.message and file.removeprefix("hunt/") in outcome.message, outcome
    assert f"Not edited yet: {next(iter(HUNT.fences_in(file)))}." in outcome.message
