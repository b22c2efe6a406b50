"""Goals: what a lab's run should reach, as a multiple of what the trainee's own earlier run measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..jobs.states import read_json
from ..jobs.submission import numbered
from ..training import records, summary
from .catalogue import Goal, Lab

WORDS = {
    "images_per_second": "images/s",
    "device_images_per_second": "images/s of the device alone",
    "step_seconds": "time per step",
    "memory_allocated": "GPU memory",
    "host_memory": "host memory",
    "joules_per_image": "energy of an image",
}


@dataclass(frozen=True)
class Measured:
    """A run that ended with something measured: its folder's name, when it began, its scale, the value, what it trained, the
    switches that it was given (as in ``args``: ``channels_last``)."""

    run: str
    began: float
    scale: str
    value: float
    setting: dict
    unwritten: tuple[str, ...] = ()
    switches: frozenset[str] = frozenset()
    disturbed: str = ""


@dataclass(frozen=True)
class Verdict:
    """How a goal stands. ``state``: reached, not reached, not measured, not comparable, no goal (at this scale).

    ``ratio`` is the run's value divided by that of the run it is compared with; ``limit`` what it should be.
    """

    state: str
    text: str
    ratio: float | None = None
    limit: float | None = None
    run: Measured | None = None


def latest(workspace: Path, name: str, measure: str = "images_per_second") -> Measured | None:
    """The latest run of this name that has completed and measured something; None where there is none."""
    for folder in reversed(numbered(workspace / "runs", name)):
        if (found := measured(folder, measure)) is not None:
            return found
    return None


def measured(folder: Path, measure: str) -> Measured | None:
    try:
        record = records.read(folder / records.NAME)
    except OSError:
        return None
    value = summary.numbers(record).get(measure)
    if not isinstance(value, (int, float)) or value <= 0 or (record.end or {}).get("status") != "completed":
        return None
    machine = record.start.get("machine") or {}
    on_gpu = machine.get("device") == "cuda"
    scale = (read_json(folder) or {}).get("scale") or ("gpu" if on_gpu else "laptop")
    setting = {"model": record.start.get("model"), "image size": record.start.get("image_size"),
               "batch size": record.start.get("batch_size"), "processes": record.start.get("world_size"),
               "device": machine.get("gpu") or machine.get("cpu")}
    unwritten = tuple(event.get("lab", "?") for event in record.todos)
    switches = frozenset(record.start.get("switches") or ())
    return Measured(folder.name, record.start.get("time", 0.0), scale, float(value), setting, unwritten, switches,
                    summary.disturbed(record))


def judge(lab: Lab, workspace: Path) -> Verdict:
    """Whether the goal of this lab is reached by the runs of this workspace."""
    if lab.goal is None:
        return Verdict("no goal", "")
    goal = lab.goal
    run, base = (latest(workspace, name, goal.measure) for name in (goal.run, goal.against))
    if run is None or base is None:
        lacking = " and ".join(name for name, found in ((goal.run, run), (goal.against, base)) if found is None)
        return Verdict("not measured", f"not measured yet: no run {lacking} has completed")
    return compare(goal, run, base)


def compare(goal: Goal, run: Measured, base: Measured) -> Verdict:
    """The verdict over two runs."""
    different = [name for name in run.setting if run.setting[name] != base.setting[name] and name not in goal.differ]
    if different:
        said = ", ".join(f"{name} {run.setting[name]} and {base.setting[name]}" for name in different)
        return Verdict("not comparable", f"{run.run} and {base.run} can't be compared: {said}", run=run)
    ratio = run.value / base.value
    said = f"{ratio:.2f}x the {WORDS[goal.measure]} of {base.run}"
    if lacking := [name for name in goal.switches if name not in run.switches]:
        named = " and ".join(f"--{name.replace('_', '-')}" for name in lacking)
        return Verdict("not measured", f"{said}, but {run.run} ran without {named}", run=run)
    if run.unwritten:
        lacking = f"but {run.run} ran without {', '.join(run.unwritten)}: not written yet"
        return Verdict("not reached", f"{said}, {lacking}", ratio, run=run)
    for one in (run, base):
        if one.disturbed:
            return Verdict("not measured", f"{said}, but in {one.run} {one.disturbed}", run=run)
    limit = goal.limits.get(run.scale)
    if limit is None:
        why = (goal.none_for or {}).get(run.scale)
        return Verdict("no goal", f"{said} (no goal here: {why})" if why else f"{said} (no goal at this scale)", ratio, run=run)
    reached = ratio >= limit if goal.at_least else ratio <= limit
    wanted = f"{'>=' if goal.at_least else '<='} {limit:g}x"
    return Verdict("reached" if reached else "not reached", f"{said}, goal {wanted}", ratio, limit, run)
