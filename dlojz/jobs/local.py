"""The launcher for one machine: a queue in a folder, first come, first served over the machine's GPUs.

The queue's folder (in ``DLOJZ_QUEUE``, else in the user's state folder, by host name) holds one file per job that has not
ended. A supervisor process (`dlojz.jobs.supervisor`) starts jobs and ends them in time; it is started when it is needed and
ends by itself. Any process may be killed at any moment: what is in the files, and what the kernel says about the processes
named there, is enough to go on. Whoever looks at the jobs starts a supervisor if one is missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
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

from .. import paths, sites
from ..errors import UsageError
from . import processes
from .job import Job, Request, Status, Unreachable, judged, left_exit_code, read_json, write_json
from .script import environment

HEARTBEAT = 30.0  # seconds between two signs of life of a supervisor
HEARTBEATS_MISSED = 10  # until other hosts that share the home take its host for dead
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
    def locked(self, patience: float = 20.0) -> Iterator[None]:
        """Hold the queue's lock. Raises UsageError or Unreachable."""
        try:
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UsageError(f"the job queue in {self.folder} cannot be written ({error.strerror}): "
                             "make room or mend its permissions, or set DLOJZ_QUEUE to another folder") from None
        try:
            until = time.monotonic() + patience
            while not lock(handle):
                if time.monotonic() > until:
                    raise Unreachable(f"the job queue in {self.folder} is busy: try again in a moment")
                time.sleep(0.01)
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
        self.file(identifier).unlink(missing_ok=True)
        self.environment_file(identifier).unlink(missing_ok=True)

    def add(self, new: Sequence[Entry], environ: dict[str, str]) -> list[str]:
        """Give ids to these entries and write them, all or none. The queue must be locked. Raises OSError."""
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
        log = shlex.quote(str(self.folder / "supervisor.log"))
        command = shlex.join([sys.executable, "-m", "dlojz.jobs.supervisor", str(self.folder)])
        path = os.pathsep.join(filter(None, [str(paths.PACKAGE.parent), os.environ.get("PYTHONPATH")]))
        subprocess.run(["/bin/sh", "-c", f"exec {command} < /dev/null >> {log} 2>&1 &"], cwd="/", start_new_session=True,
                       env={**environment(os.environ), "PYTHONPATH": path}, check=False)


def lock(handle: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Take a lock on an open file if it is free. Raises UsageError where the file system knows none."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise UsageError("the job queue's folder knows no file locks: set DLOJZ_QUEUE to a folder on a local disk") from None
        return False
    return True


def default_folder(host: str | None = None) -> Path:
    """In ``DLOJZ_QUEUE``, else in the user's state folder: a folder for each host, because they may share a home."""
    chosen = os.environ.get("DLOJZ_QUEUE")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(chosen).expanduser().absolute() if chosen else Path(state) / "dlojz" / "queue"
    return folder / (host or socket.gethostname())


# --- the launcher's four functions ---------------------------------------------------------------------------------------


def submit(folders: Sequence[Path], request: Request) -> list[str]:
    queue = Queue()
    queue.make()
    devices = sites.gpus()
    new = [Entry("", str(folder), time.time(), request.seconds, request.gpus, devices) for folder in folders]
    try:
        with queue.locked():
            ids = queue.add(new, environment(os.environ))
    except OSError as error:
        raise UsageError(f"the job queue in {queue.folder} cannot be written ({error.strerror}): "
                         "make room there, or set DLOJZ_QUEUE to another folder") from None
    queue.supervise()
    return ids


def poll(jobs: Sequence[Job]) -> dict[str, Status]:
    queue = Queue()
    waiting: list[str] | None = None
    answers = {}
    if queue.ids() and not queue.supervised():
        revive(queue)
    for job in jobs:
        if job.elsewhere:
            answers[job.id] = _seen_from_afar(job)
            continue
        entry = queue.read(job.id)
        if entry is None or (Path(entry.folder) != job.folder and Path(entry.folder).exists()):
            answers[job.id] = _after_the_queue(job)
        elif entry.state == "ENDED":
            answers[job.id] = Status(**(entry.status or {}))
        elif entry.state == "PENDING":
            if waiting is None:
                waiting = [other.id for other in queue.entries() if other.state == "PENDING" and not other.cancelled]
            place = waiting.index(job.id) + 1 if job.id in waiting else None
            answers[job.id] = Status("PENDING", _why_it_waits(place), position=place)
        else:
            reason = "is being ended" if entry.ending or entry.cancelled else ""
            answers[job.id] = Status("RUNNING", reason, started=entry.started)
    return answers


def _seen_from_afar(job: Job) -> Status:
    """A job of another host that shares our files. Its processes cannot be seen, its supervisor's heartbeat can."""
    queue = Queue(default_folder(job.host))
    entry = queue.read(job.id)
    code = left_exit_code(job.folder)
    if code is not None and (entry is None or entry.state != "PENDING"):
        return judged(code, job.status.started)
    if entry is None or entry.folder != str(job.folder):
        return dataclasses.replace(job.status, reason=f"it was queued on {job.host}, and only there it can be seen")
    with contextlib.suppress(OSError):
        silence = time.time() - (queue.folder / "supervisor").stat().st_mtime
        if silence > HEARTBEATS_MISSED * HEARTBEAT:
            reason = f"{job.host}, where it was queued, has given no sign of life for {silence / 60:.0f} minutes"
            return Status("NODE_FAIL", reason, started=entry.started)
    return Status("PENDING" if entry.state == "PENDING" else "RUNNING", f"on {job.host}", started=entry.started)


def _why_it_waits(place: int | None) -> str:
    return {None: "", 1: "is next"}.get(place, "waits for its turn")


def _after_the_queue(job: Job) -> Status:
    """The supervisor writes the final state into job.json, then takes the job out of the queue."""
    content = read_json(job.folder) or {}
    with contextlib.suppress(TypeError):
        if content.get("status"):
            return Status(**content["status"])
    if processes.marked(f"DLOJZ_RUN={job.folder}"):
        return Status("RUNNING", "the queue has lost it: its files were deleted", started=job.status.started)
    return judged(left_exit_code(job.folder), job.status.started)  # read last: it is written before the last process ends


def cancel(ids: Sequence[str]) -> None:
    queue = Queue()
    with queue.locked():
        for identifier in ids:
            if (entry := queue.read(identifier)) and not entry.cancelled:
                entry.cancelled = True
                try:
                    queue.write(entry)
                except OSError as error:
                    raise UsageError(f"the job queue in {queue.folder} cannot be written ({error.strerror}): "
                                     "make room there") from None
    queue.supervise()


def recover(folders: Sequence[Path]) -> dict[Path, str]:
    wanted = {str(folder): folder for folder in folders}
    queue = Queue()
    return {wanted[entry.folder]: entry.id for entry in queue.entries() if entry.folder in wanted}


def revive(queue: Queue) -> None:
    """What must be true before anybody is told a state while no supervisor lives: dead jobs are known to be dead."""
    from .supervisor import Supervisor

    with contextlib.suppress(UsageError, OSError):
        with queue.locked():
            if not queue.supervised():
                Supervisor(queue, say=lambda text: None).settle_all()  # in the notebook's own process
    if queue.ids():
        queue.supervise()
