"""What stopped a training run, in words that help: the ``error`` event of its record, one line on stderr, an exit code."""

from __future__ import annotations

import errno
import math
import multiprocessing
import os
import pickle
import re
import signal
import sys
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path

from ..system import shown
from ..system.errors import NothingToValidate, UsageError
from . import distributed, lost_ranks, records
from .records import Writer

ROLL_CALL = 5.0  # seconds to find out who is lost, for a process that has noticed that somebody is
RESUME = 75  # EX_TEMPFAIL: saved after a signal; run again with --resume and it goes on
LOST_RANK = ("connection closed by peer", "connection reset by peer", "gloo/", "nccl")  # as gloo and NCCL put it
DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE)
FULL = ("PytorchStreamWriter", "inline_container", "file write failed")  # as torch.save puts it


_give_up = None  # what the roll call does where a rank is lost and this one doesn't notice


class StopTraining(Exception):
    """Training cannot go on: ``kind`` and numbers for the record, a message, one sentence of advice."""

    def __init__(self, kind: str, message: str, advice: str, **numbers):
        super().__init__(message)
        self.kind, self.advice, self.numbers = kind, advice, numbers


def explain(error: BaseException, memory: dict | None = None) -> dict:
    """The fields of an ``error`` event for an exception: ``kind``, ``message``, ``advice`` and numbers.

    ``memory``: for a CUDA device its ``allocated``, ``reserved`` and ``total`` bytes at the time.
    """
    records.tell("failure", failure=error)
    kind, message = in_worker(str(error)) or (type(error).__name__, str(error))
    message = " ".join(message.split()) or kind
    if isinstance(error, StopTraining):
        return {"kind": error.kind, "message": message, "advice": error.advice, **error.numbers}
    if isinstance(error, UsageError):
        return {"kind": "data" if type(error) is not UsageError else "usage", "message": message, "advice": ""}
    if isinstance(error, KeyboardInterrupt):
        return {"kind": "signal", "message": "interrupted from the keyboard.", "advice": ""}
    if _is_out_of_memory(error):
        said = re.sub(r"^\[enforce fail at [^]]*\] ?(\.|err == 0\.)? ?", "", message)  # as the CPU's allocator puts it
        said = re.sub(r"\b(\d{7,}) bytes", lambda found: f"{int(found[1]) / 1e9:,.2f} GB", said)
        return {"kind": "out_of_memory", "message": said[:300], **_memory_advice(memory)}
    lost = isinstance(error, RuntimeError) and any(words in message.lower() for words in LOST_RANK)
    if lost or type(error).__name__.startswith("Dist"):
        said = re.sub(r"^\[\S+\] | This is typically caused .*", "", message)  # gloo's source files, and guesses
        return lost_rank(*lost_ranks.lost(ROLL_CALL), said[:300])
    if isinstance(error, RuntimeError) and "DataLoader worker" in message:
        return {"kind": "data", "message": message[:300],
                "advice": "Usually memory or /dev/shm is full: use fewer --num-workers or a smaller --prefetch-factor."}
    if isinstance(error, OSError) and error.errno in DISK:
        folder = os.path.dirname(error.filename) if isinstance(error.filename, str) else ""
        return {"kind": "disk", "message": message, "advice": f"{_disk_advice(error.errno, folder or 'the file system')}."}
    said = f"{kind}: {message[:300]}"
    if "Expected more than 1 value per channel" in message:
        return {"kind": "usage", "message": message[:300],
                "advice": "Batch norm needs more than one value per channel: --drop-last, a larger --batch-size or --image-size."}
    if "Expected to have finished reduction in the prior iteration" in message:
        without = re.search(r"Parameter indices which did not receive grad for rank \d+: [\d ]*\d", message)
        which = f" {without[0]}." if without else ""
        return {"kind": "usage", "message": "Expected to have finished reduction in the prior iteration: some parameters had "
                f"no part in the loss of a step, and DDP waits for their gradients.{which}",
                "advice": "DistributedDataParallel(…, find_unused_parameters=True) looks for such parameters in each step."}
    return {"kind": "exception", "message": said, "advice": "The traceback is in the error log."}


def in_worker(text: str) -> tuple[str, str] | None:
    """Where ``text`` is torch's report of an exception in a DataLoader's worker, a sentence and the traceback of there: what was
    raised, and its message."""
    if not re.match(r"Caught \w+ in DataLoader worker process \d+\.\n", text):
        return None
    kind, _, message = text.rstrip().splitlines()[-1].partition(": ")
    return f"{kind} in a DataLoader worker", message


def lost_rank(lost: dict[int, str], over: set[int], message: str = "") -> dict:
    """The fields of an ``error`` event for ranks that are lost, with what `rollcall` knows of them; ``message``: how it was
    noticed."""
    found = {"kind": "lost_rank", "message": message,
             "advice": "Another rank died or hangs: look for the first error in its part of the log."}
    if lost:
        named = "; ".join(f"rank {rank} {words}" for rank, words in sorted(lost.items())[:4])
        found |= {"message": f"{named}. {message}".strip(), "lost": sorted(lost)}
    if _timed_out(found["message"]):
        found["advice"] = f"{found['advice']} {_recorders()}"
    if lost:
        return found
    if over:
        ranks = f"rank{'s' * (len(over) > 1)} {', '.join(map(str, sorted(over)[:8]))}"
        return found | {"message": f"{ranks} had already exited, without an error. {message}".strip(), "lost": sorted(over),
                        "advice": "All processes need the same number of steps: give each the same number of batches, or "
                                  "use `Join`."}
    return found


def _timed_out(message: str) -> bool:
    return bool(re.search(r"has not moved|timed? ?-?out", message.lower()))


def _recorders() -> str:
    """What shows in which collective each rank waits, in this version of torch: its debug server (from 2.10), and with NCCL the
    flight recorder, which records by itself from 2.14 on, but writes to a file only where it is told to."""
    server = "call torch.distributed.debug.start_debug_server() on all ranks, or " if _torch_version() >= (2, 10) else ""
    return (f"To see in which collective each rank waits, {server}set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and "
            "TORCH_NCCL_DUMP_ON_TIMEOUT=1 (NCCL's flight recorder) and read its files with `torchfrtrace`.")


def _is_out_of_memory(error) -> bool:
    # torch.OutOfMemoryError is a RuntimeError; the CPU's allocator and cuBLAS raise plain ones.
    text = str(error)
    return (type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError) or "not enough memory" in text
            or "CUBLAS_STATUS_ALLOC_FAILED" in text or "can't allocate memory" in text)


def _memory_advice(memory) -> dict:
    smaller = "Use a smaller --batch-size, half precision (--amp), or --checkpoint-activations."
    if not memory:
        return {"advice": smaller}
    unused = memory["reserved"] - memory["allocated"]
    if unused > 0.1 * memory["total"]:
        return {**memory, "advice": f"{unused / 1e9:.1f} GB are reserved but not allocated (fragmentation): set "
                f"{allocator_variable()}=expandable_segments:True. {smaller}"}
    return {**memory, "advice": smaller}


def allocator_variable() -> str:
    """The environment variable with the settings of torch's allocator on GPUs. torch 2.9 has renamed it, but ignores this setting
    under the new name (pytorch/pytorch#183387); 2.11 does not."""
    return "PYTORCH_ALLOC_CONF" if _torch_version() >= (2, 11) else "PYTORCH_CUDA_ALLOC_CONF"


def _torch_version() -> tuple[int, ...]:
    version = re.match(r"(\d+)\.(\d+)", sys.modules["torch"].__version__) if "torch" in sys.modules else None
    return tuple(map(int, version.groups())) if version else (0, 0)


def _device_memory() -> dict | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return {"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
            "total": torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory}


@contextmanager
def reported():
    """Runs a training in its block, which gets its ``distributed.Processes`` and a ``records.Writer``; what stops it is recorded
    and said in one line.

    Ends the process, unless it is alone and the block ran to its end. Exit codes: 0 after the block's end, that of
    ``SystemExit``, 2 for wrong usage, 130 for Ctrl-C, else 1.
    """
    global _give_up
    record, rank, world = Writer(), 0, 1
    try:
        procs = distributed.processes()
        rank, world = procs.rank, procs.world_size
        record.errors_only = rank > 0
        _give_up = lambda lost, over: _end_with(lost, over, record, rank)  # noqa: E731
        yield procs, record
        lost_ranks.leave()
        if world == 1:
            _deaf()
            return
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        lost_ranks.leave("" if code in (0, RESUME) else f"it ended with exit code {code}")
    except BaseException as error:
        said = explain(error, _device_memory())
        if said["kind"] == "exception":
            with suppress(OSError):
                traceback.print_exc()
        lost_ranks.leave("" if said["kind"] == "lost_rank" else said["message"])
        # What all ranks find is said by one of them.
        everywhere = type(error) is UsageError or said["kind"] == "nan_loss" or getattr(error, "everywhere", False)
        if rank == 0 or not everywhere:
            _report(said, record, rank)
        record.write("end", flush=True, status="failed")
        code = 130 if isinstance(error, KeyboardInterrupt) else 2 if isinstance(error, UsageError) else 1
    record.flush()
    _end_workers()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
        if code in (0, RESUME):
            _deaf()
            (distributed.leave if world > 1 else sys.exit)(code)
    # After a failure other ranks may hang in a collective, and a clean shutdown would wait for them. And where the log's disk is
    # full, Python would end with a code of its own.
    os._exit(code)


def _deaf() -> None:
    """All is done: a warning that comes while Python closes, which takes seconds after a large training, must not change how this
    ended. Python gives signals with a handler of its own back to the system, for which SIGUSR1 is deadly."""
    with suppress(ValueError):  # in a thread
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)


def _report(said: dict, record: Writer, rank: int) -> None:
    where = f" (rank {rank})" if rank else ""
    say(f"{script()}{where}: {said['message']} {said['advice']}".rstrip(), file=sys.stderr)
    record.write("error", flush=True, rank=rank, **said)


def _end_with(lost: dict[int, str], over: set[int], record: Writer, rank: int) -> None:
    """Ends this process from a thread: its main thread waits for a rank that is lost, and does not hear of it."""
    lost_ranks.leave()
    if rank not in lost:
        _report(lost_rank(lost, over, "" if lost else "This process still waits for them."), record, rank)
    record.write("end", flush=True, status="failed")
    record.flush()
    _end_workers()
    os._exit(1)


def say(*text, file=None) -> None:
    """As `shown.say`, in a training: a line that cannot be written (full disk, closed
    pipe) is no reason to end a training."""
    with suppress(OSError):
        shown.say(*text, file=file)


def script() -> str:
    """What a message begins with: the name of the script that runs."""
    return os.path.basename(sys.argv[0]) or "python"


def catch_signals() -> list[int]:
    """From here on SIGTERM and SIGUSR1 (Slurm's warning before the time limit) only note themselves in the returned list."""
    received: list[int] = []
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda which, frame: received.append(which))
    return received


def leave_signals_to_trainer(worker: int = 0) -> None:
    """For ``DataLoader(worker_init_fn=…)``: Slurm signals all processes of a job, and a dead worker takes the training along."""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def _end_workers() -> None:
    """End the loaders' workers, which no longer listen to SIGTERM, the way multiprocessing would end them."""
    with suppress(ValueError):  # in a thread
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # or DataLoader would report them as lost
    for worker in multiprocessing.active_children():
        worker.kill()


class Watch:
    """Looks at the steps that are settled: prints one in ten, ends a training whose loss is no number, says when to stop. Where
    there are several processes, they keep a roll call from here on (see `rollcall`): it is made and called on all of them.

    One loss that is not finite may be a step that a GradScaler skips; three in a row do not come back.
    """

    def __init__(self, say, total_steps: int, unit: str = "images"):
        self.say, self.unit = say, unit
        self.total_steps = total_steps
        self.every = max(1, min(total_steps // 10, 100))
        self.due = 0  # the step from which on the next one that has a loss is printed
        self.lost: list[int] = []
        torch = sys.modules.get("torch")
        if torch and torch.distributed.is_available() and torch.distributed.is_initialized():
            place = distributed.processes()
            if place.world_size > 1:
                lost_ranks.begin(place, _give_up)

    def __call__(self, settled: list[dict]) -> bool:
        lost_ranks.passed()
        stop = False
        for step in settled:
            stop = stop or step.get("stop", False)
            if "loss" not in step or step["loss"] is None:
                continue
            self.lost = [] if math.isfinite(step["loss"]) else [*self.lost, step["step"]]
            if len(self.lost) == 3:
                raise self._lost(step["step"])
            if step["step"] >= min(self.due, self.total_steps):
                self.due = (step["step"] // self.every + 1) * self.every
                accuracy = f"accuracy {step['accuracy']:6.1%}  " if "accuracy" in step else ""
                self.say(f"step {step['step']:>{len(str(self.total_steps))}}/{self.total_steps}  loss {step['loss']:.4f}  "
                         f"{accuracy}{step['images'] / step['seconds']:8.1f} {self.unit}/s")
        return stop

    def validated(self, found: dict, folder) -> None:
        """Ends a training whose validation says nothing, or that what was left of the loss at the end is no number for good."""
        if not found["images"]:
            raise NothingToValidate(f"none of the {self.unit} in {folder} that were to be validated can be read")
        if self.lost and not math.isfinite(found["loss"]):
            raise self._lost(self.lost[-1])

    def _lost(self, step: int) -> StopTraining:
        return StopTraining("nan_loss", f"the loss is NaN or infinite from step {self.lost[0]} on.",
                            "Lower --lr, add --clip-grad 1, or use bf16 instead of fp16.", step=step)


def profiler(path: Path, record: Writer, left: int):
    """A ``torch.profiler.profile`` that traces up to 5 of the ``left`` steps, after 5 that it leaves out and 3 of warm-up, to
    ``path``. Call its ``step()`` after each step."""
    import torch

    active = max(1, min(5, left - 1))  # fewer where fewer will run, so that there is a trace all the same
    warmup = min(3, left - active)
    schedule = torch.profiler.schedule(wait=min(5, left - active - warmup), warmup=warmup, active=active, repeat=1)
    return torch.profiler.profile(schedule=schedule, on_trace_ready=trace_writer(path, record), record_shapes=True)


def trace_writer(path: Path, record: Writer):
    """For ``torch.profiler.profile(on_trace_ready=…)``: what a profiler has traced goes to ``path``, whole or not at all."""

    def write(profiler) -> None:
        beside = path.with_name(f"part.{path.name}")
        try:
            open(beside, "wb").close()  # Kineto itself would not say why it can't
            profiler.export_chrome_trace(str(beside))
            if not beside.stat().st_size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.replace(beside, path)
        except (OSError, RuntimeError) as error:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            kind, reason, advice = _unwritten(error, path)
            say(f"{script()}: no trace ({reason}). {advice}".rstrip(), file=sys.stderr)
            record.write("error", kind=kind, message=f"no trace: {reason}.", rank=0, fatal=False, advice=advice and f"{advice}.")

    if not sys.modules["torch"].cuda.is_available():  # Kineto looks for GPUs all the same, and complains
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    return write


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or " ".join(str(error).split())[:200]


def _unwritten(error: BaseException, path: Path) -> tuple[str, str, str]:
    """Why this file could not be written: the kind of error, the reason, what to do (empty where that is not known)."""
    if isinstance(error, RuntimeError) and any(words in str(error) for words in FULL):
        # torch's writer counts bytes and says which are missing; what the file itself has said is behind it.
        behind = error.__context__
        error = behind if isinstance(behind, OSError) and behind.errno else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    folder, number = path.parent, getattr(error, "errno", None)
    if number in DISK:
        return "disk", _reason(error), _disk_advice(number, folder)
    if number in (errno.EACCES, errno.EPERM):
        return "usage", _reason(error), f"Fix the permissions of {folder}, or use another folder"
    if not os.path.isdir(folder):
        missing = "is not a folder" if os.path.lexists(folder) else "is not there"
        return "usage", f"{folder} {missing}", "Make that folder first, or name a file in one that is there"
    if os.path.isdir(path):
        return "usage", f"{path} is a folder", "Name a file"
    return "exception", _reason(error), ""


def _disk_advice(number: int, folder: Path | str) -> str:
    """What to do about one of `DISK`."""
    return {errno.EROFS: f"{folder} is mounted read-only: take another folder",
            errno.EDQUOT: f"Your quota is used up: free some space in {folder}",
            errno.EFBIG: "A file may not become that large here: see `ulimit -f`, or use another folder",
            errno.ENOSPC: f"Free some space in {folder}",
            }.get(number, f"{folder} does not answer as it should: take another folder, and tell those who run the machine")


def write_safely(path: Path, write, record: Writer, step: int, begun: float | None = None, shares: Path | None = None) -> None:
    """``write(file)`` into a file beside ``path``, then renamed: there is always a whole one, after a kill or on a full disk.
    ``shares``: a folder that belongs to it, which all processes have been writing since ``begun`` (of `time.perf_counter`).

    A failure is said and recorded, and training goes on: the checkpoint before this one is still good.
    """
    beside = path.with_suffix(".part")
    begun = time.perf_counter() if begun is None else begun
    try:
        with open(beside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        size = beside.stat().st_size + sum(part.stat().st_size for part in (shares.iterdir() if shares else ()))
        record.flush()  # or the steps before this checkpoint, which are never run again, might be lost with the process
        os.replace(beside, path)
    except (OSError, RuntimeError) as error:  # torch's writer raises RuntimeError where the disk is full
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        kind, reason, advice = _unwritten(error, path)
        left = "the one before is kept" if os.path.exists(path) else "there is none"
        say(f"{script()}: no checkpoint at step {step} ({reason}); {left}. {advice}".rstrip(), file=sys.stderr)
        record.write("error", kind=kind, message=f"no checkpoint at step {step}: {reason}.", rank=0, step=step, fatal=False,
                     advice=advice and f"{advice}.")
    else:
        record.write("checkpoint", flush=True, step=step, bytes=size, seconds=round(time.perf_counter() - begun, 4))


def to_resume(path: Path, wanted: bool, is_main: bool) -> bool:
    """Whether there is a checkpoint to go on from.

    What a run that begins anew finds in a used folder is put aside: a checkpoint, as ``checkpoint.old.pt``, to which it would
    else go back when it is itself resumed before its first save, and a trace, which is not of this run.
    """
    if wanted and path.exists():
        return True
    for left in (path, path.with_name("trace.json.gz")):
        try:
            if is_main and left.exists():
                left.replace(left.with_name(left.name.replace(".", ".old.", 1)))
        except OSError as error:
            raise UsageError(f"{left} cannot be put aside ({_reason(error)}): take another --run-dir") from None
    return False


def _no_state(path: Path, error: Exception) -> str:
    """Why torch.load has not found in a file what torch.save writes."""
    with open(path, "rb") as file:
        begin = file.read(100)
    if not begin:
        return "it is empty"
    if re.match(rb"\s*<", begin):
        return "it is a web page, perhaps of a failed download"
    if begin.startswith(b"version https://git-lfs"):
        return "it is Git LFS's pointer to the file: run git lfs pull"
    if not begin.startswith((b"PK", b"\x80")):  # a zip file, and what torch wrote before 1.6 and pickle still does
        return "it is not a file that torch.save has written"
    if isinstance(error, pickle.UnpicklingError) and "Weights only" in str(error):
        named = re.search(r"GLOBAL (\S+)", str(error))
        return f"it holds objects of Python{f', such as {named[1]},' if named else ''} and not their state alone"
    return "its end is missing, or it is damaged"


def read_safely(path: Path, read):
    """``read(file)`` of what `write_safely` wrote. Raises UsageError where that is damaged: it happened after the writing."""
    try:
        with open(path, "rb") as file:
            return read(file)
    except MemoryError:
        raise
    except Exception as error:  # a file that is damaged makes torch and pickle raise anything
        # torch's words speak of its own code, and of ways to load it all the same. EINVAL: a place that a cut file does not have.
        of_system = isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
        reason = _reason(error) if of_system else _no_state(path, error)
        raise UsageError(f"{path} cannot be read ({reason}): delete it to start again, or use another --run-dir") from None
