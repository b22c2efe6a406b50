"""Executes a notebook with nbval in a workspace, as a trainee would find it, and holds its checks and jobs against expectations.

nbval compares no output of a cell that was never executed, and lets a cell pass that is tagged `raises-exception` and raises
nothing. So nothing here leans on stored outputs: two cells with asserts are put round a copy of the notebook, one that looks at
every verdict of `check` as it comes, and one that looks at what was checked and at how every job ended.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

from dlojz import jobs, paths, workspace
from dlojz.jobs import replay

MEANT_TO_END = {"too_large": "OUT_OF_MEMORY", "too_long": "CANCELLED",  # jobs of the notebooks that don't complete, by name
                "unused": "FAILED", "uneven": "FAILED", "killed": "FAILED", "hangs": "FAILED"}

BEFORE = """
import dlojz
from dlojz.labs import verbs

def _looked_at(lab, _check=verbs.check):
    outcome = _check(lab)
    _verdicts[lab] = outcome.state
    assert outcome.state == {expected!r}, f"check({{lab!r}}) says {{outcome.state}}, expected {expected}: {{outcome}}"
    return outcome

_verdicts = {{}}
dlojz.check = verbs.check = _looked_at
"""
AFTER = """
import dlojz
assert {checked!r} <= set(_verdicts), f"checked were {{sorted(_verdicts)}}, expected {checked!r}"
for _job in dlojz.jobs:
    _meant = {meant!r}.get(_job.name, "COMPLETED")
    assert _job.state == _meant, f"{{_job.run}} is {{_job.state}} ({{_job.reason}}), expected {{_meant}}: {{_job.err[-1000:]}}"
    _unwritten = [todo["lab"] for todo in _job.record.todos]
    assert not (_unwritten and {solved}), f"{{_job.run}} ran without {{_unwritten}} although all labs are solved"
"""


@dataclass(frozen=True)
class Done:
    """``code``: that of pytest, 0 where every cell passed; None where it had to be ended."""

    code: int | None
    output: str


def lay_out(folder: Path, solved: bool) -> None:
    workspace.create(folder, ["all"] if solved else [])


def environment(folder: Path) -> dict[str, str]:
    """Small runs, one's own queue, no widgets; one thread a process, since several tests may share two cores."""
    own = {
        "DLOJZ_SCALE": "ci", "DLOJZ_SITE": "laptop", "DLOJZ_PLAIN": "1", "DLOJZ_QUEUE": str(folder.parent / "queue"),
        "IPYTHONDIR": str(folder.parent / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder.parent / "runtime"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": paths.python_path(),
    }
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(("PYTEST", "DLOJZ", "SLURM")) or name == "DLOJZ_CACHE"}
    return inherited | own


def execute(folder: Path, name: str, expected: str, checked: set[str], recorded: Path | None = None, cell_seconds: float = 600,
            seconds: float = 1200) -> Done:
    """Run a notebook of this workspace with nbval; ``checked`` are the labs that it has to check. The runs in ``recorded`` answer
    its submissions. The limits are for a machine that is busy with much else."""
    guard(folder / name, expected, checked)
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", f"--nbval-cell-timeout={cell_seconds:g}",
               "-q", "-x", "-p", "no:cacheprovider", "--color=no", "--durations=5", f"--rootdir={folder}", name]
    env = environment(folder) | ({replay.VARIABLE: str(recorded)} if recorded else {})
    process = subprocess.Popen(command, cwd=folder, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=seconds)
        return Done(process.returncode, output)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)  # a kernel ends when whoever started it is gone
        output, _ = process.communicate()
        return Done(None, f"{output}\nended after {seconds:g} s")
    finally:
        end_jobs(folder, env)


def guard(file: Path, expected: str, checked: set[str]) -> None:
    notebook = json.loads(file.read_text(encoding="utf-8"))
    before = BEFORE.format(expected=expected)
    after = AFTER.format(checked=checked, meant=MEANT_TO_END, solved=expected == "SOLVED")
    notebook["cells"] = [_cell("guard-before", before), *notebook["cells"], _cell("guard-after", after)]
    file.write_text(json.dumps(notebook), encoding="utf-8")


def _cell(identifier: str, source: str) -> dict:
    empty = {"metadata": {}, "execution_count": None, "outputs": []}
    return {"cell_type": "code", "id": identifier, "source": source.strip(), **empty}


def end_jobs(folder: Path, env: dict[str, str]) -> None:
    """What a notebook that failed has left running."""
    before = os.environ.get("DLOJZ_QUEUE")
    os.environ["DLOJZ_QUEUE"] = env["DLOJZ_QUEUE"]
    try:
        left = [job for job in jobs.inside(folder) if job.status.active]
        for job in left:
            job.cancel()
        for job in left:
            job.wait(30)
    finally:
        os.environ.pop("DLOJZ_QUEUE")
        if before is not None:
            os.environ["DLOJZ_QUEUE"] = before


def write(file: Path, *cells: str) -> None:
    """A notebook of these code cells."""
    content = {"cells": [_cell(f"cell-{number}", cell) for number, cell in enumerate(cells)], "metadata": {}, "nbformat": 4,
               "nbformat_minor": 5}
    file.write_text(json.dumps(content), encoding="utf-8")


def checks_in(notebook: dict) -> set[str]:
    """The labs that the notebook's cells check."""
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    return set(re.findall(r"""(?m)^check\(["'](\w+)["']\)""", code))
