"""The run record: ``record.jsonl``, one JSON object a line, written while a run goes on and read back by everything else.

Each line has an ``event`` and a ``time`` (seconds since 1970). The events, in the order a run writes them:

``start``
    what is needed to compare runs later: ``command``, ``switches`` (the arguments that differ from their defaults),
    ``args`` (all of them), ``model``, ``image_size``, ``batch_size`` (per process), ``world_size``, ``global_batch``
    (images per optimizer step over all processes), ``parameters``, ``steps_per_epoch``, ``epoch_images`` (or None),
    ``epochs``, ``total_steps``, ``warmup_steps``, ``versions``, ``machine``, ``git``, ``resumed_at`` (step).
``todo``
    a fence that a switch asks for is not written yet, so the run goes without it: ``lab``, ``file``, ``line``, ``message``
    (one line to show beside what the run measured). At most one per lab; see ``Record.todos``.
``sweep``
    of ``--find-lr``, before the training: ``rates`` and the ``losses`` before the updates that were made with them.
``step``
    ``step`` (counted from 1 over the whole training), ``epoch`` (from 0), ``images`` (over all processes),
    ``loss`` and ``accuracy`` (sums over all processes divided by all images, since the last step that has them), ``lr`` (of the
    update), ``warmup`` (true while left out of averages), and seconds: ``seconds`` (the whole step) = ``idle`` + ``copy`` +
    ``forward`` + ``backward`` + ``update`` as the device saw them, with ``loading``, the time the process waited for its loader,
    as the host saw it. One step of the warm-up has ``memory_with_workers``, bytes that this process and its loader's workers
    held then.
``validation``
    ``step``, ``epoch``, ``loss``, ``accuracy``, ``images``, ``seconds``.
``checkpoint``
    ``step``, ``seconds`` (the loop stood still), ``bytes``.
``error``
    ``kind`` (``out_of_memory``, ``nan_loss``, ``lost_rank``, ``signal``, ``data``, ``disk``, ``usage``, ``exception``),
    ``message``, ``advice`` (one sentence), ``rank``, ``began`` (when its process did: a rank may fail before rank 0 has written
    ``start``), and the numbers that belong to the kind (``lost``: which ranks are lost).
``end``
    ``status`` (``completed``, ``stopped`` = saved and to be resumed, ``failed``), ``steps``, peak memory, energy.

A reader must expect more: unknown events and fields are kept as they are, a torn line (the run was killed while writing,
the disk was full) is left out and counted. JSON has no NaN and no infinity: in the file they are the texts ``nan``, ``inf`` and
``-inf``, and become numbers again when it is read.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from ..system import paths
from ..system.errors import UsageError
from ..system.shown import say

NAME = "record.jsonl"
FLUSH_EVERY = 0.5  # seconds: what a `kill -9` may cost, and how far behind a live view may be
TOGETHER = 1000  # lines of a record that are parsed at once
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

# Who is told of what a training does, as it happens: called with the name of the event and its fields. ``step`` when one is over
# (``sums``, as the Chronometer was given them), ``batch`` (``images`` as uint8, before they become floats), ``todo``, ``saved``,
# ``failure``, and ``record.EVENT`` for each line of the record. A checker or a live view adds a function; usually there is none.
listeners: list[Callable[[str, dict], None]] = []

_started: Writer | None = None  # the record of the run that goes on in this process
_made: Path | None = None  # the new folder that this process has made for its run
_noted: list[tuple[str, dict]] = []  # events for it, from before it began


def tell(event: str, **fields) -> None:
    """Tell the listeners."""
    for listener in listeners:
        listener(event, fields)


def note(event: str, **fields) -> None:
    """Add an event from code that has no `Writer`: to the record of this process's run, right after its ``start``."""
    if _started is None:
        _noted.append((event, fields))
    elif os.getpid() == _started.process:
        _started.write(event, flush=True, **fields)
    else:  # a loader's worker: what it has inherited of lines is not its own to write
        Writer(_started.path).write(event, flush=True, **fields)


class Writer:
    """Appends events to a run's record.

    Lines are gathered and written at most every half second, each batch in one ``write`` to a file opened for
    appending, so that lines of several processes never mix. A write that fails (full disk) is reported once on
    stderr and tried again later: the training goes on, because a lost measurement is cheaper than a lost run.

    Rank 0 writes everything; another rank writes its errors only (``errors_only``). Before ``open`` nothing is kept. A run that
    is refused before its ``start`` leaves no mark on a record that is there from runs before it, and no folder of its own.
    """

    def __init__(self, path: Path | str | None = None, errors_only: bool = False, clock=time.time):
        self.path = Path(path) if path is not None else None
        self.errors_only = errors_only
        self.clock = clock
        self.began = clock()
        self.failed: OSError | None = None
        self.process = os.getpid()
        self.started = False
        self._lines: list[bytes] = []
        self._flushed = clock()

    def open(self, folder: Path | None) -> Path | None:
        """Write to the record of this run folder from here on; returns the folder. None: it is not known yet."""
        self.path = folder and folder / NAME
        return folder

    def write(self, event: str, flush: bool = False, **fields) -> None:
        """Add one event. ``flush=True`` writes it to the file before returning."""
        tell(f"record.{event}", **fields)
        if self.path is None or (self.errors_only and event != "error"):
            return
        self.started |= event == "start"
        if event == "error":
            if fields.get("kind") == "usage" and not (self.started or self.errors_only) and self._refused_elsewhere():
                self.path = None
                return
            fields["began"] = round(self.began, 3)
        line = json.dumps({"event": event, "time": round(self.clock(), 3), **_plain(fields)}, ensure_ascii=False, allow_nan=False)
        # A name that is no UTF-8 has lone surrogates, as os.fsdecode puts it: as \\udce9, JSON gives the same back.
        self._lines.append(line.encode(errors="backslashreplace") + b"\n")
        if flush or event != "step" or self.clock() - self._flushed >= FLUSH_EVERY:
            self.flush()
        if event == "start":
            self._take_notes()

    def _refused_elsewhere(self) -> bool:
        """Whether the log alone says why a run was refused: the record is of runs before it, or nobody has chosen the folder."""
        if self.path.parent == _made:
            with contextlib.suppress(OSError):  # it is not empty
                _made.rmdir()
                return True
        return self.path.exists() and self.path.stat().st_size > 0

    def _take_notes(self) -> None:
        global _started
        _started = self
        while _noted:
            event, fields = _noted.pop(0)
            self.write(event, flush=True, **fields)

    def flush(self) -> None:
        if self.path is None or not self._lines:
            return
        self._flushed = self.clock()
        data = b"".join(self._lines)
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                if os.fstat(fd).st_size and not _ends_with_newline(self.path):
                    data = b"\n" + data  # an earlier line was torn: keep it from swallowing this one
                written = os.write(fd, data)
            finally:
                os.close(fd)
            if written < len(data):
                del self._lines[: data[:written].lstrip(b"\n").count(b"\n")]  # those that are whole in the file
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if self.failed is None:
                reason = error.strerror or error
                with contextlib.suppress(OSError):  # the log may be on the same disk
                    say(f"dlojz: the record cannot be written ({reason}); the run continues, {self.path} is incomplete.",
                        file=sys.stderr)
            self.failed = error
            del self._lines[:-10_000]  # a disk that stays full must not fill the memory instead
        else:
            self._lines.clear()


def run_folder(chosen: Path | str | None, name: str, is_main: bool = True) -> Path | None:
    """The folder of this run, made where it isn't there: the chosen one, else ``DLOJZ_RUN`` (set by a job), else runs/NAME-NNN.

    Only the main process makes a new one; another process gets None then, and asks with ``distributed.same_everywhere``.
    Raises UsageError where nothing can be written to it.
    """
    global _made
    folder = chosen or os.environ.get("DLOJZ_RUN")
    try:
        if folder:
            folder = Path(folder).expanduser().resolve()
            folder.mkdir(parents=True, exist_ok=True)
            for path in (folder, folder / NAME):
                if path.exists() and not os.access(path, os.W_OK):
                    number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
                    raise OSError(number, os.strerror(number), str(path))
            return folder
        if not is_main:
            return None
        runs = Path.cwd() / "runs"
        runs.mkdir(exist_ok=True)
        _made = new_folder(runs, name)
        return _made
    except OSError as error:
        raise UsageError(f"cannot write to {error.filename}: {error.strerror}. Give another folder with --run-dir") from None


def new_folder(runs: Path, name: str) -> Path:
    """Makes ``runs/NAME-NNN`` with the next free number; two processes at the same moment get two folders."""
    endings = [entry.name[len(name) + 1 :] for entry in runs.glob(f"{glob.escape(name)}-*")]
    number = max((int(ending) for ending in endings if ending.isdigit()), default=0) + 1
    while True:
        try:
            folder = runs / f"{name}-{number:03d}"
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1


def _ends_with_newline(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _plain(value):
    """JSON has no NaN or infinity and no paths: say them as text, so that any reader can read the line."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


class Reader:
    """Reads a record that may still be growing: each ``poll`` gives the events that came since the last."""

    def __init__(self, path: Path | str):
        self.path = _file(path)
        self.torn = 0
        self._offset = 0

    def poll(self) -> list[dict]:
        data = self._new()
        complete = data.rfind(b"\n") + 1
        self._offset += complete
        return self._parse(data[:complete])

    def rest(self) -> list[dict]:
        """The last line, where no newline ended it; for a run that is over."""
        data = self._new()
        self._offset += len(data)
        return self._parse(data)

    def _new(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                return file.read()
        except FileNotFoundError:
            return b""

    def _parse(self, data: bytes) -> list[dict]:
        lines = [line for line in data.split(b"\n") if line.strip()]
        events = []
        for begin in range(0, len(lines), TOGETHER):
            some = lines[begin : begin + TOGETHER]
            text = b"[" + b",".join(some) + b"]"
            finite = not any(b'"%s"' % word.encode() in text for word in NOT_FINITE)
            for event in _together(text, len(some)) or map(_alone, some):
                if not (isinstance(event, dict) and isinstance(event.get("event"), str)):
                    self.torn += 1
                elif finite:
                    events.append(event)
                else:
                    events.append({name: NOT_FINITE.get(x, x) if type(x) is str else x for name, x in event.items()})
        return events


def _together(text: bytes, lines: int) -> list | None:
    """Many lines at once, in half the time. None where one of them is torn: two that are may even look like one together."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if len(found) == lines else None


def _alone(line: bytes):
    try:
        return json.loads(line)
    except (ValueError, RecursionError):  # torn, or not UTF-8, or no record at all
        return None


def _file(path: Path | str) -> Path:
    path = paths.given(path)
    return path / NAME if path.is_dir() or not path.suffix else path


class Record:
    """A record read back: ``start`` (of the last attempt), ``steps``, ``validations``, ``checkpoints``, ``errors``, ``end``,
    ``events``.

    After a resume, steps, validations and checkpoints that were run again replace those of the attempt before: there is none
    twice. ``errors`` and ``end`` are of the last attempt.
    """

    def __init__(self, events: list[dict], torn: int = 0):
        self.events = events
        self.torn = torn
        self.starts = [e for e in events if e["event"] == "start"]
        self.errors: list[dict] = []
        found: dict[str, dict[int, dict]] = {"step": {}, "validation": {}, "checkpoint": {}}
        self.end, over = None, -1.0  # over: a process that began before is of an attempt that has ended, or that was killed
        for event in events:
            kind, number = event["event"], event.get("step")
            if kind == "start":
                self.errors = [error for error in self.errors if _number(error.get("began")) > over]
                self.end, over = None, _number(event.get("time"))
                resumed = event.get("resumed_at") if isinstance(event.get("resumed_at"), int) else 0
                found = {kind: {number: old for number, old in of.items() if number <= resumed} for kind, of in found.items()}
            elif kind in found and isinstance(number, int):
                found[kind][number] = event
            elif kind == "error":
                self.errors.append(event)
            elif kind == "end":
                self.end, over = event, max(over, _number(event.get("time")))
        self.steps, self.validations, self.checkpoints = ([of[number] for number in sorted(of)] for of in found.values())

    @property
    def start(self) -> dict:
        return self.starts[-1] if self.starts else {}

    @cached_property
    def run_seconds(self) -> float:
        """How long it ran: all attempts since the one from the beginning, each from its start to the last that it wrote, without
        the time between them."""
        spans: list[list[float]] = []
        for event in self.events:
            if isinstance(event.get("time"), (int, float)):
                if event["event"] == "start" or not spans:
                    if not event.get("resumed_at"):
                        spans.clear()  # another run has used the folder before
                    spans.append([event["time"], event["time"]])
                spans[-1][1] = event["time"]
        return sum(max(0.0, last - first) for first, last in spans)

    @property
    def todos(self) -> list[dict]:
        """The fences that the last attempt met unwritten, the first of each lab."""
        since = max((number for number, event in enumerate(self.events) if event["event"] == "start"), default=0)
        found: dict = {}
        for event in self.events[since:]:
            if event["event"] == "todo":
                found.setdefault(event.get("lab"), event)
        return list(found.values())

    @property
    def progress(self) -> tuple[int, int | None]:
        """Steps done, and steps in all (None where the record does not say)."""
        return (self.steps[-1]["step"] if self.steps else 0), self.start.get("total_steps")

    @property
    def timed_start(self) -> dict:
        """The ``start`` of the attempt that is timed: the last one that had steps to do, and not just a validation."""
        return next((start for start in reversed(self.starts) if not isinstance(total := start.get("total_steps"), int)
                     or _number(start.get("resumed_at")) < total), {})

    @cached_property
    def timed_steps(self) -> list[dict]:
        """The steps that averages are made of: those of the attempt that is timed, without its warm-up."""
        since = _number(self.timed_start.get("resumed_at"))
        return [s for s in self.steps if s["step"] > since and not s.get("warmup") and "seconds" in s]


def _number(value) -> float:
    return value if isinstance(value, (int, float)) else 0.0


def read(path: Path | str) -> Record:
    """The record of a run, from its folder or from the file itself. A record that isn't there reads as an empty one."""
    reader = Reader(path)
    events = reader.poll() + reader.rest()
    return Record(events, reader.torn)
