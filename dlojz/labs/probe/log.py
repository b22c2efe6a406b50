"""The facts of one run, written as they happen, one JSON object a line: what came before a kill is there."""

from __future__ import annotations

import contextlib
import functools
import json
import linecache
import os
import re
import sys
import weakref
from collections import Counter
from pathlib import Path

from ...system.errors import UsageError
from ...training.failures import in_worker

ESCAPES = re.compile(r"\x1b\[[\d;]*[A-Za-z]|^\[(enforce fail at )?/\S+:\d+\] ")  # torch's bold letters, and its own source files
MOST = 2000  # facts of one kind that are kept: a loop without an end must not fill the disk
KIT = Path(__file__).resolve().parents[2]


class Log:
    """Where observers note what they see, and the little that they share.

    ``step`` counts the forward passes in training; ``model`` is the module of the latest one, ``loss`` the value of its loss.
    ``quiet`` is true while an observer computes something itself, which must not be noted.
    """

    def __init__(self, path: str, script: str, root: str, torch_folder: str):
        self.root = root  # the trainee's folder
        self.folders = {root, os.path.dirname(script)}
        self.step = 0
        self.model = None
        self.loss: float | None = None
        self.quiet = False
        self.place = None  # (tensor) -> its device, as text
        self.called: tuple | None = None  # the lab's calls.py and the trainee's module, while it does something with it
        self._torch = torch_folder
        self._kinds: dict[str, str] = {}
        self._counts: Counter = Counter()
        self._known: dict[int, tuple] = {}  # by id: the number of an object, and a reference to it
        self._pid = os.getpid()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, what: str, **facts) -> None:
        """Add a fact, with the step and the line of the trainee's code that led to it.

        ``by`` is "own" where that line asked for it directly, else the part of the kit or of torch that it went through.
        """
        if not self.wants(what):
            return
        self._counts[what] += 1
        self.write({"what": what, "step": self.step, **self.caller(), **facts})

    def wants(self, what: str) -> bool:
        """Whether a fact of this kind would be kept: not in a loader's worker, not what an observer does itself, not too many."""
        return not self.quiet and self._counts[what] < MOST and os.getpid() == self._pid

    def which(self, thing) -> int:
        """The number of this object, and of no other: an id is given again when its object is gone."""
        number, known = self._known.get(id(thing), (None, lambda: None))
        if known() is not thing:
            number = self._counts["which"] = self._counts["which"] + 1
            try:
                known = weakref.ref(thing)
            except TypeError:  # a list
                known = functools.partial(lambda kept: kept, thing)
            self._known[id(thing)] = number, known
        return number

    def noted(self, what: str) -> int:
        """How many facts of this kind there are."""
        return self._counts[what]

    def write(self, fact: dict) -> None:
        with contextlib.suppress(OSError):  # the trainee's code may close every file
            os.write(self._fd, json.dumps(fact, default=str).encode() + b"\n")

    @contextlib.contextmanager
    def silence(self):
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def is_own(self, file: str) -> bool:
        """Whether this is the trainee's script, or a file beside it or at the top of their folder."""
        return os.path.dirname(file) in self.folders

    def name(self, file: str) -> str:
        """One of the trainee's files, as a message names it."""
        return os.path.relpath(file, self.root)

    def caller(self) -> dict:
        frame, by = sys._getframe(2), "own"
        while frame is not None:
            kind = self._kind(frame.f_code.co_filename)
            if kind == "own":
                return {"line": frame.f_lineno, "file": self.name(frame.f_code.co_filename), "by": by}
            if kind and by != "kit":
                by = kind
            frame = frame.f_back
        return {"line": None, "file": None, "by": by}

    def _kind(self, file: str) -> str:
        """The part of the software that a file belongs to; empty for what does not count as one."""
        if file not in self._kinds:
            self._kinds[file] = self._find_kind(file)
        return self._kinds[file]

    def _find_kind(self, file: str) -> str:
        if self.is_own(file):
            return "own"
        if file.startswith(str(KIT / "labs") + os.sep):
            return ""
        if file.startswith(str(KIT) + os.sep):
            return "kit"
        if file.startswith(self._torch + os.sep):
            part = file[len(self._torch) + 1 :].split(os.sep)[0]
            return f"torch.{part}" if part in ("amp", "optim", "utils", "distributed") else ""
        return ""


def error(failure: BaseException, log: Log) -> dict:
    """The facts of an exception: kind, message, and where in the trainee's own files it came from."""
    message = " ".join(ESCAPES.sub("", str(failure)).split())
    if type(failure).__name__ == "CheckpointException":  # its text is a traceback for each process
        first, _ = next(iter(failure.failures.values()))
        message = f"{type(first).__name__}: {first}"
    for folder in (log.root, os.environ.get("DLOJZ_RUN")):  # the trainee's file, not our copy of it
        message = message.replace(folder + os.sep, "") if folder else message
    message = _short(message)
    if not isinstance(failure, UsageError):
        message = _first_sentence(message)
    found = {"what": "error", "step": log.step, "kind": type(failure).__name__, "message": message, "line": None, "file": None}
    if found["kind"] == "BdbQuit":  # it stands in the line before
        found |= {"kind": "an error of Python's debugger",
                  "message": "`breakpoint()` or `pdb.set_trace()` asks somebody at a keyboard, and there is none"}
    if isinstance(failure, SyntaxError) and failure.filename and log.is_own(failure.filename):
        return found | {"line": failure.lineno, "file": log.name(failure.filename), "message": failure.msg}
    found |= place(failure, log) | _in_a_worker(str(failure), log)
    return found if found["line"] is not None else found | _asked(failure, log)


def _first_sentence(message: str, most: int = 160) -> str:
    """Of a long message: torch's go on with guesses, settings and addresses, which fit other programs than the trainee's."""
    sentence = re.match(r".{20,}?[^.A-Z][.!?](?= [A-Z(\[])", message)
    return sentence[0].rstrip(".") if sentence and len(message) > most else message


def _short(message: str, most: int = 500) -> str:
    """A message without its last full stop; a long one ends with the last word that has room."""
    return message.rstrip(".") if len(message) <= most else message[:most].rsplit(" ", 1)[0] + " …"


def _in_a_worker(text: str, log: Log) -> dict:
    """What torch tells of an exception in a loader's worker, as text alone: a sentence, and the traceback of there."""
    raised = in_worker(text)
    if raised is None:
        return {}
    found = {"kind": raised[0], "message": _short(raised[1])}
    own = [(file, int(line)) for file, line in re.findall(r'^  File "(.+?)", line (\d+)', text, re.MULTILINE) if log.is_own(file)]
    return found | {"file": log.name(own[-1][0]), "line": own[-1][1]} if own else found


def _asked(failure: BaseException, log: Log) -> dict:
    """Where none of the trainee's own lines is to blame: the line of calls.py that uses their module, and what of it."""
    calls, module = log.called or ("", None)
    found, trace = {}, failure.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        names = [name for name, value in frame.f_locals.items() if value is module]
        if frame.f_code.co_filename == calls and names:
            line = linecache.getline(calls, trace.tb_lineno).strip()
            found = {"asked": line, "asked_of": re.findall(rf"\b{names[0]}\.(\w+)", line)}
        trace = trace.tb_next
    return found


def place(failure: BaseException, log: Log) -> dict:
    """The innermost line of the trainee's own files in a traceback."""
    # The script's main block ends the process with an exit of its own: what counts is the one before.
    while isinstance(failure, SystemExit) and isinstance(failure.__context__, SystemExit):
        failure = failure.__context__
    found, trace = {}, failure.__traceback__
    while trace is not None:
        if log.is_own(trace.tb_frame.f_code.co_filename):
            found = {"line": trace.tb_lineno, "file": log.name(trace.tb_frame.f_code.co_filename)}
        trace = trace.tb_next
    return found
