"""Processes, known for certain: a pid is used again, a pid with its start time and the machine's boot is not."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

PROC = Path("/proc")
CHILD_SUBREAPER = 36  # of prctl


@functools.lru_cache(maxsize=1)
def boot() -> str:
    """A text that is another one after each start of the machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _said("sysctl", "-n", "kern.boottime")


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _stat(pid: int) -> tuple[str, int, str] | None:
    """State, parent and start time (clock ticks since boot, as text) of a process; None where there is none."""
    if not PROC.joinpath("self").exists():  # macOS
        state, _, rest = _said("ps", "-o", "state=,ppid=,lstart=", "-p", str(pid)).partition(" ")
        parent, _, start = rest.strip().partition(" ")
        return (state[:1], int(parent), start.strip()) if parent.isdigit() else None
    try:
        # The name, in brackets, may itself hold blanks and brackets.
        fields = (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1]), fields[19].decode()
    except (OSError, IndexError, ValueError):
        return None


def identity(pid: int) -> dict | None:
    """What tells this process from any other that ever had or will have its pid; None where it has ended."""
    stat = _stat(pid)
    return {"pid": pid, "start": stat[2], "boot": boot()} if stat and stat[0] not in "ZX" else None


def alive(process: dict | None) -> bool:
    """Whether the process with this identity still runs. One that has ended and waits to be reaped does not."""
    return bool(process) and process.get("boot") == boot() and identity(process.get("pid", 0)) == process


def stopped(pid: int) -> bool:
    """Whether it was halted (Ctrl-Z, kill -STOP) and does nothing until it is told to go on."""
    return (stat := _stat(pid)) is not None and stat[0] in "Tt"


def command(pid: int) -> list[str]:
    """The words of its command line; empty where they can't be read."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def marked(mark: str) -> list[int]:
    """The pids of this user's processes that have ``mark`` (a text ``NAME=value``) in their environment.

    The environment goes from parent to child, so a child is found also where it has left its process group, its session
    and its parents.
    """
    if not PROC.joinpath("self").exists():  # macOS
        listed = (line.split(None, 1) for line in _said("ps", "-axwwE", "-o", "pid=,command=").splitlines())
        return [int(pid) for pid, *rest in listed if mark in "".join(rest)]
    wanted, found = mark.encode(), []
    for entry in os.scandir(PROC):
        if not entry.name.isdigit():
            continue
        try:
            with open(f"{entry.path}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(entry.name))
        except OSError:  # ended, or somebody else's
            continue
    return found


def end(mark: str, seconds: float = 5.0) -> None:
    """Kills all that `marked` finds, and what these start meanwhile, for ``seconds`` at most."""
    until = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < until:
        send(left, signal.SIGKILL)
        time.sleep(0.1)


def children(pid: int, among: list[int]) -> list[int]:
    """Those of the pids ``among`` whose parent is ``pid``."""
    return [other for other in among if (stat := _stat(other)) and stat[1] == pid]


def descendants(pid: int, without: Collection[int] = ()) -> list[int]:
    """All that it has started and adopted, and what these have started: those that have not ended. ``without``: pids that are
    left out, with all of theirs."""
    if not PROC.joinpath("self").exists():  # macOS
        return []
    stats = {int(entry.name): stat for entry in os.scandir(PROC) if entry.name.isdigit() and (stat := _stat(int(entry.name)))}
    found, parents = [], {pid}
    while parents:
        parents = {other for other, stat in stats.items() if stat[1] in parents and other not in without}
        found += parents
    return [other for other in found if stats[other][0] not in "ZX"]


def adopt() -> bool:
    """From here on, what a process that it has started leaves behind becomes its child, and not that of the system's first
    process; an `exec` keeps that, a child does not have it. False where the system does not know it."""
    import ctypes

    try:
        return sys.platform.startswith("linux") and ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False


def parent_is_among(pid: int, pids: list[int]) -> bool:
    return (stat := _stat(pid)) is not None and stat[1] in pids


@contextlib.contextmanager
def deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started in this block do not hear Ctrl-C: who starts them has to end them. A terminal sends it to them,
    too, and a Python that still imports would answer with a traceback of its own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a child has the mask of its parent, also after exec
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # what came meanwhile interrupts here


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
