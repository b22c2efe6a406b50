"""What was asked for (`Request`), how a job stands (`Status`), and the files of a run's folder that say so."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import re
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from ..system import locks
from ..system.errors import UsageError
from ..training import records

# Slurm's words, also for jobs of this machine. UNKNOWN: it cannot be told from here (folder deleted, job.json damaged, the job's
# queue out of reach); it is shown, and never written down.
ACTIVE = ("PENDING", "RUNNING")
WRONG = ("FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL")
ENDED = ("COMPLETED", *WRONG, "UNKNOWN")
SAVED = 75  # the exit code of a script that has saved a checkpoint and wants to be run again (EX_TEMPFAIL)


@dataclass(frozen=True)
class Request:
    """What was asked for, with the site's defaults filled in. Everything in it is checked: a launcher may rely on it.

    ``gpus`` and ``processes`` count over all nodes; one process drives one GPU, and where ``gpus`` is 0 the processes
    share the CPU cores. ``cores`` are per process, 0 where the scheduler shall decide. ``seconds`` is the time limit.
    Empty strings mean "not asked for". ``directives`` are further options of sbatch, such as ``--hint=nomultithread``;
    ``modules`` are loaded in this order.
    """

    name: str
    command: tuple[str, ...]  # what python runs, a script or -m and a module first: ("train.py", "--amp", "bf16")
    site: str
    gpus: int = 1
    nodes: int = 1
    processes: int = 1
    cores: int = 0
    seconds: int = 600
    account: str = ""
    partition: str = ""
    qos: str = ""
    constraint: str = ""
    directives: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Status:
    """How a job stands. Times are seconds since 1970, or None where they are not known (yet).

    ``exit_code`` as a shell would say it: 0-255, 128 + the signal for a process that a signal ended; None while the job
    has not ended, or where nobody knows. ``reason`` is one line for a person, empty where there is nothing to add
    (PENDING: why it waits, Slurm's own word such as ``Resources`` first; FAILED: what happened).
    ``position`` counts from 1 among the jobs that wait in the queue, None where it is not known.
    """

    state: str
    reason: str = ""
    exit_code: int | None = None
    started: float | None = None
    ended: float | None = None
    position: int | None = None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def out_of_reach(self) -> bool:
        """Whether the job is in a queue that cannot be asked from here, and may well go on."""
        return self.reason.startswith(UNKNOWN_HERE)


class Unreachable(UsageError):
    """The queue does not answer now; the jobs in it may well go on. Whoever shows states keeps the last known ones."""


# --- job.json ------------------------------------------------------------------------------------------------------------

NAME = "job.json"
LARGEST = 10_000_000  # bytes that are read of it
PATIENCE = 5.0  # seconds for its lock: a supervisor has other jobs to see to, and comes back to this one


def read_json(folder: Path) -> dict | None:
    """What job.json says; None where there is none, an empty dict where it is damaged."""
    try:
        with open(folder / NAME, "rb", opener=_at_once) as file:
            content = json.loads(file.read(LARGEST) or b"{}")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe of that name would keep us waiting


def _is_text(value) -> bool:
    return isinstance(value, str) and len(value) < 10_000


def _is_count(value) -> bool:
    return type(value) is int and 0 <= value < 10**9


def _is_time(value) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) < 10**11)  # which NaN is not


def _is_texts(value) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


def _fits(kind: type, content) -> bool:
    """Whether the fields of a `Request` or `Status` are what they should be. A later version of the kit may have more."""
    if not isinstance(content, dict):
        return False
    needed = [field.name for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]
    return all(name in content for name in needed) and all(FIELDS[name](content[name]) for name in content if name in FIELDS)


FIELDS = {
    **dict.fromkeys(("name", "site", "account", "partition", "qos", "constraint", "reason"), _is_text),
    **dict.fromkeys(("gpus", "nodes", "processes", "cores", "seconds"), _is_count),
    "command": lambda value: _is_texts(value) and bool(value),
    **dict.fromkeys(("directives", "modules"), _is_texts),
    "state": lambda value: isinstance(value, str) and re.fullmatch("[A-Z_]{3,30}", value),  # of a later kit, too
    **dict.fromkeys(("started", "ended"), _is_time),
    "exit_code": lambda value: value is None or (type(value) is int and abs(value) < 10**6),
    "position": lambda value: value is None or _is_count(value),
}
CONTENT = {  # of job.json
    **dict.fromkeys(("id", "launcher", "scale", "python", "key", "script", "cluster", "host", "queue", "group"), _is_text),
    "site": _is_text, "submitted": _is_time, "index": _is_count, "size": _is_count,
    "request": lambda value: _fits(Request, value),
    **dict.fromkeys(("status", "seen"), lambda value: not value or _fits(Status, value)),
    "submitter": lambda value: value is None or (isinstance(value, dict) and isinstance(value.get("process", {}), dict | None)),
    "replays": lambda value: isinstance(value, dict) and _is_text(value.get("run")) and _fits(Status, value.get("status")),
}
NEEDED = ("id", "launcher", "request")


def sound(content: dict) -> tuple[dict, str]:
    """What can be used of a job.json, and which of the fields that tell how the job stands are not in it, or damaged."""
    wrong = [name for name, right in CONTENT.items() if name in content and not right(content[name])]
    kept = {name: value for name, value in content.items() if name not in wrong}
    return kept, ", ".join([*(name for name in NEEDED if name not in kept), *(["status"] if "status" in wrong else [])])


def made(kind: type, content: dict):
    """A `Request` or `Status` of what job.json holds."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in content.items() if name in known})


def write_json(file: Path, content: dict) -> None:
    """Write beside and rename: a reader sees the old text or the new one, never half of it. Raises OSError."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        beside.write_text(json.dumps(content, indent=1), encoding="utf-8")
        os.replace(beside, file)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def update(folder: Path, **changes) -> None:
    """Change some fields of job.json and leave the others as they are, even where two processes do so. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems know no locks: then only the renaming protects
            locks.take(handle, str(folder), PATIENCE)
        write_json(folder / NAME, {**(read_json(folder) or {}), **changes})
    except locks.Held as error:
        raise BlockingIOError(errno.EWOULDBLOCK, str(error)) from None
    finally:
        os.close(handle)


def left_exit_code(folder: Path) -> int | None:
    """The exit code that job.sh left in the folder, if it did."""
    try:
        with open(folder / "exit_code", "rb") as file:
            code = int(file.read(20))
    except (OSError, ValueError):
        return None
    return code if 0 <= code < 256 else None


def written(file: Path) -> float:
    """When a file was last written, in seconds since 1970; 0 where there is none."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


NO_EXIT_CODE = "no exit code"  # in the reason of a job that FAILED because there is none
UNKNOWN_HERE = "unknown here: "  # how the reason of a job begins whose queue is out of reach


def reviewed(folder: Path, status: Status) -> Status:
    """A state from job.json, put right where a job that FAILED for want of an exit code has left one since: somebody judged it
    who could not see its queue."""
    if status.state != "FAILED" or status.exit_code is not None or NO_EXIT_CODE not in status.reason:
        return status
    code = left_exit_code(folder)
    return status if code is None else explained(folder, judged(code, status.started, written(folder / "exit_code")))


def judged(code: int | None, started: float | None = None, ended: float | None = None) -> Status:
    """The final state that an exit code stands for (negative: ended by that signal, as in `subprocess`)."""
    if code is None:
        return Status("FAILED", f"{NO_EXIT_CODE}: it was killed (kill -9) or its machine went down", None, started, ended)
    code = 128 - code if code < 0 else code
    if code == 0:
        return Status("COMPLETED", "", 0, started, ended)
    reason = f"exit code {code}"
    if code == SAVED:
        reason = "stopped by a signal after saving a checkpoint"
    elif code > 128:
        with contextlib.suppress(ValueError):
            reason = f"killed by {signal.Signals(code - 128).name}"
            reason += ": did the machine run out of memory?" if code == 137 else ""
    return Status("FAILED", reason, code, started, ended)


def explained(folder: Path, status: Status) -> Status:
    """A failure in the words of the run itself: its record's error, else the last of its error log. Others stay."""
    if status.state != "FAILED":
        return status
    try:
        record = records.read(folder / records.NAME)
    except OSError:
        record = records.Record([])
    # What a run went on after (a checkpoint that could not be written, say) did not end it.
    if errors := [error for error in record.errors if error.get("fatal", True)]:
        last = next((error for error in errors if error.get("kind") == "out_of_memory"), errors[-1])
        state = "OUT_OF_MEMORY" if last.get("kind") == "out_of_memory" else status.state
        reason = " ".join(str(last.get("message") or last.get("kind") or status.reason).split())
        return dataclasses.replace(status, state=state, reason=reason[:300])
    if status.exit_code is not None and (line := last_error(folder / "err.log")):
        return dataclasses.replace(status, reason=line[:300])
    return status


END = 100_000  # bytes of a log that are looked at; torchrun's table takes 300 a process
# What torchrun adds when a process fails: its own traceback with a table of who ended how, and lines of its log.
TORCHRUN = re.compile(r"(?:^Traceback \(most recent call last\):\n(?:[ \t].*\n)*)?^\S*ChildFailedError: *\n=+\n(?:.*\n)*?=+$\n?"
                      r"|^[A-Z]\d{4} [\d:.]+ .*torch/distributed/.*$\n?", re.MULTILINE)
FIRST = re.compile(r"^Root Cause .*\n(?:.*\n)*? *rank *: (\d+) .*\n *exitcode *: (-?\d+)", re.MULTILINE)
# What Python and torch warn of.
WARNING = re.compile(r"^\S+:\d+: \w*Warning: .*(?:\n[ \t]+.*)?$|^(?:\[rank\d+\]:)?\[W\d* .*$", re.MULTILINE)


def end_of(file: Path) -> str:
    """The last bytes of a log, as text; nothing where there is none."""
    try:
        with open(file, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - END))
            return log.read().decode(errors="replace")
    except OSError:
        return ""


def last_error(file: Path) -> str:
    """The line of the error log that says what happened: the last one that reads like a Python error, if there is one, else the
    last that is no warning and not a launcher's. Where torchrun says only how a process ended: that."""
    said = end_of(file)
    lines = [line.strip() for line in WARNING.sub("", TORCHRUN.sub("", said)).splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(\[?rank\d+\]?: ?)?([\w.]+\.)?\w*(Error|Exception|Interrupt)\b", line)]
    # What Slurm adds on how tasks ended says less than its states, and bash's word on a killed command less than the exit code;
    # what modules say as they are loaded is no error at all.
    own = [line for line in lines
           if not re.match(r"(srun|slurmstepd\S*):|\S*job\.sh: line \d+:.*(Killed|Terminated)|(Unl|L)oading ", line)]
    slurms = [line for line in lines if re.match(r"(srun|slurmstepd\S*): (error|fatal): ", line) and not ENDINGS.search(line)]
    first = FIRST.search(said)
    ended = [f"rank {first[1]}: {judged(int(first[2])).reason}"] if first else []
    return (errors[-1:] or own[-1:] or slurms[:1] or ended or [""])[0]


# How Slurm says that a task has ended, or that it ends one: the reason is elsewhere.
ENDINGS = re.compile(r"tasks? [\d,-]+: (Exited|Killed|Terminated|Aborted|Segmentation|Bus)|\*\*\* (STEP|JOB)|Terminating|"
                     r"Force Terminated|Timed out waiting for job step to complete")
