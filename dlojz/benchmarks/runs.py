"""Runs of a training script for a benchmark, each in a process of its own, and the numbers of their records."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from ..jobs.states import last_error
from ..system import paths
from ..system import processes as alive
from ..system.errors import UsageError
from ..training import records, summary

REFUSED = ("usage", "data")
TRAIN = paths.PACKAGE / "reference" / "train.py"


def loader_switches(workers: int, cuda: bool) -> list[str]:
    """A loader with everything on."""
    if not workers:
        return []
    switches = ["--num-workers", str(workers), "--persistent-workers", "--prefetch-factor", "4", "--drop-last"]
    return switches + (["--pin-memory", "--non-blocking"] if cuda else [])


def launched(script: Path, switches: list[str], processes: int, limit: float | None = None) -> subprocess.CompletedProcess:
    """Runs a script in as many processes, with what it prints as text. Raises subprocess.TimeoutExpired after ``limit`` seconds.
    However it ends, so does all that it has started: torchrun's processes have sessions of their own."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    mark = f"KIT_RUN={os.getpid()}-{time.monotonic_ns()}"
    env = os.environ | {"PYTHONPATH": paths.python_path()} | dict([mark.split("=")])
    try:
        return subprocess.run([sys.executable, *(torchrun if processes > 1 else []), str(script), *switches], env=env,
                              capture_output=True, text=True, timeout=limit)
    finally:
        alive.end(mark)


def run(switches: list[str], folder: Path, gpus: int = 1, script: Path = TRAIN, limit: float | None = None) -> records.Record:
    """One training run, to its record, which also says why a run has failed. Raises UsageError where it was refused: it would be
    every time; subprocess.TimeoutExpired after ``limit`` seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    ended = launched(script, [*switches, "--run-dir", str(folder)], gpus, limit)
    (folder / "out.log").write_text(ended.stdout)
    (folder / "err.log").write_text(ended.stderr)
    record = records.read(folder)
    refused = [error["message"] for error in record.errors if error.get("kind") in REFUSED]
    if ended.returncode and (refused or not record.errors):
        said = refused[0] if refused else last_error(folder / "err.log") or f"exit code {ended.returncode}"
        raise UsageError(f"{' '.join(switches)}: {said}")
    return record


def row(name: str, switches: list[str], record: records.Record) -> dict:
    """The numbers of a run: images/s over all processes, ms a step, GB at most, W."""
    found = summary.numbers(record)
    memory = found.get("memory_allocated") or found.get("host_memory")
    return {
        "name": name,
        "switches": " ".join(switches),
        "images_per_second": found.get("images_per_second"),
        "step_ms": found["step_seconds"] * 1000 if "step_seconds" in found else None,
        "memory_gb": memory / 1e9 if memory else None,
        "power": found.get("power"),
        "phases_ms": {phase: found[phase] * 1000 for phase in (*summary.PHASES, "loading") if phase in found},
        "error": record.errors[-1]["kind"] if record.errors else None,
    }
