"""What a job is, whatever runs it, and what a launcher offers.

A launcher is a module, `dlojz.jobs.local`, `dlojz.jobs.slurm` or `dlojz.jobs.replay`, with the four functions of `Launcher`. It
knows nothing of names, notebooks or tables; it brings folders that hold a ``job.sh`` to execution and says how they stand.
`Job` and `Group` are what users hold; all that they know is in the run's folder.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import html
import importlib
import os
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from ..system import processes, sites
from ..system.errors import UsageError
from ..system.shown import shown
from ..training import records
from .states import NAME, Request, Status, explained, judged, left_exit_code, made, read_json, reviewed, sound, update, written


class Launcher(Protocol):
    """The functions that a launcher's module offers."""

    def submit(self, folders: Sequence[Path], request: Request) -> list[str]:
        """Queue one job per folder and return their ids (never empty, unique within the launcher), in order.

        Each folder holds ``job.sh``, complete with its ``#SBATCH`` lines, and ``job.json``; the folder's parent's parent
        is the workspace, in which the job runs. Standard output and error go to ``out.log`` and ``err.log`` in the folder.
        Several folders are a sweep: on Slurm one array. They differ only in their commands; ``request`` is the first's.

        The environment is to be cleaned with `dlojz.jobs.script.environment`.
        All or nothing: either every job is queued, or UsageError is raised (one line with what to do) and none is.
        Where it cannot be told whether a request arrived (time out), the launcher finds out before it tries again.
        """

    def poll(self, jobs: Sequence[Job]) -> dict[str, Status]:
        """How the jobs (of one queue) stand, by id; one query for all of them. Raises Unreachable.

        May be called as often as one likes: a launcher whose queries are dear keeps the last answer for a while itself.
        An ended job must be given its final state here once; it is then kept in job.json and never asked for again.
        A job that the queue has forgotten is `judged` by the ``exit_code`` that job.sh left in the folder; without one
        it has FAILED with a reason that says so. FAILED becomes OUT_OF_MEMORY elsewhere, where the record says so.
        A job whose queue cannot be asked from here is UNKNOWN, which is not kept: it may well go on.
        ``job.id``, ``job.folder``, ``job.request``, ``job.submitted`` and ``job.status`` (the last known one) may be used;
        ``job.state`` would come back here.
        """

    def cancel(self, ids: Sequence[str], given_to: str = "") -> None:
        """End these jobs of one queue (`Job.given_to`), waiting or running, with all their processes. Returns at once; unknown
        ids are ignored."""

    def recover(self, folders: Sequence[Path]) -> dict[Path, str]:
        """The ids of jobs that were queued for these folders although their ids were never written down, because the
        submitting process was killed in between. Folders that never reached the queue are left out; an empty id stands for a
        job that the queue has taken without saying which it is."""


# --- jobs ----------------------------------------------------------------------------------------------------------------


class StillRunning(UsageError, TimeoutError):
    """`Job.wait` has waited for as long as it was told to, and the job goes on."""


class Log(str):
    """The text of a log, which a notebook shows as it stands."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Job:
    """One run of a script, as the queue sees it; it lives in its folder, so a handle can be had again at any time.

    ``name``, ``id``, ``folder``, ``request``, ``site`` and ``submitted`` never ask the queue; ``state``, ``reason``,
    ``exit_code`` and ``elapsed`` do, as long as the job has not ended. ``found`` is True where `submit` found the job
    already there.
    """

    def __init__(self, folder: Path, content: dict):
        self.folder = folder
        self.found = False
        self._load(content)

    def _load(self, content: dict) -> None:
        self.content, damaged = sound(content)
        self._id: str = self.content.get("id") or ""
        self.launcher: str = self.content.get("launcher") or ""
        self.submitted: float | None = self.content.get("submitted")
        if self.launcher and self.launcher not in sites.LAUNCHERS:
            damaged = f"launcher {self.launcher[:40]!r}"
        asked = self.content.get("request")
        self.request = made(Request, asked) if asked else Request(self.folder.name.rpartition("-")[0] or "?", ("?",), "")
        known = self.content.get("status") or self.content.get("seen")
        self.status = reviewed(self.folder, made(Status, known)) if known else Status("PENDING", "just submitted")
        if damaged:
            self.status = Status("UNKNOWN", f"{NAME} in its folder is damaged ({damaged})")

    @property
    def id(self) -> str:
        """The queue's word for it, such as ``"17"``; empty while somebody else is just submitting it."""
        if not self._id and (content := read_json(self.folder)):
            self._id = sound(content)[0].get("id") or ""
        return self._id

    @property
    def cluster(self) -> str:
        """The cluster whose queue it is in; empty for the machine's own."""
        return self.content.get("cluster") or ""

    @property
    def name(self) -> str:
        return self.request.name

    @property
    def run(self) -> str:
        """The run's own name, that of its folder: ``amp-001``."""
        return self.folder.name

    @property
    def site(self) -> str:
        return self.request.site

    @property
    def host(self) -> str:
        """The machine in whose own queue it is; empty for a job of a cluster."""
        return self.content.get("host") or ""

    @property
    def given_to(self) -> str:
        """The queue that it was given to, which alone can tell how it stands: a cluster's name, or the folder of a machine's own
        queue. Empty for the cluster's own, and where an earlier version of the kit has not written the folder down."""
        return self.cluster or self.content.get("queue") or ""

    @property
    def elsewhere(self) -> bool:
        """Whether that is another machine than this one."""
        return bool(self.host) and self.host != socket.gethostname()

    @property
    def command(self) -> str:
        return shlex.join(self.request.command)

    @property
    def state(self) -> str:
        return self.refresh().status.state

    @property
    def reason(self) -> str:
        return self.refresh().status.reason

    @property
    def exit_code(self) -> int | None:
        return self.refresh().status.exit_code

    @property
    def elapsed(self) -> float | None:
        """Seconds that the job has run, or ran; None while it waits."""
        status = self.refresh().status
        if status.started is None:
            return None
        return max(0.0, (time.time() if status.ended is None else status.ended) - status.started)

    @property
    def never_ran(self) -> bool:
        """Whether it was cancelled while it waited, as far as is known without asking the queue."""
        cancelled = self.status.state == "CANCELLED" and self.status.started is None
        return cancelled and not any((self.folder / name).exists() for name in ("out.log", records.NAME))

    @property
    def log(self) -> Log:
        """What the script printed."""
        return self._text("out.log")

    @property
    def err(self) -> Log:
        """What the script and its launcher wrote to the error output."""
        return self._text("err.log")

    def _text(self, name: str) -> Log:
        try:
            return Log((self.folder / name).read_text(encoding="utf-8", errors="replace"))
        except (FileNotFoundError, NotADirectoryError):
            return Log("")
        except OSError as error:
            raise UsageError(f"{self.folder / name} cannot be read: {error.strerror}") from None

    @property
    def record(self) -> records.Record:
        """What the run measured: `dlojz.training.records.Record`."""
        return records.read(self.folder / records.NAME)

    def refresh(self) -> Job:
        """Ask the queue how the job stands, if it has not ended."""
        refresh([self])
        return self

    def wait(self, timeout: float | None = None) -> Job:
        """Return when the job has ended. Raises StillRunning after ``timeout`` seconds; to interrupt it does the job no harm."""
        return wait([self], timeout)[0]

    def cancel(self) -> None:
        """End the job and all its processes. Returns at once; `wait` for its end."""
        cancel([self])

    def rerun(self) -> Job:
        """Run the same command with the same resources again, as a new job."""
        from .submission import FACTS, start

        if damaged := [name for name in ("request", *FACTS) if name not in self.content]:
            raise UsageError(f"{NAME} of {self.run} is damaged ({', '.join(damaged)}): submit its command again instead")
        return start([self.request], self.folder.parent.parent, self.content)[0]

    def __repr__(self) -> str:
        return details(self.refresh())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(details(self.refresh()))}</pre>"


class Group(Sequence):
    """The jobs of a sweep, in the order of their commands."""

    def __init__(self, jobs: Sequence[Job]):
        self.jobs = list(jobs)

    def __getitem__(self, index):
        return Group(self.jobs[index]) if isinstance(index, slice) else self.jobs[index]

    def __len__(self) -> int:
        return len(self.jobs)

    @property
    def name(self) -> str:
        return self.jobs[0].name

    @property
    def states(self) -> list[str]:
        return [job.status.state for job in refresh(self.jobs)]

    def wait(self, timeout: float | None = None) -> Group:
        """Return when all have ended. Raises StillRunning after ``timeout`` seconds."""
        wait(self.jobs, timeout)
        return self

    def cancel(self) -> None:
        cancel(self.jobs)

    def __repr__(self) -> str:
        return table(refresh(self.jobs))

    def _repr_html_(self) -> str:
        return table_html(refresh(self.jobs))


def load(folder: Path) -> Job | None:
    """The job of a run's folder; None where the folder is none of a job's."""
    content = read_json(folder)
    return None if content is None else Job(Path(os.path.abspath(folder)), content)


def launcher(name: str) -> Launcher:
    if name not in sites.LAUNCHERS:
        raise UsageError(f"there is no launcher {name!r}: launchers are {', '.join(sites.LAUNCHERS)}")
    return importlib.import_module(f"dlojz.jobs.{name}")


def refresh(jobs: Sequence[Job]) -> Sequence[Job]:
    """Bring the states of these jobs up to date, with one query for each launcher, and keep final ones in job.json.

    Where the queue does not answer, the last known states stay, with a reason that says so. Returns ``jobs``.
    """
    for job in jobs:
        if job.status.out_of_reach:
            job._load(job.content)  # ask again: its queue may be within reach by now
    active = [job for job in jobs if job.status.active]
    for job in active:
        _reload(job)
    _identify([job for job in active if job.status.active and not job.id])
    for (name, *_), asked in _by_queue([job for job in active if job.id and job.status.active]).items():
        try:
            answers = launcher(name).poll(asked)
        except UsageError as error:  # nobody answers, or the queue's commands are not to be had here
            for job in asked:
                job.status = _last_known(job, str(error))
            continue
        for job in asked:
            if (status := answers.get(job.id)) is not None:
                job.status = _noted(job, status) if status.active or status.state == "UNKNOWN" else _settled(job, status)
    return jobs


def _by_queue(jobs: Sequence[Job]) -> dict[tuple[str, str, str], list[Job]]:
    """The jobs of each queue, by launcher, `Job.given_to` and host: only within one queue are ids unique."""
    found: dict[tuple[str, str, str], list[Job]] = {}
    for job in jobs:
        found.setdefault((job.launcher, job.given_to, job.host), []).append(job)
    return found


def _noted(job: Job, status: Status) -> Status:
    """A job that runs, as of now: written down once, for whoever asks while the queue does not answer."""
    seen = Status(status.state, started=status.started)
    known = job.content.get("seen")
    if job.launcher == "slurm" and (known or status.state == "RUNNING") and (not known or made(Status, known) != seen):
        job.content["seen"] = dataclasses.asdict(seen)
        with contextlib.suppress(OSError):
            update(job.folder, seen=job.content["seen"])
    return status


def _last_known(job: Job, why: str) -> Status:
    """How a job stood when the queue last answered, or as its files tell, with the reason why it is not known better."""
    status, left = job.status, left_exit_code(job.folder)
    if left == 0:  # job.sh removes it when it begins, so this is of the last run
        return _settled(job, judged(0, status.started, written(job.folder / "exit_code")))
    why = why.removeprefix("last known state: ")
    if left is not None:
        why = f"its script has ended with exit code {left}; {why}"
    begun = written(job.folder / "out.log")  # of a job that was put back, it may be of the run before: `_noted` came after that
    runs = begun and (not job.content.get("seen") or begun > written(job.folder / NAME))
    state = "RUNNING" if status.state == "PENDING" and runs else status.state
    return dataclasses.replace(status, state=state, reason=f"last known state: {why}")


def _reload(job: Job) -> None:
    """Read job.json again: somebody else may have written the job's id or its final state."""
    content = read_json(job.folder)
    if content is None:
        gone = "job.json is gone" if job.folder.is_dir() else "its folder was deleted"
        job.status = Status("UNKNOWN", gone, None, job.status.started)
    elif content and (content.get("id") != job._id or content.get("status")):
        job._load(content)
    elif not content:
        job.status = Status("UNKNOWN", f"{NAME} in its folder is damaged", None, job.status.started)


def _identify(jobs: Sequence[Job]) -> None:
    """Jobs without an id are just being submitted by somebody, or whoever did so was killed while doing it."""
    for name in {job.launcher for job in jobs}:
        lost = [job for job in jobs if job.launcher == name and not being_submitted(job.content)]
        if not lost:
            continue
        try:
            found = launcher(name).recover([job.folder for job in lost])
        except UsageError as error:
            for job in lost:
                job.status = Status("PENDING", f"perhaps: {error}")
            continue
        for job in lost:
            if identifier := found.get(job.folder):
                job._id = identifier
                with contextlib.suppress(OSError):
                    update(job.folder, id=identifier)
                job._load(read_json(job.folder) or job.content)
            elif job.folder in found:
                job.status = _as_its_files_tell(job)
            else:
                job.status = Status("CANCELLED", NEVER_QUEUED)


def _as_its_files_tell(job: Job) -> Status:
    """The status of a job that is in the queue, although nobody knows as which."""
    left = left_exit_code(job.folder)
    if left is not None:
        return _settled(job, judged(left, None, written(job.folder / "exit_code")))
    state = "RUNNING" if (job.folder / "out.log").exists() else "PENDING"
    return Status(state, "sbatch has taken it without saying its id: `squeue --me` may show it, `scancel` ends it")


NEVER_QUEUED = "it never reached the queue: submission was interrupted"


def being_submitted(content: dict) -> bool:
    if not (who := content.get("submitter")):
        return False
    if who.get("host") != socket.gethostname():  # another machine's processes cannot be seen from here: give it time
        return time.time() - (content.get("submitted") or 0) < 300
    return processes.alive(who.get("process"))


def _settled(job: Job, status: Status) -> Status:
    """A final state, with what the run itself says about it, written down for good."""
    status = explained(job.folder, status)
    with contextlib.suppress(OSError):  # a full disk: the next one who asks tries again
        update(job.folder, status=dataclasses.asdict(status))
    return status


def wait(jobs: Sequence[Job], timeout: float | None = None) -> Sequence[Job]:
    """Return when all these jobs have ended. Raises StillRunning. In a notebook a line says how they stand meanwhile."""
    from .wait_line import WaitLine

    until = None if timeout is None else time.monotonic() + timeout
    pause = 0.05
    with WaitLine(jobs) as line:
        while waiting := [job for job in refresh(jobs) if job.status.active]:
            if until is not None and time.monotonic() >= until:
                names = ", ".join(f"{job.run} ({job.status.state})" for job in waiting[:5])
                raise StillRunning(f"still running after {timeout:g} s: {names}{' and more' * (len(waiting) > 5)}")
            line.sleep(pause if until is None else min(pause, max(0.01, until - time.monotonic())))
            pause = min(pause * 1.2, 0.5 if all(job.launcher == "local" for job in waiting) else 3.0)
    return jobs


def follow(job: Job, name: str = "out.log", wait: bool = True) -> Iterator[str]:
    """What comes into a log, piece by piece, until the job has ended; without ``wait`` what there is."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    position, pause = 0, 0.1
    while True:
        over = not wait or not job.refresh().status.active  # asked before reading: what was written until then is then read
        try:
            with open(job.folder / name, "rb") as file:
                if os.fstat(file.fileno()).st_size < position:
                    position = 0  # the file was begun anew
                file.seek(position)
                while data := file.read(1 << 20):
                    position += len(data)
                    yield decoder.decode(data)
                    pause = 0.1
        except FileNotFoundError:
            pass
        except OSError as error:
            raise UsageError(f"{job.folder / name} cannot be read: {error.strerror}") from None
        if over:
            return
        time.sleep(pause)
        pause = min(pause * 1.1, 0.5 if job.launcher == "local" else 2.0)


def cancel(jobs: Sequence[Job]) -> None:
    for job in refresh(jobs):
        if job.status.out_of_reach:
            raise UsageError(f"{job.run} cannot be cancelled, {job.status.reason}. "
                             "Cancel it where you submitted it, as the same user")
    active = [job for job in jobs if job.status.active and job.id]
    for job in active:
        if job.elsewhere:
            raise UsageError(f"{job.run} is a job of {job.host}: cancel it there")
    for (name, given_to, _), there in _by_queue(active).items():
        launcher(name).cancel([job.id for job in there], given_to)


# --- shown ---------------------------------------------------------------------------------------------------------------

COLUMNS = ("run", "state", "time", "gpus", "command")


def rows(jobs: Sequence[Job], longest: int | None = 100) -> list[tuple[str, ...]]:
    """What a table shows of each job: run, state, time, GPUs, command with what there is to say about it, in at most ``longest``
    characters (None: all of it)."""
    found = []
    for job in jobs:
        status = job.status
        spent = "" if status.started is None else sites.duration(max(0, (status.ended or time.time()) - status.started))
        place = f" ({status.position})" if status.position else ""
        note = f"  [{status.reason}]" if status.reason and status.state != "COMPLETED" else ""
        found.append((job.run, status.state + place, spent, str(job.request.gpus), _one_line(job.command + note, longest)))
    return found


def _one_line(text: str, longest: int | None) -> str:
    line = text if text.isprintable() else repr(text)[1:-1]
    return line if longest is None or len(line) <= longest else line[:longest - 3] + "..."


def table(jobs: Sequence[Job], longest: int | None = 100) -> str:
    if not jobs:
        return "no jobs yet: submit one, such as submit(\"train.py\", name=\"first\")"
    lines = [COLUMNS, *rows(jobs, longest)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    return shown("\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines))


def table_html(jobs: Sequence[Job]) -> str:
    if not jobs:
        return f"<p>{html.escape(table(jobs))}</p>"
    cells = ["".join(f'<td style="text-align:left">{html.escape(cell)}</td>' for cell in row) for row in rows(jobs)]
    head = "".join(f'<th style="text-align:left">{name}</th>' for name in COLUMNS)
    return f"<table><tr>{head}</tr>{shown(''.join(f'<tr>{row}</tr>' for row in cells))}</table>"


def details(job: Job) -> str:
    """One job in a few lines."""
    status, asked = job.status, job.request
    share = _counted(asked.gpus, "GPU", "s") if asked.gpus else _counted(asked.processes, "process", "es") + " on the CPU"
    share += f" on {asked.nodes} nodes" * (asked.nodes > 1)
    lines = [f"{job.run}: {status.state}"]
    if status.position:
        lines[0] += f", number {status.position} in the queue"
    if status.started is not None:
        spent = max(0, (status.ended or time.time()) - status.started)
        lines[0] += f", {sites.duration(spent)} of {sites.duration(asked.seconds)}"
    if status.reason:
        lines.append(f"  {status.reason}")
    where = f" of {job.cluster}" if job.cluster else ""
    lines += [f"  {_one_line(job.command, 110)}", f"  {share}, site {asked.site}, job {job.id or '?'}{where}", f"  {job.folder}"]
    if replays := job.content.get("replays"):
        lines.append(f"  nothing ran here: this is the recorded run {replays['run']}")
    return "\n".join(shown(line.replace("\n", " ")) for line in lines)


def _counted(number: int, word: str, plural: str) -> str:
    return f"{number} {word}{plural * (number != 1)}"
