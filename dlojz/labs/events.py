"""``progress.jsonl`` of a workspace: what happened in its labs, one JSON object a line, only ever added to.

Each line has an ``event``, a ``time`` (seconds since 1970) and a ``lab``. The events:

``check``       ``outcome`` (solved, wrong, not_attempted, cannot_check), ``fences`` (a fingerprint of what was checked)
``hint``        ``step`` (1 to 3)
``looked``      at the solution, ``by`` (solve, diff, catch_up)
``reset``       the fences were given back their stubs
``quiz``        ``question``, ``answer``, ``right``
``prediction``  ``question``, ``value``
``feedback``    ``value`` (1 too easy to 5 too hard)

A ``check`` that says wrong has the kit's name of the ``mistake``, if it knows it. Each event is told to `dlojz.labs.room`.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from ..system import locks
from ..system.errors import UsageError

NAME = "progress.jsonl"
FIELDS = {"event": str, "lab": str, "outcome": str, "fences": str, "step": int, "by": str, "question": str,
          "mistake": str}


def add(workspace: Path, event: str, lab: str, **fields) -> None:
    """Add one event. Several kernels and shells may do so at once: a line is one write, and never mixes with another.

    Raises UsageError where it can't be written.
    """
    path = workspace / NAME
    line = json.dumps({"event": event, "time": round(time.time(), 3), "lab": lab, **fields}).encode() + b"\n"
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            with contextlib.suppress(OSError):  # some network file systems know no locks
                locks.take(handle, str(path))
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line  # the line before was torn: keep it from swallowing this one
            if os.write(handle, line) < len(line):
                raise OSError(0, "the disk is full")
        finally:
            os.close(handle)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}. Free some space or fix its permissions") from None
    from . import room  # knows of progress, which knows of events

    room.update(workspace)


def note(workspace: Path, event: str, lab: str, **fields) -> str:
    """As `add`, for what is worth more than its note (it is shown also in a folder that can't be written): returns the line that
    says that it could not be kept, empty where it was."""
    try:
        add(workspace, event, lab, **fields)
    except UsageError as error:
        return f"Not kept in your progress: {error}."
    return ""


def can_be_kept(workspace: Path) -> bool:
    """Whether progress.jsonl can be written."""
    try:
        os.close(os.open(workspace / NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666))
    except OSError:
        return False
    return True


def read(workspace: Path) -> list[dict]:
    """All events that can be read, oldest first; a torn line, wherever it stands, is left out. Raises UsageError."""
    path = workspace / NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    events = []
    for line in data.split(b"\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):  # torn, not UTF-8, or blank
            continue
        if isinstance(event, dict) and {"event", "lab"} <= set(event) and all(
                isinstance(event[key], kind) for key, kind in FIELDS.items() if key in event):
            if not isinstance(event.get("time"), (int, float)):
                event["time"] = 0.0
            events.append(event)
    return events
