"""The files of the local queue: one for each job, a lock for every change, a lock that says that a supervisor lives."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..system import locks, paths, processes
from ..system.errors import UsageError
from .script import environment
from .states import Unreachable, write_json

HEARTBEAT = 30.0  # seconds between two signs of life of a supervisor
HEARTBEATS_MISSED = 10  # until other hosts that share the home take its host for dead
NO_LOCKS = "the job queue's folder knows no file locks: set DLOJZ_QUEUE to a folder on a local disk"
MARK = "DLOJZ_JOB"  # in the environment of all processes of a job


@dataclass
class Entry:
    """A job in the queue. ``began`` and ``ending_at`` are of `time.monotonic`, which no change of the clock moves."""

    id: str
    folder: str
    submitted: float
    seconds: int
    gpus: int = 0
    devices: list[str] = field(default_factory=list)  # the GPUs that the submitter may use
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: str = "PENDING"  # PENDING, STARTING (perhaps a process exists), RUNNING, ENDED (final state not yet in job.json)
    given: list[str] = field(default_factory=list)  # the GPUs it runs on
    process: dict | None = None
    started: float | None = None
    began: float | None = None
    warned: bool = False
    cancelled: bool = False
    ending: str = ""  # CANCELLED or TIMEOUT from when its processes are told to end
    ending_at: float | None = None
    status: dict | None = None


class Queue:
    """The files of the queue. Every change is made under its lock."""

    def __init__(self, folder: Path | None = None):
        self.folder = folder or default_folder()
        self.jobs = self.folder / "jobs"

    def make(self) -> None:
        try:
            self.jobs.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.folder.chmod(0o700)  # environments may hold secrets
        except OSError as error:
            raise UsageError(f"the job queue's folder {self.folder} cannot be made ({error.strerror}): "
                             "set DLOJZ_QUEUE to a folder that you may write to") from None

    @contextlib.contextmanager
    def locked(self, patience: float | None = None) -> Iterator[None]:
        """Hold the queue's lock. Raises UsageError or Unreachable."""
        try:
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UsageError(f"the job queue in {self.folder} cannot be written ({error.strerror}): "
                             "free some space or fix its permissions, or set DLOJZ_QUEUE to another folder") from None
        try:
            try:
                locks.take(handle, f"the job queue in {self.folder}", patience)
            except locks.Held as error:
                raise Unreachable(str(error)) from None
            except OSError:
                raise UsageError(NO_LOCKS) from None
            yield
        finally:
            os.close(handle)

    def file(self, identifier: str) -> Path:
        return self.jobs / f"{identifier}.json"

    def environment_file(self, identifier: str) -> Path:
        return self.jobs / f"{identifier}.env"

    def ids(self) -> list[str]:
        """The ids in the queue, first come first."""
        try:
            names = os.listdir(self.jobs)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Unreachable(f"the job queue in {self.folder} cannot be read: {error.strerror}") from None
        return sorted((name[:-5] for name in names if re.fullmatch(r"\d+\.json", name)), key=int)

    def read(self, identifier: str) -> Entry | None:
        try:
            return Entry(**json.loads(self.file(identifier).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def entries(self) -> list[Entry]:
        return [entry for identifier in self.ids() if (entry := self.read(identifier))]

    def write(self, entry: Entry) -> None:
        write_json(self.file(entry.id), dataclasses.asdict(entry))

    def remove(self, identifier: str) -> None:
        self.environment_file(identifier).unlink(missing_ok=True)  # first: a kill in between must not leave it
        self.file(identifier).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove environments, which may hold secrets, of jobs that are in no queue: whoever added them was killed in between,
        or removed them. The queue must be locked."""
        with contextlib.suppress(OSError):
            there = set(self.ids())
            for name in os.listdir(self.jobs):
                if (name.endswith(".env") and name[:-4] not in there) or re.fullmatch(r"\.\d+\.json\.\d+\.\d+", name):
                    (self.jobs / name).unlink(missing_ok=True)

    def add(self, new: Sequence[Entry], environ: dict[str, str]) -> list[str]:
        """Give ids to these entries and write them, all or none. The queue must be locked. Raises OSError."""
        self.tidy()
        counter = self.folder / "last"
        try:
            last = int(counter.read_text())
        except (OSError, ValueError):
            last = 0
        last = max([last, *map(int, self.ids())])
        written = []
        try:
            for number, entry in enumerate(new, last + 1):
                entry.id = str(number)
                written.append(entry.id)
                with open(os.open(self.environment_file(entry.id), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                    json.dump(environ, file)
                self.write(entry)
            write_json(counter, last + len(new))
        except OSError:
            for identifier in written:
                with contextlib.suppress(OSError):
                    self.remove(identifier)
            raise
        return written

    def supervised(self) -> bool:
        """Whether a supervisor lives. It holds a lock for as long as it does, and no kill leaves that lock behind."""
        try:
            handle = os.open(self.folder / "supervisor", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            return not lock(handle, fcntl.LOCK_SH)  # shared: two who ask at once must not take each other for it
        finally:
            os.close(handle)

    def supervise(self) -> None:
        """Start a supervisor unless there is one. It belongs to nobody: it survives the notebook and the shell."""
        if self.supervised() or not os.access(self.folder, os.W_OK):
            return
        held = os.open(self.folder / "supervisor", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Its lock is taken here and handed on: until it is there, and Python takes its time, nobody starts another.
            for _ in range(50):
                if lock(held):
                    break
                time.sleep(0.01)  # held by another supervisor, or for a moment by someone who asks whether there is one
            else:
                return
            os.truncate(held, 0)
            log = shlex.quote(str(self.folder / "supervisor.log"))
            command = shlex.join([sys.executable, "-m", "dlojz.jobs.supervisor", str(self.folder), str(held)])
            subprocess.run(["/bin/sh", "-c", f"exec {command} < /dev/null >> {log} 2>&1 &"], cwd="/", start_new_session=True,
                           env={**environment(os.environ), "PYTHONPATH": paths.python_path()}, check=False, pass_fds=[held])
        finally:
            os.close(held)

    def trouble(self) -> str:
        """Why the supervisor that there is does nothing; empty where it does, or where there is none."""
        try:
            process = json.loads((self.folder / "supervisor").read_bytes())
            silence = time.time() - (self.folder / "supervisor").stat().st_mtime
        except (OSError, ValueError):
            return ""
        if not isinstance(process, dict) or not processes.alive(process):
            return ""
        if processes.stopped(process["pid"]):
            return (f"the queue's supervisor, process {process['pid']}, is stopped: let it continue (kill -CONT "
                    f"{process['pid']}) or kill it (kill -9 {process['pid']}), then another takes over")
        if silence > HEARTBEATS_MISSED * HEARTBEAT:
            return (f"the queue's supervisor, process {process['pid']}, has done nothing for {silence / 60:.0f} minutes: "
                    f"kill it (kill -9 {process['pid']}), then another takes over")
        return ""


def lock(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take a lock on an open file if it is free. Raises UsageError where the file system knows none."""
    try:
        return locks.free(handle, kind)
    except OSError:
        raise UsageError(NO_LOCKS) from None


def default_folder(host: str | None = None) -> Path:
    """In ``DLOJZ_QUEUE``, else in the user's state folder: a folder for each host, because they may share a home."""
    chosen = os.environ.get("DLOJZ_QUEUE")
    folder = Path(chosen).expanduser().absolute() if chosen else paths.xdg("XDG_STATE_HOME", ".local/state") / "dlojz" / "queue"
    return folder / (host or socket.gethostname())
