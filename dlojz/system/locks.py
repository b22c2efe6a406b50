"""Locks on files and folders, waited for with a word and a limit: a process that is stopped or hangs does not let its lock go."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time

from . import processes
from .errors import UsageError
from .shown import say

PATIENCE = 30.0  # seconds: a lock is held for milliseconds, and for some seconds where the disk is slow
SILENT = 1.5  # seconds after which one who waits is told for what


class Held(UsageError):
    """Somebody else has kept a lock for too long."""


def take(handle: int, what: str, patience: float | None = None) -> None:
    """Take the lock on an open file or folder; ``what`` names it. Says what it waits for when that takes a while.

    Raises Held after ``patience`` seconds (PATIENCE), OSError where the file system knows no locks.
    """
    patience = PATIENCE if patience is None else patience
    began, told = time.monotonic(), False
    while not free(handle):
        waited = time.monotonic() - began
        if waited > patience:
            raise Held(f"{what} has been locked for {waited:.0f} s by {_held_by(handle)}, then try again")
        if waited > SILENT and not told:
            say(f"dlojz: waiting for {what}, which is locked by {_name(holder(handle))}", file=sys.stderr)
            told = True
        time.sleep(0.01)


def free(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take the lock on an open file or folder if nobody else has it. Raises OSError where the file system knows no locks."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def holder(handle: int) -> int | None:
    """The pid of the process that has the lock on an open file; None where that can't be told: it runs on another machine that
    shares the file system, or the system doesn't say."""
    here = os.fstat(handle)
    place = f"{os.major(here.st_dev):02x}:{os.minor(here.st_dev):02x}:{here.st_ino}"
    try:
        lines = (processes.PROC / "locks").read_text().splitlines()
    except OSError:
        return None
    for words in map(str.split, lines):  # 5: FLOCK ADVISORY WRITE 4217 fe:00:2172926 0 EOF; one that waits has -> in second place
        if words[1:2] == ["FLOCK"] and len(words) > 5 and words[5] == place and processes.identity(int(words[4])):
            return int(words[4])
    return None


def _name(pid: int | None) -> str:
    if pid is None:
        return "a process that can't be seen from here"
    command = " ".join(" ".join(processes.command(pid)).split())
    shown = f" ({command if len(command) <= 80 else command[:79] + '…'})" if command else ""
    return f"process {pid}{shown}{', which is stopped' if processes.stopped(pid) else ''}"


def _held_by(handle: int) -> str:
    """Who has the lock, and what to do about it."""
    pid = holder(handle)
    if pid is None:
        return f"{_name(pid)}: look for a dlojz or a notebook that hangs, on each machine that shares this folder, and end it"
    if processes.stopped(pid):
        return f"{_name(pid)}: let it continue (kill -CONT {pid}) or kill it (kill -9 {pid})"
    return f"{_name(pid)}: wait for it, or kill it if it hangs (kill {pid})"
