"""What a view is asked to show, as runs: a job, a run's name, its folder, a record, or lists of those."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..system import paths, workspace
from ..system.errors import UsageError
from ..training import records, summary
from ..training.records import Record
from ..ui import words
from .job import Group, Job, load

NUMBERS = frozenset(("step", "epoch", "lr", "images", "seconds", "loading", "idle", "copy", "forward", "backward", "update",
           "loss", "accuracy", "bytes", "batch_size", "image_size", "world_size", "global_batch", "parameters",
           "steps_per_epoch", "epoch_images", "epochs", "total_steps", "warmup_steps", "resumed_at", "time", "steps",
           "host_memory", "memory_with_workers", "memory_allocated", "memory_reserved", "power", "joules_per_image", "allocated",
           "reserved", "total", "gpu_memory", "host_memory_total", "mom", "wd", "accumulate", "num_workers", "prefetch_factor"))
HUGE = 1e40
TINY = 1 / HUGE
TABLES = ("machine", "versions", "args", "switches")
TEXTS = frozenset(("model", "status", "kind", "message", "advice", "lab", "optimizer", "schedule", "data",
                   "device", "gpu", "cpu"))
SPECIAL = TEXTS.union(TABLES)


@dataclass
class Run:
    """One run: its name, how it stands (a job's word, or what its record tells), and its record. ``asked``: the name that it was
    submitted with. ``recorded``: the card, where it comes with the kit (`dlojz.jobs.recorded`)."""

    name: str
    record: Record
    state: str
    reason: str = ""
    job: Job | None = None
    folder: Path | None = None
    unreadable: str = ""
    others: list[str] = field(default_factory=list)
    asked: str = ""
    recorded: str = ""

    def __repr__(self) -> str:
        return f"{self.name}: {self.state}"

    @cached_property
    def numbers(self) -> dict:
        return summary.numbers(self.record)

    @property
    def start(self) -> dict:
        return self.record.start

    @property
    def args(self) -> dict:
        return self.start.get("args") or {}

    @property
    def machine(self) -> dict:
        return self.start.get("machine") or {}

    @property
    def batch_size(self) -> int | None:
        """Images of a process's batch, as its record says or, where it ended before that, as its command asked for."""
        if "batch_size" in self.start or self.job is None:
            return self.start.get("batch_size")
        said = re.findall(r"(?:^|\0)(?:-b|--batch-size)[=\0]?(\d+)(?=\0|$)", "\0".join(self.job.request.command))
        return int(said[-1]) if said else None

    @property
    def unit(self) -> str:
        """What the run counts: images, tokens of a language model, or what a script of one's own calls it."""
        return summary.unit(self.start)

    @property
    def item(self) -> str:
        """What the batch size counts: rows of tokens, else the `unit`."""
        return "rows" if "length" in self.start else self.unit

    @cached_property
    def steps_per_epoch(self) -> int | None:
        """As its record says or, where it doesn't, as many as an epoch had that is over."""
        if "steps_per_epoch" in self.start:
            return self.start["steps_per_epoch"]
        each = Counter(step["epoch"] for step in self.record.steps if "epoch" in step)
        return max(each.values()) if len(each) > 1 or (each and self.state == "COMPLETED") else None

    @property
    def on_gpu(self) -> bool:
        return self.machine.get("device") == "cuda"

    @property
    def device(self) -> str:
        return self.machine.get("gpu") or self.machine.get("cpu") or "a machine that is not recorded"

    @property
    def unwritten(self) -> set[str]:
        return {event["lab"] for event in self.record.todos if event.get("lab")}

    @property
    def error(self) -> dict | None:
        """What ended the run, as it said itself; running out of memory first, as that explains the rest."""
        fatal = [event for event in self.record.errors if event.get("fatal") is not False]
        return next((event for event in fatal if event.get("kind") == "out_of_memory"), fatal[0] if fatal else None)

    @property
    def limit(self) -> float | None:
        """Bytes that ``memory`` can't go beyond: the card's, on a CPU those that the process may use of the host."""
        return self.machine.get("gpu_memory" if self.on_gpu else "host_memory_total")

    @property
    def memory(self) -> float | None:
        """Peak bytes: what tensors took of the card, on a CPU what the process took of the host."""
        return self.numbers.get("memory_allocated" if self.on_gpu else "host_memory")

    def share(self, name: str) -> float | None:
        """Which part of a step a phase takes, or the loading; None where that was not measured."""
        found = self.numbers
        return found[name] / found["step_seconds"] if name in found and found.get("step_seconds") else None

    @property
    def unlike(self) -> dict:
        """What must be the same before two runs' speeds say anything about a switch."""
        known = {"model": self.start.get("model"), "image size": self.start.get("image_size"), "device": self.device}
        return known | {"tokens per row": self.start["length"]} if "length" in self.start else known


def several(*asked) -> list[Run]:
    """All runs that are meant, in this order. Raises UsageError where there are none or one is not to be found."""
    found = [run for item in asked for run in _found(item)]
    if not found:
        raise UsageError("no run to show: name one, such as \"amp\", or pass its job")
    return found


def one(asked) -> Run:
    """The one run that is meant. Raises UsageError."""
    found = several(asked)
    if len(found) > 1:
        raise UsageError(f"these are {len(found)} runs, {found[0].name} to {found[-1].name}: say which one")
    return found[0]


def _found(item) -> Iterable[Run]:
    if isinstance(item, Run):
        return [item]
    if isinstance(item, Job):
        return [of_job(item)]
    if isinstance(item, Group):
        return [of_job(job) for job in item]
    if isinstance(item, Record):
        return [of_record(item)]
    if isinstance(item, Path):
        return [of_folder(paths.given(item))]
    if isinstance(item, str):
        return _named(item)
    if isinstance(item, dict):  # of groups of runs, by name
        item = item.values()
    if isinstance(item, Iterable) and not isinstance(item, bytes):
        return [run for each in item for run in _found(each)]
    raise UsageError(f"{type(item).__name__} is not a run: give a job, a run's name such as \"amp\", its folder, or a list "
                     "of those")


def jobs_of(item) -> list[Job]:
    """The jobs among what a view is asked to show; their records are not read."""
    if isinstance(item, Job):
        return [item]
    if isinstance(item, Run):
        return [item.job] if item.job else []
    if isinstance(item, Path):
        return [job] if item.is_dir() and (job := load(item)) else []
    if isinstance(item, str):
        from . import jobs

        if _is_path(item):
            return jobs_of(Path(item).expanduser())
        with contextlib.suppress(UsageError):
            return jobs_of(jobs[item])
        return []
    if isinstance(item, dict):
        item = item.values()
    if isinstance(item, Iterable) and not isinstance(item, (bytes, Record)):
        return [job for each in item for job in jobs_of(each)]
    return []


def _is_path(name: str) -> bool:
    folder = paths.given(name)
    return "/" in name or (folder / records.NAME).is_file() or folder.name == records.NAME


def _named(name: str) -> Iterable[Run]:
    from . import jobs
    from .submission import numbered

    if _is_path(name):
        return [of_folder(paths.given(name))]
    try:
        return _found(jobs[name])
    except UsageError as error:  # of a script that was started by hand, perhaps far from any workspace
        here, why = Path.cwd(), error
        try:
            here = jobs.root or workspace.find()
        except UsageError:
            why = UsageError(f"there is no run {name!r} in {here / 'runs'}; jobs are found inside of their workspace")
        made = here / "runs" / name
        there = [made] if name not in ("", ".", "..") and made.is_dir() else numbered(here / "runs", name)[-1:]
        if not there:
            raise why from None
    return [of_folder(there[0])]


def of_job(job: Job) -> Run:
    record, unreadable = _read(job.folder)
    job.refresh()
    return Run(job.run, record, job.status.state, job.status.reason, job, job.folder, unreadable, asked=job.name)


def of_folder(folder: Path) -> Run:
    """The run of a folder or of a record file. Raises UsageError where there is neither."""
    path = folder if folder.is_dir() else folder.parent
    instead = "give a run's folder, such as runs/amp-001"
    if not folder.exists():
        raise UsageError(f"there is no {folder}: {instead}")
    if folder.is_dir() and (job := load(path)):
        return of_job(job)
    if folder.is_dir() and not (folder / records.NAME).exists() and not any(folder.glob("*trace.json*")):
        raise UsageError(f"there is no record in {folder}: {instead}")
    record, unreadable = _read(folder)
    if folder.is_file() and not record.events and folder.name != records.NAME and not (unreadable and folder.suffix):
        raise UsageError(f"{folder} is not a record: {instead}")
    return Run(path.resolve().name, record, state_of(record), "", None, path, unreadable)


def of_record(record: Record) -> Run:
    """The run of a record that was read already; its name is that of its folder, where it says it."""
    record = clean(record)
    given = (record.start.get("args") or {}).get("run_dir")
    return Run(Path(given).name if isinstance(given, str) and given else "run", record, state_of(record))


def _read(folder: Path) -> tuple[Record, str]:
    try:
        return clean(records.read(folder)), ""
    except OSError as error:
        return Record([]), f"its record cannot be read: {error.strerror}"


def state_of(record: Record) -> str:
    """How a run stands that no queue knows of. STOPPED: saved, to be resumed."""
    errors = [event for event in record.errors if event.get("fatal") is not False]
    status = (record.end or {}).get("status")
    if status == "completed":
        return "COMPLETED"
    if status == "stopped":
        return "STOPPED"
    if any(event.get("kind") == "out_of_memory" for event in errors):
        return "OUT_OF_MEMORY"
    if status == "failed" or errors:
        return "FAILED"
    return "NOT_ENDED" if record.start or record.steps else "UNKNOWN"


def clean(record: Record) -> Record:
    """The record without fields that are not what they should be: a file that somebody edited, or that a bug wrote."""
    events = [_clean(event) for event in record.events]
    same = all(fixed is event for fixed, event in zip(events, record.events))
    return record if same else Record(events, record.torn)


def _clean(event: dict) -> dict:
    for name, value in event.items():  # of 100,000 steps each is asked: most hold only usual numbers
        if name in NUMBERS:
            if (type(value) is not float and type(value) is not int) or (value and not TINY < value < HUGE):
                break
        elif name in SPECIAL:
            break
    else:
        return event
    fixed = {name: value for name, value in event.items() if _fits(name, value)}
    for name in TABLES:
        if name in fixed:
            fixed[name] = {key: value for key, value in fixed[name].items() if _plain(key, value)}
    return event if fixed == event else fixed


def _fits(name: str, value) -> bool:
    if name in NUMBERS:
        if type(value) not in (int, float):
            return False
        return _sane(value) or _lost(value) if name == "loss" else _sane(value) and value >= 0
    if name in TABLES:
        return isinstance(value, dict)
    return isinstance(value, str) if name in TEXTS else True


def _sane(value: float) -> bool:
    """Whether this can be reckoned with: what is beyond is of no run (float32 ends at 3e38), and its products are infinite."""
    return value == 0 or TINY < abs(value) < HUGE


def _lost(value: float) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _plain(name: str, value) -> bool:
    """What may stand in a table of a ``start`` event."""
    if value is not None and (name in TEXTS or name in NUMBERS):
        return _fits(name, value)
    return value is None or isinstance(value, (str, bool)) or (isinstance(value, (int, float)) and _sane(value))


# --- in words ------------------------------------------------------------------------------------------------------------


def what(*found: Run) -> str:
    """``resnet50, 224 px, on NVIDIA H100 80GB HBM3, 16 cores, torch 2.11``; of several runs what each of them is."""
    known = [_parts(run) for run in found if run.start]
    return ", ".join(_either(values) for values in zip(*known) if any(values))


def _parts(run: Run) -> list[str]:
    start, cores, torch = run.start, run.machine.get("cores_allowed"), (run.start.get("versions") or {}).get("torch")
    size = f"{start['image_size']} px" if "image_size" in start else _length(start)
    return [str(start.get("model", "a model")), size, f"on {run.device}",
            "" if not cores else words.counted(cores, "core") if isinstance(cores, int) else f"{cores} cores",
            f"torch {torch}" if torch else ""]


def about(run: Run) -> str:
    """Of a run that comes with the kit: ``NVIDIA H200, 16 cores, torch 2.11.0, 2026-11-29``."""
    machine = _parts(run)[2:]
    begun = run.start.get("time")
    day = time.strftime("%Y-%m-%d", time.gmtime(begun)) if isinstance(begun, (int, float)) else ""
    return ", ".join(filter(None, [machine[0].removeprefix("on "), *machine[1:], day]))


def _length(start: dict) -> str:
    return f"{start['length']:,} tokens" if isinstance(start.get("length"), int) else ""


def _either(values: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(filter(None, values)))


def steps(run: Run) -> str:
    """``120 of 200 steps``"""
    done, total = run.record.progress
    return f"{done:,} of {total:,} steps" if isinstance(total, int) else words.counted(int(done), "step")


def not_comparable(run: Run, base: Run) -> str:
    """Why the speeds of two runs can't be compared; empty where they can."""
    if not run.start or not base.start:
        where = "here" if base.start else "there" if run.start else "of either"
        return f"not comparable with {base.name}: nothing is recorded {where}"
    different = [name for name, value in run.unlike.items() if value != base.unlike.get(name)]
    said = "; ".join(f"{name} {_known(run, name)} here, {_known(base, name)} there" for name in different)
    return f"not comparable with {base.name}: {said}" if different else ""


def _known(run: Run, name: str) -> str:
    value = run.unlike.get(name)
    return "not recorded" if value is None else str(value)
