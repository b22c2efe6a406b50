"""torch.compile's compiler on this machine: what it needs, where it keeps what it has compiled, and its slow first use.

The first kernel for a CPU takes a minute and more where the machine is busy: the C++ compiler reads torch's headers once and
keeps them compiled. `warm` pays that ahead of time, in a process of its own, and leaves a mark in the cache; whoever wants to
compile in a notebook asks `is_warm`. Nothing here imports torch.
"""

from __future__ import annotations

import getpass
import itertools
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from importlib import metadata
from pathlib import Path

from . import paths
from .look import System
from .shown import say

LIMIT = 300  # seconds
COMPILERS = ("g++", "clang++", "c++")
FIRST_USE = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
torch.compile(net)(torch.ones(64, 64)).sum().backward()
"""


def compiler(system: System | None = None) -> str | None:
    """The C++ compiler that torch would call: ``CXX``, else one of the usual ones; None where there is none."""
    system = system or System()
    return next((name for name in (system.env.get("CXX"), *COMPILERS) if name and system.which(name)), None)


def headers() -> bool:
    """Whether Python's headers are there, which the code that torch generates includes."""
    return Path(sysconfig.get_paths()["include"], "Python.h").is_file()


def missing(compiler: bool, headers: bool) -> list[str]:
    """What is missing, as a message says it."""
    needed = (compiler, "a C++ compiler (g++)"), (headers, "Python's headers (Python.h)")
    return [text for there, text in needed if not there]


def folder(env=os.environ) -> Path:
    """Where torch keeps what it has compiled: ``TORCHINDUCTOR_CACHE_DIR``, else a folder of the user's for temporary files."""
    try:
        user = getpass.getuser()
    except (KeyError, ImportError, OSError):
        user = f"uid_{os.getuid()}"
    usual = Path(tempfile.gettempdir(), "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user))
    return Path(env.get("TORCHINDUCTOR_CACHE_DIR") or usual).absolute()


def _mark() -> Path:
    """It goes with the cache, and another torch has to compile its headers again."""
    return folder() / f"dlojz-warm-{metadata.version('torch')}"


def is_warm() -> bool:
    """Whether a first use has been paid for, with this torch and the cache as it is."""
    return _mark().is_file()


def warm(limit: float = LIMIT) -> str:
    """Compile a little now, with a line that says so while it lasts; returns in a sentence what came of it."""
    if lacking := missing(bool(compiler()), headers()):
        return (f"torch.compile cannot work here: it lacks {' and '.join(lacking)}. You can do without: the lab compile then "
                "shows recorded numbers")
    if is_warm():
        return f"torch.compile's cache is warm: {folder()}"
    begun = time.monotonic()
    code = _run(f"torch.compile compiles for the first time, so that no notebook has to wait; its cache is {folder()}", limit)
    took = time.monotonic() - begun
    if code != 0:
        ended = f"failed (exit code {code})" if code else f"did not end within {limit:.0f} s"
        return f"the first use of torch.compile {ended}. You can do without it; `dlojz doctor --warm` tries again"
    _mark().parent.mkdir(parents=True, exist_ok=True)
    _mark().touch()
    return f"torch.compile's cache is warm ({took:.0f} s): {folder()}"


def _run(why: str, limit: float) -> int | None:
    """The exit code of the first use, in a process group of its own."""
    env = os.environ | {"PYTHONPATH": paths.python_path()}
    process = subprocess.Popen([sys.executable, "-c", FIRST_USE], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    moves = sys.stderr.isatty()
    say(why, file=sys.stderr)
    begun = time.monotonic()
    try:
        for turn in itertools.cycle("|/-\\"):
            try:
                return process.wait(0.2)
            except subprocess.TimeoutExpired:
                if moves:
                    sys.stderr.write(f"\r{turn} {time.monotonic() - begun:.0f} s ")
                    sys.stderr.flush()
                if time.monotonic() - begun > limit:
                    return None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()
        if moves:
            sys.stderr.write("\r" + " " * 20 + "\r")
