"""Runs of the training script for a benchmark, each in a process of its own, and the numbers of their records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .. import paths, records, summary
from ..errors import UsageError

TRAIN = paths.PACKAGE / "reference" / "train.py"


def loader_switches(workers: int, cuda: bool) -> list[str]:
    """A loader with everything on."""
    if not workers:
        return []
    switches = ["--num-workers", str(workers), "--persistent-workers", "--prefetch-factor", "4", "--drop-last"]
    return switches + (["--pin-memory", "--non-blocking"] if cuda else [])


def run(switches: list[str], folder: Path, gpus: int = 1) -> records.Record:
    """One training run, to its record. Raises UsageError with the end of what it printed where it failed."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}"]
    launcher = [sys.executable, *(torchrun if gpus > 1 else [])]
    folder.mkdir(parents=True)
    ended = subprocess.run([*launcher, str(TRAIN), *switches, "--run-dir", str(folder)], capture_output=True, text=True)
    (folder / "out.log").write_text(ended.stdout + ended.stderr)
    record = records.read(folder)
    if ended.returncode and not record.errors:
        raise UsageError(f"{' '.join(switches)}: exit code {ended.returncode}: {ended.stderr.strip().splitlines()[-1:]}")
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
