"""Executes a notebook with nbval in a workspace, as a trainee would find it, and holds its checks and jobs against expectations.

nbval compares no output of a cell that was never executed, and lets a cell pass that is tagged `raises-exception` and raises
nothing. So nothing here leans on stored outputs: two cells with asserts are put round a copy of the notebook
(`dlojz.labs.notebooks.guarded`).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL

from dlojz.jobs import replay
from dlojz.labs import notebooks, workspace

BARE = "## To take along: the same in a bare loop"


@dataclass(frozen=True)
class Done:
    """``code``: that of pytest, 0 where every cell passed; None where it had to be ended."""

    code: int | None
    output: str


def lay_out(folder: Path, solved: bool) -> None:
    workspace.create(folder, ["all"] if solved else [])


def execute(folder: Path, name: str, expected: str, checked: set[str], recorded: Path | None = None, cell_seconds: float = 600,
            seconds: float = 1200) -> Done:
    """Run a notebook of this workspace with nbval; ``checked`` are the labs that it has to check. The runs in ``recorded`` answer
    its submissions. The limits are for a machine that is busy with much else."""
    guard(folder / name, expected, checked, recorded is not None)
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", f"--nbval-cell-timeout={cell_seconds:g}",
               "-q", "-x", "-p", "no:cacheprovider", "--color=no", "--durations=5", f"--rootdir={folder}", name]
    env = notebooks.environment(folder) | ({replay.VARIABLE: str(recorded)} if recorded else {})
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
        notebooks.end_jobs(folder, env)


def guard(file: Path, expected: str, checked: set[str], replayed: bool) -> None:
    """Puts the asserts in, and takes out the bare loop where another test runs it in the same way: test_bare_loops does what
    starts processes, and the notebook that trains has executed the others."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    loop = bare_loop(notebook)
    if replayed or len(loop) > 1:
        notebook["cells"] = [cell for cell in notebook["cells"] if cell not in loop]
    file.write_text(json.dumps(notebooks.guarded(notebook, expected, checked)), encoding="utf-8")


def bare_loop(notebook: dict) -> list[dict]:
    """The code cells after its heading, up to the next text: one, or a file of several processes and what starts them."""
    cells = iter(notebook["cells"])
    any("".join(cell["source"]).startswith(BARE) for cell in cells)  # goes on to it
    return list(itertools.takewhile(lambda cell: cell["cell_type"] == "code", cells))


def write(file: Path, *cells: str) -> None:
    """A notebook of these code cells."""
    code = [notebooks.cell(f"cell-{number}", "code", cell) for number, cell in enumerate(cells)]
    content = {"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(content), encoding="utf-8")
