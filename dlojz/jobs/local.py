"""The launcher for one machine: a queue in a folder, first come, first served over the machine's GPUs.

The queue's folder (in ``DLOJZ_QUEUE``, else in the user's state folder, by host name) holds one file per job that has not
ended. A supervisor process (`dlojz.jobs.supervisor`) starts jobs and ends them in time; it is started when it is needed and
ends by itself. Any process may be killed at any moment: what is in the files, and what the kernel says about the processes
named there, is enough to go on. Whoever looks at the jobs starts a supervisor if one is missing.

A job's job.json names the folder of the queue that it was given to. That queue is asked, whatever the settings of whoever asks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..system import processes, sites
from ..system.errors import UsageError
from .queue import HEARTBEAT, HEARTBEATS_MISSED, Entry, Queue, default_folder
from .script import environment
from .states import UNKNOWN_HERE, Request, Status, Unreachable, judged, left_exit_code, made, read_json, sound, written
from .supervisor import Supervisor

if TYPE_CHECKING:
    from .job import Job


def submit(folders: Sequence[Path], request: Request) -> list[str]:
    queue = Queue()
    queue.make()
    devices = sites.gpus()
    new = [Entry("", str(folder), time.time(), request.seconds, request.gpus, devices) for folder in folders]
    try:
        with queue.locked():
            ids = queue.add(new, environment(os.environ))
    except Unreachable as error:  # here it is no question whether the jobs reached the queue: they did not
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"the job queue in {queue.folder} cannot be written ({error.strerror}): "
                         "make room there, or set DLOJZ_QUEUE to another folder") from None
    queue.supervise()
    return ids


def poll(jobs: Sequence[Job]) -> dict[str, Status]:
    if jobs[0].elsewhere:
        return {job.id: _seen_from_afar(job) for job in jobs}
    queue = Queue(_folder(jobs[0]))
    if why := _out_of_reach(queue.folder):
        why = f"it was given to the queue in {queue.folder} ({why})"
        return {job.id: _without_the_queue(job, why) for job in jobs}
    waiting: list[str] | None = None
    answers = {}
    if queue.ids() and not queue.supervised():
        revive(queue)
    trouble = queue.trouble()
    for job in jobs:
        entry = queue.read(job.id)
        if entry is None or not _same(Path(entry.folder), job.folder):
            answers[job.id] = _after_the_queue(job, queue)
        elif entry.state == "ENDED":
            answers[job.id] = Status(**(entry.status or {}))
        elif entry.state == "PENDING":
            if waiting is None:
                waiting = [other.id for other in queue.entries() if other.state == "PENDING" and not other.cancelled]
            place = waiting.index(job.id) + 1 if job.id in waiting else None
            answers[job.id] = Status("PENDING", trouble or _why_it_waits(place), position=place)
        else:
            reason = trouble or ("stopping" if entry.ending or entry.cancelled else "")
            answers[job.id] = Status("RUNNING", reason, started=entry.started)
    return answers


def _folder(job: Job) -> Path:
    """The folder of the queue that has the job: that of today's settings where an earlier version did not write it down."""
    return Path(job.given_to) if job.given_to else default_folder(job.host)


def _out_of_reach(folder: Path) -> str:
    """Why a queue cannot be asked; empty where it can. Only one's own is: whoever asks also starts what waits in it."""
    if folder == default_folder():
        return ""
    try:
        return "" if folder.stat().st_uid == os.geteuid() else "it belongs to another user"
    except OSError as error:
        return error.strerror or str(error)


def _same(folder: Path, other: Path) -> bool:
    """Whether both are one run's folder, be it by way of a link; one that is gone has been moved."""
    return folder == other or not folder.exists() or (other.exists() and folder.samefile(other))


def _seen_from_afar(job: Job) -> Status:
    """A job of another host that shares our files. Its processes cannot be seen, its supervisor's heartbeat can."""
    queue = Queue(_folder(job))
    entry = queue.read(job.id)
    code = left_exit_code(job.folder)
    if code is not None and (entry is None or entry.state != "PENDING"):
        return judged(code, job.status.started)
    if entry is None or entry.folder != str(job.folder):
        return dataclasses.replace(job.status, reason=f"it was queued on {job.host}, and is visible only there")
    with contextlib.suppress(OSError):
        silence = time.time() - (queue.folder / "supervisor").stat().st_mtime
        if silence > HEARTBEATS_MISSED * HEARTBEAT:
            reason = f"{job.host}, where it was queued, has not responded for {silence / 60:.0f} minutes"
            return Status("NODE_FAIL", reason, started=entry.started)
    return Status("PENDING" if entry.state == "PENDING" else "RUNNING", f"on {job.host}", started=entry.started)


def _why_it_waits(place: int | None) -> str:
    return {None: "", 1: "next to run"}.get(place, "waiting for its turn")


def _after_the_queue(job: Job, queue: Queue) -> Status:
    """The supervisor writes the final state into job.json, then takes the job out of the queue."""
    if status := sound(read_json(job.folder) or {})[0].get("status"):
        return made(Status, status)
    if not job.given_to:
        return _without_the_queue(job, f"it is not in the queue in {queue.folder}, and its job.json, written by an earlier "
                                       "version of dlojz, names no other")
    return _running(job) or judged(left_exit_code(job.folder), job.status.started)  # in this order: see _without_the_queue


def _running(job: Job) -> Status | None:
    if not processes.marked(f"DLOJZ_RUN={job.folder}"):
        return None
    return Status("RUNNING", "its files were deleted, so the queue no longer knows it", started=job.status.started)


def _without_the_queue(job: Job, why: str) -> Status:
    """What the job's files and processes tell where its queue does not: that it runs, or has ended, but never that it died."""
    if running := _running(job):
        return dataclasses.replace(running, reason=UNKNOWN_HERE + why)
    code = left_exit_code(job.folder)  # read last: it is written before the last process ends
    if code is None:
        return Status("UNKNOWN", UNKNOWN_HERE + why, started=job.status.started)
    return judged(code, job.status.started, written(job.folder / "exit_code"))


def cancel(ids: Sequence[str], given_to: str = "") -> None:
    queue = Queue(Path(given_to) if given_to else None)
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
    queues = {sound(read_json(folder) or {})[0].get("queue") or str(default_folder()) for folder in folders}
    entries = [entry for queue in queues for entry in Queue(Path(queue)).entries()]
    return {wanted[entry.folder]: entry.id for entry in entries if entry.folder in wanted}


def revive(queue: Queue) -> None:
    """What must be true before anybody is told a state while no supervisor lives: dead jobs are known to be dead."""
    with contextlib.suppress(UsageError, OSError):
        with queue.locked():
            if not queue.supervised():
                Supervisor(queue, say=lambda text: None).settle_all()  # in the notebook's own process
    if queue.ids():
        queue.supervise()
