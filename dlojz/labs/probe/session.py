"""Runs of a trainee's script under limits, from the side that waits for them: nothing of a run is left when it is over."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import random
import re
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...system import machine, paths, processes

MARK = "DLOJZ_PROBE"
FOREIGN = ("JPY_", "SLURM_", "SBATCH_", "SRUN_", "PMIX_", "PMI_", "DLOJZ_", "TORCHELASTIC_", "NCCL_", "GLOO_")
OURS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PYTHONUNBUFFERED", "PYTHONSTARTUP",
        "OLDPWD")
PREFIX = "dlojz-check-"  # of a check's folder among the temporary files
OWNER = ".owner.json"  # in it: whose it is
GPU = Path("/dev/nvidiactl")  # where NVIDIA's driver is: asking torch would take as long as what is to be bounded
START = 120.0  # seconds in which torch must be imported
GUARD_EVERY = 0.1
LOOKING = 30  # times what it takes to look at the memory of all processes of the machine, before that is done again
BUSY = 2  # times the seconds of a check
ALONE = 5.0  # seconds that the other processes of a run are given once one has failed
ASLEEP = 10.0  # seconds in which nothing of several processes wakes: longer than a name server is waited for (5)
ANSWER = 10.0  # seconds in which the host must say that a process that was ended is over
ANSWER_BEGIN = 60.0  # seconds in which it must begin one: it forks them one after the other, on a machine that may be busy
SILENT = "the process that runs the script does not answer (is it stopped, or the machine out of memory?)"
TAIL = 20_000  # bytes of output that are kept


def last_words(text: str) -> str:
    """``: RuntimeError: … (FILE, line N)``: the last line that a process printed and, where that ends a traceback, the place of
    the error: the torch that cannot be imported may not be the one that the reader thinks of."""
    lines = text.strip().splitlines()
    place = re.match(r'(?ms).*^  File "([^"\n]+)", line (\d+)[^\n]*\n(?: [^\n]*\n)*\S[^\n]*\Z', text.strip())
    return f": {lines[-1]}{f' ({place[1]}, line {place[2]})' if place else ''}" if lines else ""


class HostLost(Exception):
    """The process that runs the script could not be started, or is gone: says why."""


@dataclass(frozen=True)
class Limits:
    """Of one check: ``seconds`` from the begin of its first run, or the end of its latest one, until the next run ends, and twice
    that where a run has several processes; bytes of ``memory`` of all at a time. Importing torch comes before; with it a check
    takes less than 20 seconds on a CPU. Time in which the runs are ready and do not even get one processor, since others use
    them, does not count, up to BUSY times the seconds: a right answer is no wrong one because many check theirs at once. Where
    there is a GPU, starting CUDA and compiling a first kernel take seconds of their own."""

    seconds: float = field(default_factory=lambda: 30.0 if GPU.exists() else 15.0)
    memory: int = field(default_factory=lambda: _sensible_memory())


@dataclass
class Process:
    """One process of a run (a rank) and how it ended."""

    number: int
    facts: Path
    stack: Path
    pid: int | None = None
    identity: dict | None = None
    status: int | None = None
    killed: str = ""  # "time", "busy", "memory", "alone", "asleep": why we ended it
    asked: float = 0.0  # when the host was asked to start it; 0 while it waits for a core
    stopped: float = 0.0  # when we have ended it
    ended: float = 0.0
    env: dict = field(default_factory=dict)


def remove_abandoned() -> None:
    """Remove the folders that checks of this user have left behind because they were killed.

    Only where it is certain that nobody uses one: its process has ended, and none of those that it had started is left. Of
    another machine or container that shares the folder of temporary files nothing can be seen from here, so its own stay.
    """
    with contextlib.suppress(OSError):
        for entry in os.scandir(tempfile.gettempdir()):
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False) \
                    and entry.stat(follow_symlinks=False).st_uid == os.getuid() and _abandoned(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    try:
        owner = json.loads((folder / OWNER).read_bytes())
        here = all(owner[key] == value for key, value in _place().items())
        return here and not processes.alive(owner["process"]) and not processes.marked(owner["mark"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # not known whose it is: it is being made, perhaps
        return False


def _place() -> dict:
    """Where the pids of this process mean something."""
    try:
        space = os.readlink(processes.PROC / "self/ns/pid")
    except OSError:
        space = ""
    return {"host": socket.gethostname(), "space": space}


class Session:
    """Starts the host of a check, its runs, and ends them. Use as a context; `close` may be called at any time."""

    def __init__(self, limits: Limits | None = None, python: str = sys.executable):
        self._ports = contextlib.ExitStack()
        self.begin(limits)
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        remove_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.folder = self.folder.resolve()
        (self.folder / OWNER).write_text(json.dumps(_place() | {"process": processes.identity(os.getpid()), "mark": self.mark}))
        self._processes: dict[int, Process] = {}
        self._queue: list[list[tuple[Process, dict]]] = []  # runs for which no core is free yet, with what the host is told
        self._cores = machine.cores_allowed()
        self._folders = 0
        self._replies = b""
        self._ready = False
        try:
            self._start(python)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _start(self, python: str) -> None:
        self._reply, theirs = os.pipe()
        try:
            self._host = subprocess.Popen(
                [python, "-m", f"{__package__}.host", str(theirs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, pass_fds=[theirs], start_new_session=True, cwd=self.folder, env=self._environment())
            os.set_blocking(self._host.stdin.fileno(), False)
        except OSError as error:
            os.close(self._reply)
            raise HostLost(f"{python} cannot be started: {error.strerror}") from None
        finally:
            os.close(theirs)

    def _environment(self) -> dict:
        env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN) and name not in OURS}
        name, value = self.mark.split("=")
        return env | {name: value, "PYTHONPATH": paths.python_path(env), "DLOJZ_SCALE": "ci", "OMP_NUM_THREADS": "1",
                      "MPLBACKEND": "Agg", "TMPDIR": str(self.folder), "PWD": str(self.folder)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --------------------------------------------------------------------------------------------------------------- runs
    def start(self, root: Path, script: str, arguments: list[str], *, ranks: int = 1, observe: Iterable[str] = (),
              options: dict | None = None, call: tuple[Path, str] | None = None) -> list[Process]:
        """Start a run of ``ranks`` processes once a core is free; returns at once. Raises HostLost. More at a time would only
        delay the first, and a check that it refuses has no use for the others.

        ``script``: a file of the folder ``root``. ``options`` are for the observers. ``call``: instead of running the script,
        import it and call this function of this file with it.
        """
        self.ready()
        if self.begun is None:
            self.begun = time.monotonic()
        if ranks > 1:
            self.seconds = 2 * self.limits.seconds
        root = os.path.realpath(root)
        folder = self.folder / f"run{len(self._processes)}"
        folder.mkdir()
        if ranks > 1:
            port = self._ports.enter_context(reserved_port())
        queued = []
        for rank in range(ranks):
            number = len(self._processes)
            process = Process(number, folder / f"facts-{rank}.jsonl", folder / f"stack-{rank}.txt")
            if ranks > 1:
                place = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
                process.env = {"MASTER_ADDR": "127.0.0.1"} | {name: str(value) for name, value in place.items()}
                if sys.platform == "linux":
                    process.env["GLOO_SOCKET_IFNAME"] = "lo"
            self._processes[number] = process
            request = {"number": number, "root": root, "script": os.path.join(root, script), "arguments": arguments,
                       "call": call and [str(call[0]), call[1]], "folder": str(folder), "facts": str(process.facts),
                       "stack": str(process.stack), "observe": list(observe), "options": options or {},
                       "env": process.env | {"DLOJZ_RUN": str(folder)}}
            queued.append((process, request))
        self._queue.append(queued)
        self._begin_next()
        return [process for process, _ in queued]

    def _begin_next(self) -> None:
        """Of the queue, as long as a core is free. All processes of a run begin together: they wait for each other."""
        begun = [process for process in self._processes.values() if process.asked]
        while self._queue and sum(process.status is None for process in begun) < self._cores:
            for process, request in self._queue.pop(0):
                process.asked = time.monotonic()
                begun.append(process)
                self._send(request)

    def begin(self, limits: Limits | None = None) -> None:
        """Another check with the same host: its time starts anew."""
        self.limits = limits or Limits()
        self.seconds, self.begun, self.output = self.limits.seconds, None, b""
        self._guarded, self.waited, self._used, self._look_again = time.monotonic(), 0.0, {}, 0.0
        self._threads, self._asleep, self._looked = {}, 0.0, time.monotonic()
        self._ports.close()

    def restart_clock(self) -> None:
        """The runs of this check, those that still go on and those to come, have all of its seconds once more."""
        self.begun, self.waited = time.monotonic(), 0.0

    def wait(self, run: list[Process]) -> None:
        """Until all processes of a run have ended, or were ended. Raises HostLost."""
        while any(process.status is None for process in run):
            self._pump(0.05)
            self._answers()
            failed = [process.ended for process in run if process.status]
            if failed and time.monotonic() > min(failed) + ALONE:
                self._end([process for process in run if process.status is None], "alone")
        if all(process.status is not None for process in self._processes.values()):  # also those that are only about to begin
            self._kill_left()

    def stop(self) -> None:
        """End all runs that still go on, and those that are still to begin. Raises HostLost."""
        for process, _ in (each for run in self._queue for each in run):
            process.status, process.ended = signal.SIGKILL, time.monotonic()
        self._queue.clear()
        self._kill_all()
        limit = time.monotonic() + ANSWER
        while self._running():
            self._pump(0.05)
            if time.monotonic() > limit:
                raise HostLost(SILENT)

    def new_folder(self, name: str) -> Path:
        """A new one in the check's own."""
        self._folders += 1
        folder = self.folder / f"{name}{self._folders}"
        folder.mkdir()
        return folder

    def images(self) -> Path:
        """A folder of small images, train/CLASS and val/CLASS, made on the first call."""
        folder = self.folder / "images"
        if not folder.exists():
            draw = random.Random(0)
            for split, count in (("train", 16), ("val", 4)):
                for number in range(count):
                    file = folder / split / "abcd"[number % 4] / f"{number}.bmp"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(_bmp(32, draw))
        return folder

    def close(self) -> None:
        """End everything that was started and remove what it wrote."""
        if self._host is None:
            return
        with contextlib.suppress(OSError):
            self._host.stdin.close()
        self._kill_all()
        with contextlib.suppress(OSError):
            self._host.kill()
        self._host.wait()
        self._kill_all()  # what the host had adopted
        self._host.stdout.close()
        os.close(self._reply)
        self._ports.close()
        self._host = None
        shutil.rmtree(self.folder, ignore_errors=True)

    # ----------------------------------------------------------------------------------------------------------- the host
    def _send(self, request: dict) -> None:
        data, limit = json.dumps(request).encode() + b"\n", time.monotonic() + ANSWER
        try:
            while data:
                if not select.select([], [self._host.stdin], [], max(0.0, limit - time.monotonic()))[1]:
                    raise HostLost(SILENT)
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(self._host.stdin.fileno(), data):]
        except OSError:
            raise HostLost(self._why_lost()) from None

    def _answers(self) -> None:
        """Raises HostLost where what was asked for or ended long ago has still not been reported as begun or as over."""
        ended = [process.stopped for process in self._processes.values() if process.stopped and process.status is None]
        asked = [process.asked for process in self._processes.values() if process.pid is None and process.asked]
        if (ended and time.monotonic() > min(ended) + ANSWER) or (asked and time.monotonic() > min(asked) + ANSWER_BEGIN):
            raise HostLost(SILENT)

    def ready(self) -> None:
        """Wait until the host has imported torch. Raises HostLost."""
        limit = time.monotonic() + START
        while not self._ready:
            self._pump(0.2)
            if time.monotonic() > limit:
                raise HostLost(f"torch was not imported within {START:.0f} seconds: is the file system it lies on slow?")

    def _pump(self, seconds: float) -> None:
        """Take in what comes: output, ends of processes, limits that are reached."""
        ready, _, _ = select.select([self._reply, self._host.stdout], [], [], seconds)
        if self._host.stdout in ready:
            self.output = (self.output + os.read(self._host.stdout.fileno(), 1 << 20))[-TAIL:]
        if self._reply in ready:
            data = os.read(self._reply, 65536)
            if not data:
                raise HostLost(self._why_lost())
            *lines, self._replies = (self._replies + data).split(b"\n")
            for line in lines:
                self._hear(line.decode().split())
            self._begin_next()
        self._guard()

    def _hear(self, words: list[str]) -> None:
        if words[0] == "ready":
            self._ready = True
            return
        process = self._processes[int(words[1])]
        if words[0] == "started":
            process.pid = int(words[2])
            process.identity = processes.identity(process.pid)
        else:
            process.status, process.ended = int(words[2]), time.monotonic()
            self.restart_clock()  # a limit for each run: where starting CUDA takes seconds, seven good runs take more than 25

    def _why_lost(self) -> str:
        with contextlib.suppress(OSError):
            while select.select([self._host.stdout], [], [], 0.2)[0] and (data := os.read(self._host.stdout.fileno(), 1 << 20)):
                self.output = (self.output + data)[-TAIL:]
        return f"the process that runs the script is gone{last_words(self.text())}"

    def text(self) -> str:
        """The end of what was printed."""
        return self.output.decode("utf-8", "replace")

    # ------------------------------------------------------------------------------------------------------------- limits
    def _guard(self) -> None:
        now = time.monotonic()
        if now < self._guarded + GUARD_EVERY:
            return
        since, self._guarded = now - self._guarded, now
        running = self._running()
        if not running:
            return
        before, self._used = self._used, {process.pid: _processor(process.pid) for process in running}
        used, waited = zip(*([now - was for now, was in zip(spent, before.get(pid, (0.0, 0.0)))]
                             for pid, spent in self._used.items()))
        self.waited += max(0.0, min(max(waited), since - sum(used)))
        most = BUSY * self.seconds
        if self.begun is not None and now > self.begun + self.seconds + min(self.waited, most):
            self._end(running, "time" if self.waited < most else "busy")
            return
        if now < self._look_again:
            return
        used = time.process_time()
        pids = self.descendants()
        if sum(map(_memory, pids)) > self.limits.memory and sum(map(_memory_shared_out, pids)) > self.limits.memory:
            self._end(running, "memory")
        self._look_again = now + LOOKING * (time.process_time() - used)
        before, self._threads = self._threads, dict(thread for pid in pids for thread in _threads(pid))
        still = self._threads == before and all(state == "S" for state, *_ in before.values())
        self._asleep = self._asleep + min(now - self._looked, 1.0) if still else 0.0
        self._looked = now
        started = [process for process in self._processes.values() if process.asked and process.status is None]
        if self._asleep > ASLEEP and any(process.env for process in started) and all(process.pid for process in started):
            self._end(running, "asleep")

    def _end(self, running: list[Process], why: str) -> None:
        for process in running:
            process.killed, process.stopped = process.killed or why, process.stopped or time.monotonic()
        for process in running:  # let it say where it stands
            with contextlib.suppress(OSError):
                os.kill(process.pid, signal.SIGUSR2)
        time.sleep(0.2)
        for process in running:
            _kill(process)

    def descendants(self) -> list[int]:
        """What runs on behalf of this check, the host left out: known by its environment, which goes from parent to child, or
        where it was started with an empty one by the host, which adopts what has lost its parent."""
        found = {*processes.marked(self.mark), *processes.descendants(self._host.pid)}
        return sorted(found - {self._host.pid})

    def _running(self) -> list[Process]:
        return [process for process in self._processes.values() if process.pid is not None and process.status is None]

    def _kill_all(self) -> None:
        for process in self._running():
            _kill(process)
        self._kill_left()

    def _kill_left(self) -> None:
        """End what a run has left behind, whatever group or session it has moved to."""
        for _ in range(500):
            pids = self.descendants()
            if not pids:
                return
            processes.send(pids, signal.SIGKILL)
            time.sleep(0.01)


def _kill(process: Process) -> None:
    """A process and its group at once, so that nothing in it can start another one meanwhile."""
    if process.status is None and processes.alive(process.identity):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def _memory(pid: int) -> int:
    """Bytes that a process has for itself; 0 where that can't be told."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            found = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        return 1024 * sum(int(found[name].split()[0]) for name in (b"RssAnon", b"RssShmem") if name in found)
    except (OSError, ValueError):
        return 0


def _threads(pid: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Of each thread of a process its state, and how often it had a processor and gave it back; "?" where that can't be told.
    Gloo's, which looks for messages a hundred times a second, is left out: what it receives wakes another one."""
    for file in glob.glob(f"/proc/{pid}/task/*/status"):
        try:
            found = dict(line.split(":", 1) for line in Path(file).read_text().splitlines())
            if found["Name"].strip() != "gloo_tcp_loop":
                yield file, (found["State"].split()[0], found["voluntary_ctxt_switches"], found["nonvoluntary_ctxt_switches"])
        except (OSError, ValueError, KeyError):
            yield file, ("?",)


def _memory_shared_out(pid: int) -> int:
    """The same, where what several processes hold together (after a fork) counts in parts; slower to find out."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            found = dict(line.split(b":", 1) for line in file.read().splitlines() if b":" in line)
        return 1024 * sum(int(found[name].split()[0]) for name in (b"Pss_Anon", b"Pss_Shmem") if name in found)
    except (OSError, ValueError):
        return 0


def _processor(pid: int) -> tuple[float, float]:
    """Seconds in which this process had a processor, and in which it was ready and had none; 0 where no kernel counts them."""
    try:
        with open(f"/proc/{pid}/schedstat") as file:
            used, waited, _ = file.read().split()
            return int(used) / 1e9, int(waited) / 1e9
    except (OSError, ValueError):
        return 0.0, 0.0


def _sensible_memory() -> int:
    """Half of what is free on this machine, 8 GiB at most."""
    most = 8 * 2**30
    with contextlib.suppress(OSError, StopIteration, ValueError), open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:"))
        return min(most, free * 1024 // 2)
    return most


@contextlib.contextmanager
def reserved_port():
    """A port of this machine that nobody else is given as a free one until the context ends.

    Who asks for that very port may still listen on it, as torch's store does: both set SO_REUSEADDR, and what holds the port
    here never listens. A port that is merely looked up and given back is, on a busy node, soon somebody else's. It is held on all
    addresses: the store listens on all of them, and on that of the node's network gloo would be given the same port.
    """
    with _socket_of_all_addresses() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("", 0))
        yield holder.getsockname()[1]


def _socket_of_all_addresses() -> socket.socket:
    if not socket.has_dualstack_ipv6():
        return socket.socket()
    both = socket.socket(socket.AF_INET6)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return both


def _bmp(size: int, draw: random.Random) -> bytes:
    """A square image of noise as a .bmp file; ``size`` is a multiple of 4."""
    pixels = draw.randbytes(size * size * 3)
    header = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    return header + struct.pack("<IiiHHIIiiII", 40, size, size, 1, 24, 0, len(pixels), 2835, 2835, 0, 0) + pixels
