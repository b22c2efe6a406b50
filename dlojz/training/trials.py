"""Several workers, one search: the trials of an Optuna study, exactly as many as were asked for, whoever is killed meanwhile.

The study is in a *journal*: a file to which all workers append, on one machine or on several that share a file system. All of
them read the same lines in the same order. So a trial belongs to the worker whose claim comes first in the journal, without a
lock. A study is filled up to as many trials as were asked for, and no worker runs a trial with a higher number.

A worker that is killed cannot say so. On its own machine it is known by pid, start time and boot. Elsewhere it counts as dead
once the file that it touches every BEAT seconds is older than LEASE. Another worker then claims its trial, which keeps its
number, its parameters and what it has reported. A trial that ATTEMPTS workers have not survived fails: it may kill them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..system import processes
from ..system.errors import UsageError
from ..system.shown import say

BEAT, LEASE = 5.0, 60.0  # seconds
ATTEMPTS = 3
POLL = 0.5  # seconds between two looks at trials that others run
GRACE = 10  # seconds after which Optuna breaks the lock of who was killed while writing a line, which takes milliseconds
NEEDED = "optuna>=4.3"  # before, the lock of a worker that was killed while writing was never broken


def library(caller: str = ""):
    """Optuna, with its warnings about experimental features off. Raises UsageError where it is not installed; for a script that
    runs (its ``__name__`` is "__main__"), that is one line, and exit code 2."""
    try:
        import optuna
    except ImportError as error:
        missing = "Optuna is not installed" if error.name == "optuna" else f"Optuna cannot be imported ({error})"
        said = UsageError(f"{missing}: the lab hpo needs it, and nothing else does. {sys.executable} -m pip install '{NEEDED}', "
                          "then restart the kernel if this is a notebook")
        if caller == "__main__":
            say(f"{Path(sys.argv[0]).name}: {said}", file=sys.stderr)
            sys.exit(2)
        raise said from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    warnings.filterwarnings("ignore", "The reported value is ignored")  # a trial that is run again reports the same
    return optuna


class Search:
    """A study in the journal ``path``, made where it is not there yet, and this process as one of its workers.

    ``pruner``: of Optuna. ``sampler``: gives a sampler of Optuna for a seed (TPE). Raises UsageError where ``path`` is none.
    """

    def __init__(self, path: Path | str, pruner=None, sampler: Callable | None = None, name: str = "search",
                 direction: str = "minimize"):
        self.optuna = library()
        self.path = checked(path)
        self.sampler = sampler or (lambda seed: self.optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        journal = self.optuna.storages.journal
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = _lock(journal.JournalFileSymlinkLock, self.path)
            self.storage = self.optuna.storages.JournalStorage(journal.JournalFileBackend(str(self.path), lock))
            self.study = self.optuna.create_study(storage=self.storage, study_name=name, load_if_exists=True,
                                                  direction=direction, pruner=pruner or self.optuna.pruners.NopPruner())
        except OSError as error:
            raise UsageError(f"the journal {self.path} cannot be opened: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AssertionError):
            raise UsageError(f"{self.path} is no journal of Optuna, or a line of it is torn (a full disk?): "
                             "use another file, or delete the torn line") from None
        self.id = uuid.uuid4().hex[:12]
        self.beats = self.path.with_name(self.path.name + ".workers")

    # ------------------------------------------------------------------------------------------------------------ a worker
    def run(self, objective: Callable, trials: int, seed: int = 0, catch: tuple = ()) -> list[int]:
        """Work until the first ``trials`` trials of the study are finished, whoever runs them. Returns the numbers of its own.

        ``objective``: as `optuna.study.Study.optimize` takes it. ``seed``: with a trial's number, it seeds the sampler, so that
        no two workers propose the same. Exceptions in ``catch`` fail a trial; any other ends this worker, too. Who is interrupted
        or gets a SIGTERM gives the trial back. To add trials later, call with a larger number.
        """
        done: list[int] = []
        with self._beating(), _ended_by_sigterm():
            self._fill(trials)
            while (frozen := self._next(trials)) is not None:
                attempt, storage_id = owner(frozen.user_attrs, "trial")[0], frozen._trial_id
                try:
                    self.study.sampler = self.sampler(random.Random(f"{seed} {frozen.number}").getrandbits(31))
                    trial, value, state = self.optuna.trial.Trial(self.study, storage_id), None, None
                    try:
                        value = objective(trial)
                    except self.optuna.TrialPruned:
                        state = self.optuna.trial.TrialState.PRUNED
                    except catch as error:
                        state = self.optuna.trial.TrialState.FAIL
                        say(f"trial {frozen.number} failed: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                    # Another worker has finished it, if this one was halted for so long that it seemed dead
                    self.study.tell(trial, value, state, skip_if_finished=True)
                    done.append(frozen.number)
                except Exception:
                    if self.storage.get_trial(storage_id).state.is_finished():
                        continue
                    self.storage.set_trial_state_values(storage_id, self.optuna.trial.TrialState.FAIL)
                    raise
                except BaseException:
                    self._note(storage_id, f"trial {attempt - 1} given back", {"what": "trial", "free": attempt - 1})
                    raise
        return done

    def _fill(self, trials: int) -> None:
        """Until there are so many trials in the study. Who is first in the journal adds those that are missing; others wait."""
        what = f"fill {trials}"
        while (there := len(self.study.get_trials(deepcopy=False))) < trials:
            if self._claimed(what, self.study.user_attrs, self.study.set_user_attr, lambda: self.study.user_attrs):
                for _ in range(there, trials):
                    self.study.enqueue_trial({})
            else:
                time.sleep(POLL / 10)

    def _next(self, trials: int):
        """A trial that is this worker's from now on; None once none is left. Waits for those that others run: they may die."""
        while True:
            rest = [one for one in self.study.get_trials(deepcopy=False)[:trials] if not one.state.is_finished()]
            if not rest:
                return None
            for one in rest:
                with contextlib.suppress(RuntimeError):  # somebody has finished it meanwhile
                    if found := self._take(one):
                        return found
            time.sleep(POLL)

    def _take(self, frozen):
        storage_id, states = frozen._trial_id, self.optuna.trial.TrialState
        attempts, holder = owner(frozen.user_attrs, "trial")
        if holder is None or not self._lives(holder):
            died = attempts - sum("free" in value for value in frozen.user_attrs.values() if isinstance(value, dict))
            if died >= ATTEMPTS:
                say(f"trial {frozen.number} failed: {died} workers died while they ran it", file=sys.stderr)
                self.storage.set_trial_state_values(storage_id, states.FAIL)
                return None
        if not self._claimed("trial", frozen.user_attrs, lambda key, value: self._note(storage_id, key, value),
                             lambda: self.storage.get_trial(storage_id).user_attrs):
            return None
        if self.storage.get_trial(storage_id).state == states.WAITING:
            self.storage.set_trial_state_values(storage_id, states.RUNNING)
        return self.storage.get_trial(storage_id)

    def _claimed(self, what: str, attrs: dict, write: Callable, read: Callable) -> bool:
        """Whether ``what`` is this worker's from now on: nobody alive had it, and its claim is the first of this attempt."""
        attempt, holder = owner(attrs, what)
        if holder is not None and self._lives(holder):
            return False
        write(f"{what} {attempt} {self.id}", {"what": what, "attempt": attempt, "worker": self.id, "host": socket.gethostname(),
                                              "place": place(), "process": processes.identity(os.getpid()), "at": time.time()})
        return (owner(read(), what)[1] or {}).get("worker") == self.id

    def _note(self, storage_id: int, key: str, value: dict) -> None:
        self.storage.set_trial_user_attr(storage_id, key, value)

    # -------------------------------------------------------------------------------------------------------- who is alive
    def _lives(self, holder: dict) -> bool:
        if holder["worker"] == self.id:
            return False  # it asks for work, so it has none
        if holder["place"] == place():
            return processes.alive(holder["process"])
        try:
            return _touched(self.beats / self.id) - _changed(self.beats / holder["worker"]) < LEASE
        except OSError:
            return False  # who ends takes its file away

    @contextlib.contextmanager
    def _beating(self) -> Iterator[None]:
        """Touches this worker's file, now and every BEAT seconds. The clock is that of the file system, one for all."""
        mine, over = self.beats / self.id, threading.Event()
        while not mine.exists():
            with contextlib.suppress(FileNotFoundError):  # the last of the others has just taken the folder away
                self.beats.mkdir(exist_ok=True)
                _touched(mine)

        def beat() -> None:
            while not over.wait(BEAT):
                with contextlib.suppress(OSError):
                    _touched(mine)

        thread = threading.Thread(target=beat, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            with contextlib.suppress(OSError):
                mine.unlink()
            with contextlib.suppress(OSError):
                self.beats.rmdir()


def owner(attrs: dict, what: str) -> tuple[int, dict | None]:
    """How many attempts there were at ``what``, and the claim that holds it; None where it was given back, or never claimed."""
    first: dict[int, dict] = {}
    free = -1
    for value in attrs.values():  # in the order of the journal
        if isinstance(value, dict) and value.get("what") == what:
            if "free" in value:
                free = max(free, value["free"])
            else:
                first.setdefault(value["attempt"], value)
    last = max(first, default=-1)
    return last + 1, first[last] if last > free else None


# --------------------------------------------------------------------------------------------------------- what there is of it
def attempts(attrs: dict) -> list[dict]:
    """The claims that held a trial, one after the other: ``worker``, ``host``, ``at`` (seconds since 1970), …"""
    first: dict[int, dict] = {}
    for value in attrs.values():
        if isinstance(value, dict) and value.get("what") == "trial" and "attempt" in value:
            first.setdefault(value["attempt"], value)
    return [first[number] for number in sorted(first)]


def rows(study) -> list[dict]:
    """A row for each trial that a worker has taken, in plain values: ``number``, ``state``, ``value``, ``params``, ``errors``
    (what was reported, by step), ``begin`` and ``end`` (None: not finished) in seconds since the first was taken, and
    ``workers``: [number of the worker, when it took the trial] for each that has had it."""
    taken = [(one, held) for one in study.get_trials(deepcopy=False) if (held := attempts(one.user_attrs))]
    zero = min((held[0]["at"] for _, held in taken), default=0.0)
    names: dict[str, int] = {}
    for _, claim in sorted(((claim["at"], claim) for _, held in taken for claim in held), key=lambda each: each[0]):
        names.setdefault(claim["worker"], len(names) + 1)
    return [{"number": one.number, "state": one.state.name.lower(), "value": one.value, "params": one.params,
             "errors": {str(step): found for step, found in one.intermediate_values.items()}, "begin": held[0]["at"] - zero,
             "end": one.datetime_complete.timestamp() - zero if one.datetime_complete else None,
             "workers": [[names[claim["worker"]], claim["at"] - zero] for claim in held]} for one, held in taken]


@contextlib.contextmanager
def accounted(journal: Path | str, *devices: str) -> Iterator[None]:
    """Notes in the study how long its block took, and the energy of these GPUs meanwhile where it can be measured: once for all
    workers that share them. ``devices``: such as "cuda:0", "cuda:1", or "cpu"."""
    meters = [meter_of(device) for device in devices]
    begun, before = time.time(), [meter.read() for meter in meters]
    yield
    both = list(zip(before, (meter.read() for meter in meters)))
    Search(journal).study.set_user_attr(f"used {uuid.uuid4().hex[:12]}", {
        "what": "used", "seconds": time.time() - begun, "gpus": sum(device.startswith("cuda") for device in devices),
        "joules": None if None in itertools.chain(*both) else sum(last[1] - first[1] for first, last in both)})


def meter_of(device: str):
    """An `EnergyMeter` of this device ("cuda:1"); of a CPU it measures nothing."""
    import torch

    from ..system import machine
    from .energy import EnergyMeter

    return EnergyMeter(machine.gpu_uuid(torch.device(device)))


def account(study) -> dict:
    """What the workers of a study have used, those that ended: ``gpu_seconds`` and ``joules`` (None: not measured)."""
    used = [value for value in study.user_attrs.values() if isinstance(value, dict) and value.get("what") == "used"]
    joules = [one["joules"] for one in used]
    return {"gpu_seconds": sum(one["seconds"] * one["gpus"] for one in used),
            "joules": None if not joules or None in joules else sum(joules)}


def checked(where: Path | str) -> Path:
    """The path of a journal. Raises UsageError for the address of a database."""
    text = str(where)
    if text.startswith("sqlite"):
        raise UsageError(f"{text} is an SQLite file, whose locks do not work on many shared file systems (NFS, Lustre): with "
                         "several workers, trials fail with 'database is locked', or the file is damaged. Name a file for a "
                         "journal, such as runs/search.journal; optuna.copy_study copies what is in the database")
    if "://" in text:
        raise UsageError(f"{text.partition('://')[0]}:// is the address of a database. Name a file for a journal, such as "
                         "runs/search.journal")
    return Path(text).expanduser()


def _lock(kind: type, path: Path):
    """Optuna's lock of a journal. Who has it also cuts off the half of a line at the end, which a worker that was killed while
    writing, or a full disk, has left there: Optuna would write on behind it, and could never read that line."""
    class Lock(kind):
        def acquire(self) -> bool:
            got = super().acquire()
            try:
                _cut(path)
            except BaseException:
                self.release()
                raise
            return got

    return Lock(str(path), grace_period=GRACE)


def _cut(path: Path) -> None:
    """Ends a file with its last whole line. Raises ValueError where it has none, but something else: that is no journal."""
    with open(path, "r+b") as file:
        size, tail, back = file.seek(0, os.SEEK_END), b"", 1
        while back // 4096 < size and b"\n" not in tail:
            file.seek(max(0, size - back))
            tail, back = file.read(), back * 4096
        whole = size - len(tail) + tail.rfind(b"\n") + 1
        if size and not whole:
            raise ValueError("no whole line")
        if whole < size:
            file.truncate(whole)


def place() -> str:
    """Where a pid means the same process: this boot of this machine, and this namespace of pids (a container has its own)."""
    try:
        return f"{processes.boot()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return processes.boot()


def _touched(file: Path) -> float:
    """Touch a file; returns when that was by the clock of its file system."""
    with open(file, "ab") as opened:
        os.utime(file)
        return os.fstat(opened.fileno()).st_mtime


def _changed(file: Path) -> float:
    with open(file, "rb") as opened:  # NFS asks its server when a file is opened, and not for each stat
        return os.fstat(opened.fileno()).st_mtime


@contextlib.contextmanager
def beside(commands: Iterable[list[str]]) -> Iterator[list[int]]:
    """Other workers, a process for each command, while the block runs, and until they end. Yields a list that their exit codes
    are in afterwards. An error in the block ends none of them; Ctrl-C, which they do not hear, ends them all."""
    started: list[subprocess.Popen] = []
    codes: list[int] = []
    try:
        with processes.deaf_to_ctrl_c():
            for command in commands:
                started.append(subprocess.Popen(command))
        yield codes
    except KeyboardInterrupt:
        _terminate(started)
        raise
    finally:
        try:
            codes += [process.wait() for process in started]
        except KeyboardInterrupt:
            _terminate(started)
            raise


def _terminate(started: list[subprocess.Popen]) -> None:
    for process in started:
        process.terminate()  # it gives its trial back


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """A SIGTERM (scancel, a time limit) unwinds the stack, so that a trial is given back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
