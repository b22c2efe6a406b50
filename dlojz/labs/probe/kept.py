"""The facts of the kit's own runs, kept in the cache: they are the same until the reference, the engine or torch changes."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

from ...system import paths
from ...system.sites import gpus

MOST = 400  # runs
FORM = 1


def key(request: dict) -> str:
    """What stands for a run: whatever its facts may depend on."""
    machine = [platform.machine(), sys.version, importlib.metadata.version("torch"), _processor(), gpus()]
    text = json.dumps([FORM, request, machine, _package()], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def _package() -> str:
    """Of the kit's code: it computes the facts, and the reference imports it."""
    stamps = [(str(path.relative_to(paths.PACKAGE)), path.stat().st_mtime_ns, path.stat().st_size)
              for path in sorted(paths.PACKAGE.rglob("*.py"))]
    return hashlib.sha256(repr(stamps).encode()).hexdigest()


def _processor() -> str:
    """Which instructions it has: sums come out in another order with others. Empty where no file says it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        return next((line for line in file if line.startswith(("flags", "Features"))), "")
    return ""


def folder() -> Path:
    return paths.cache() / "checks"


def load(name: str) -> list[list[dict]] | None:
    """The facts of each rank; None where they are not there, or can't be read."""
    file = folder() / f"{name}.json.gz"
    with contextlib.suppress(OSError, ValueError, EOFError):
        ranks = json.loads(gzip.decompress(file.read_bytes()))
        os.utime(file)
        return ranks
    return None


def store(name: str, ranks: list[list[dict]]) -> None:
    """Keeps them; without a word where that can't be done (the check then runs the reference each time)."""
    with contextlib.suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=folder(), prefix=".")
        with os.fdopen(handle, "wb") as file:
            file.write(gzip.compress(json.dumps(ranks).encode(), 1))
        os.replace(beside, folder() / f"{name}.json.gz")
        _prune()


def _prune() -> None:
    files = sorted(folder().glob("*.json.gz"), key=lambda file: file.stat().st_mtime)
    for file in files[:-MOST]:
        with contextlib.suppress(OSError):
            file.unlink()
