"""What was predicted in a lab beside what its run measured: the same words in `predict`, `progress` and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..jobs.submission import numbered
from ..ui import words
from . import goals
from .catalogue import Asked, Lab

MEMORY = ("memory_allocated", "host_memory")  # of a GPU; where there is none, of the process


@dataclass(frozen=True)
class Peak:
    """The memory of a run at its peak, in words, and when the run began."""

    run: str
    began: float
    text: str


def said(asked: Asked, value: float) -> str:
    """A predicted number with its unit."""
    if asked.measure == "ratio":
        return words.ratio(value)
    unit = "GB" if asked.measure == "memory" else asked.unit
    return f"{value:g} {unit}".rstrip()


def peak(folder: Path) -> Peak | None:
    """Of one run's folder; None where it has not completed."""
    found = next(filter(None, (goals.measured(folder, measure) for measure in MEMORY)), None)
    return found and Peak(found.run, found.began, words.gigabytes(found.value))


def latest_peak(lab: Lab, workspace: Path) -> Peak | None:
    """Of the latest run of a lab that is asked about memory; None where there is none."""
    if lab.prediction.measure != "memory":
        return None
    name = lab.goal.run if lab.goal else lab.id
    return next(filter(None, map(peak, reversed(numbered(workspace / "runs", name)))), None)


def latest(events: list[dict], lab: Lab, before: float | None = None) -> tuple[float | None, bool]:
    """The last answer to the lab's own question, of those given before a run began where there is one; and whether there is
    only one that came later. Other questions have other units: nothing that the lab knows stands beside them."""
    every = [event for event in events if event["event"] == "prediction" and event["lab"] == lab.id
             and event.get("question") == lab.prediction.question and isinstance(event.get("value"), (int, float))]
    early = [event for event in every if before is None or event["time"] <= before]
    chosen = (early or every)[-1:]
    return (float(chosen[0]["value"]) if chosen else None), bool(every and not early)
