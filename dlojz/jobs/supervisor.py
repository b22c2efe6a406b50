"""The process that runs this machine's queue: ``python -m dlojz.jobs.supervisor FOLDER``, started by `dlojz.jobs.queue`.

Ten times a second it looks whether a job has ended, has used up its time or is to be cancelled, and starts the next ones. It
keeps nothing to itself: a supervisor that is killed is followed by another, which finds the running jobs by their processes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ..system import processes
from ..system.errors import UsageError
from ..system.machine import limit_of_cores
from ..system.shown import say
from .queue import HEARTBEAT, MARK, Entry, Queue, lock
from .script import SHORTEST_WARNED, WARNING
from .states import SAVED, Status, explained, judged, left_exit_code, update, written

TICK = 0.1  # seconds
GRACE = 10.0  # seconds that a job has between SIGTERM and SIGKILL, to save a checkpoint
LATE = 3.0  # seconds after which a final state that could not be written is tried again


class Supervisor:
    """One look at a time at the queue, which must be locked meanwhile."""

    def __init__(self, queue: Queue, clock=time.monotonic, say=None, limit=limit_of_cores, adopts: bool = False):
        self.queue = queue
        self.adopts = adopts  # what a job leaves behind becomes this process's child
        self.limit = limit
        self.say = say or log
        self.clock = clock
        self.grace = float(os.environ.get("DLOJZ_GRACE", GRACE))
        self.started: dict[str, subprocess.Popen] = {}  # the jobs that are this process's own children
        self.retry: dict[str, float] = {}
        self.entries: dict[str, Entry] = {}
        self.seen: int | None = None

    # --- looking ---

    def look(self) -> bool:
        """Do what is to be done now; False where nothing is left in the queue."""
        self.settle_all()
        self._start_what_fits()
        return bool(self.entries)

    def settle_all(self) -> None:
        """See to all jobs that have a process, or had one, or must not get one any more."""
        before, self.entries = self.entries, {entry.id: entry for entry in self.queue.entries()}
        for identifier in self.started.keys() & before.keys() - self.entries.keys():
            with contextlib.suppress(UsageError):
                self.queue.make()
            self._write(before[identifier])  # somebody deleted the queue's files: this job is still ours
        for entry in list(self.entries.values()):
            self._settle(entry)

    def idle(self) -> bool:
        """Whether nothing has happened since the last look: cheap, without the lock."""
        now = self.clock()
        if self._changed() or any(child.poll() is not None for child in self.started.values()):
            return False
        return not any(self._due(entry, now) for entry in self.entries.values())

    def _changed(self) -> bool:
        try:
            stamp = os.stat(self.queue.jobs).st_mtime_ns
        except OSError:
            return True
        if stamp == self.seen:
            return False
        # Two changes within one tick of the kernel's clock look like one: remember only a stamp that is old enough.
        self.seen = stamp if time.time_ns() - stamp > 50_000_000 else None
        return True

    def _due(self, entry: Entry, now: float) -> bool:
        if entry.id in self.retry:
            return now >= self.retry[entry.id]
        if entry.state != "RUNNING":
            return False
        if entry.ending or (entry.id not in self.started and not processes.alive(entry.process)):
            return True
        limit = entry.began + entry.seconds
        warns = entry.seconds >= SHORTEST_WARNED and not entry.warned
        return now >= (limit - WARNING if warns else limit) or not os.path.isdir(entry.folder)

    # --- one job ---

    def _settle(self, entry: Entry) -> None:
        if entry.state == "ENDED":
            self._finish(entry, Status(**entry.status))
        elif entry.state == "PENDING":
            if entry.cancelled:
                self._finish(entry, Status("CANCELLED", "cancelled before it ran"))
            elif not os.path.isdir(entry.folder) and os.path.isdir(os.path.dirname(entry.folder)):
                self._finish(entry, Status("CANCELLED", "its run folder was deleted"))
        elif entry.state == "STARTING" and not self._find(entry):
            code = left_exit_code(Path(entry.folder))
            if code is not None:
                self._finish(entry, self._verdict(entry, code))
            else:  # the supervisor was killed before it had started the job
                self._write(dataclasses.replace(entry, state="PENDING", given=[], process=None))
        elif entry.state == "RUNNING":
            self._watch(entry)

    def _find(self, entry: Entry) -> bool:
        """The processes of a job whose start a killed supervisor could not note down any more."""
        pids = processes.marked(f"{MARK}={entry.mark}")
        first = [pid for pid in pids if not processes.parent_is_among(pid, pids)]
        if not first or (identity := processes.identity(min(first))) is None:
            return False
        self._write(dataclasses.replace(entry, state="RUNNING", process=identity, began=entry.began or self.clock()))
        return True

    def _watch(self, entry: Entry) -> None:
        child = self.started.get(entry.id)
        if child is not None and child.poll() is not None:
            self._finish(entry, self._verdict(entry, child.returncode))
        elif child is None and not processes.alive(entry.process):
            self._finish(entry, self._verdict(entry, left_exit_code(Path(entry.folder))))
        elif entry.ending:
            self._press(entry)
        elif entry.cancelled:
            self._end(entry, "CANCELLED")
        elif not os.path.isdir(entry.folder) and os.path.isdir(os.path.dirname(entry.folder)):
            self._end(dataclasses.replace(entry, cancelled=True), "CANCELLED")
        elif self.clock() >= entry.began + entry.seconds:
            self._end(entry, "TIMEOUT")
        elif entry.seconds >= SHORTEST_WARNED and not entry.warned and self.clock() >= entry.began + entry.seconds - WARNING:
            self._write(dataclasses.replace(entry, warned=True))
            # Not to job.sh itself, which would die of it; what it runs ignores the warning or knows what it means.
            processes.send([pid for pid in self._pids(entry) if pid != entry.process["pid"]], signal.SIGUSR1)

    def _pids(self, entry: Entry) -> list[int]:
        return processes.marked(f"{MARK}={entry.mark}")

    def _end(self, entry: Entry, state: str) -> None:
        """Ask the job to end: SIGTERM to what job.sh runs, which may save and hand it on; job.sh itself waits for that."""
        self._write(dataclasses.replace(entry, ending=state, ending_at=self.clock()))
        pids = self._pids(entry)
        programs = processes.children(entry.process["pid"], pids)
        processes.send(programs or pids, signal.SIGTERM)

    def _press(self, entry: Entry) -> None:
        if self.clock() >= entry.ending_at + self.grace:
            processes.send([*self._pids(entry), *processes.descendants(entry.process["pid"])], signal.SIGKILL)

    def _verdict(self, entry: Entry, code: int | None) -> Status:
        """The final state of a job whose first process has ended, by its exit code (None: nobody knows)."""
        folder = Path(entry.folder)
        now = time.time()
        if entry.began is not None and entry.process and entry.process.get("boot") == processes.boot():
            ended = entry.started + self.clock() - entry.began  # right although the clock may have been set
        else:
            ended = now
        if entry.id not in self.started and not entry.ending:  # nobody saw it end: the last thing it wrote tells
            ended = max([entry.started or now, *(written(folder / name) for name in ("exit_code", "out.log", "err.log"))])
        status = judged(code, entry.started, ended)
        if entry.ending:
            why = "cancelled" if entry.ending == "CANCELLED" else f"time limit of {entry.seconds} s reached"
            why += ", after saving a checkpoint" if code == SAVED else ""
            return dataclasses.replace(status, state=entry.ending, reason=why)
        if code is None and entry.process and entry.process.get("boot") != processes.boot():
            return dataclasses.replace(status, state="NODE_FAIL", reason="the machine was restarted while the job ran")
        return explained(folder, status)

    def _finish(self, entry: Entry, status: Status) -> None:
        """End what the job has left running, write its final state into job.json and take it out of the queue."""
        if entry.state == "RUNNING" and not self._nothing_left(entry):
            return  # the next look tries again
        folder = Path(entry.folder)
        try:
            if folder.is_dir():
                update(folder, id=entry.id, status=dataclasses.asdict(status))
            self.queue.remove(entry.id)
        except OSError as error:
            if entry.state != "ENDED":
                self.say(f"job {entry.id}: its final state cannot be written ({error}); trying again every {LATE:g} s")
            self.retry[entry.id] = self.clock() + LATE
            ended = dataclasses.replace(entry, state="ENDED", status=dataclasses.asdict(status))
            self.entries[entry.id] = ended
            with contextlib.suppress(OSError):
                self.queue.write(ended)
        else:
            self.say(f"job {entry.id}: {status.state} {status.reason}".rstrip())
            self.entries.pop(entry.id, None)
            self.started.pop(entry.id, None)
            self.retry.pop(entry.id, None)

    def _nothing_left(self, entry: Entry) -> bool:
        for _ in range(20):
            left = self._left_behind(entry)
            pids = {*self._pids(entry), *left}
            if not pids:
                return True
            processes.send(list(pids), signal.SIGKILL)
            time.sleep(0.01)
            for pid in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return False

    def _left_behind(self, entry: Entry) -> set[int]:
        """What an ended job has left running with an environment of its own: job.sh adopts it, and when that has ended we do."""
        if not self.adopts:
            return set()
        others = {child.pid for identifier, child in self.started.items() if identifier != entry.id}
        return set(processes.descendants(os.getpid(), others))

    def _write(self, entry: Entry) -> None:
        self.entries[entry.id] = entry
        try:
            self.queue.write(entry)
        except OSError as error:
            self.say(f"job {entry.id}: the queue cannot be written ({error})")

    # --- starting ---

    def _start_what_fits(self) -> None:
        """Start the jobs whose turn it is. A job waits for all before it that ask for the same: GPUs, or the CPU."""
        used = {device for entry in self.entries.values() if entry.state in ("STARTING", "RUNNING") for device in entry.given}
        cpu_free = not any(entry.state in ("STARTING", "RUNNING") and not entry.given for entry in self.entries.values())
        gpus_blocked = False
        for entry in list(self.entries.values()):
            if entry.state != "PENDING" or entry.id in self.retry:
                continue
            if entry.gpus:
                free = [device for device in entry.devices if device not in used]
                if gpus_blocked or len(free) < entry.gpus:
                    gpus_blocked = True
                    continue
                given = free[:entry.gpus]
                used.update(given)
                self._start(entry, given)
            elif cpu_free:
                cpu_free = False
                self._start(entry, [])

    def _start(self, entry: Entry, given: list[str]) -> None:
        folder = Path(entry.folder)
        starting = dataclasses.replace(entry, state="STARTING", given=given, started=time.time(), began=self.clock())
        try:
            environ = json.loads(self.queue.environment_file(entry.id).read_bytes())
            (folder / "exit_code").unlink(missing_ok=True)
            self.queue.write(starting)  # from here on a process of this job may exist
            environ |= {MARK: entry.mark, "DLOJZ_RUN": entry.folder}
            if entry.devices:
                environ["CUDA_VISIBLE_DEVICES"] = ",".join(given)
            if cores := self.limit():
                environ.setdefault("OMP_NUM_THREADS", str(cores))
            with open(folder / "out.log", "ab") as out, open(folder / "err.log", "ab") as err:
                child = subprocess.Popen(["bash", "job.sh"], cwd=folder, env=environ, start_new_session=True,
                                         stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                         preexec_fn=processes.adopt if self.adopts else None)
        except (OSError, ValueError) as error:
            reason = f"cannot start: {getattr(error, 'strerror', None) or error}"
            self._finish(entry, Status("FAILED", reason, None, None, time.time()))
            return
        self.started[entry.id] = child
        self._write(dataclasses.replace(starting, state="RUNNING", process=processes.identity(child.pid)))
        self.say(f"job {entry.id}: started in {folder}" + f" on GPU {','.join(given)}" * bool(given))


def log(text: str) -> None:
    with contextlib.suppress(OSError):  # a full disk
        say(time.strftime("%Y-%m-%d %H:%M:%S"), text)


def main(folder: Path, held: int | None = None) -> int:
    """``held``: the open file with the lock of whoever started us."""
    queue = Queue(folder)
    queue.make()
    if held is None:
        held = os.open(queue.folder / "supervisor", os.O_RDWR | os.O_CREAT, 0o600)
    os.set_inheritable(held, False)  # no job may keep it
    for _ in range(50):
        if lock(held):
            break
        time.sleep(0.01)  # held by another supervisor, or for a moment by someone who asks whether there is one
    else:
        return 0
    with contextlib.suppress(OSError):
        os.truncate(held, 0)
        os.pwrite(held, json.dumps(processes.identity(os.getpid())).encode(), 0)  # so that others see whether it is stopped
        if (queue.folder / "supervisor.log").stat().st_size > 1_000_000:
            os.truncate(queue.folder / "supervisor.log", 0)
    supervisor = Supervisor(queue, adopts=processes.adopt())
    beat = float("-inf")
    while True:
        if time.monotonic() > beat + HEARTBEAT:
            os.utime(held)
            beat = time.monotonic()
        if not supervisor.idle():
            with queue.locked(patience=float("inf")):
                if not supervisor.look():
                    queue.tidy()
                    os.close(held)  # under the queue's lock: whoever adds a job afterwards sees that nobody is here
                    return 0
        time.sleep(TICK)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *map(int, sys.argv[2:3])))
