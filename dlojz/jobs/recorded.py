"""Runs recorded elsewhere, as data of the package: real numbers where there is no GPU, or where the queue is full.

    reference("amp")                 the run of that name, of the first card that has one
    reference("amp", on="h200")      of this card
    views.dashboard(reference("amp"), against=reference("gpu"))

``recorded/CARD/NAME.jsonl`` is the record of a run, as `save` writes it. ``NAME-1``, ``NAME-2`` are the runs of a sweep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from ..system import paths, suggest
from ..system.errors import UsageError
from ..training import records
from ..training.records import Record
from .runs import Run, clean, state_of

FOLDER = paths.PACKAGE / "recorded"
EVENTS = ("start", "step", "validation", "end")
PRIVATE = ("command", "git", "run_dir", "host", "gpu_uuid")  # of the machine, or of whoever ran it


def reference(name: str, on: str = "") -> Run | list[Run]:
    """The recorded run of this name, which all views take; of a sweep a list of runs. ``on``: a card, such as ``"h200"``. Raises
    UsageError where there is no such run."""
    cards = recorded()
    if on and on.lower() not in cards:
        raise UsageError(f"no runs are recorded on {on!r}: {suggest.hint(on, cards)}There is {', '.join(cards) or 'no card'}")
    found = [names for card, names in cards.items() if on.lower() in ("", card)]
    runs = next((names[name] for names in found if name in names), None)
    if runs is None:
        known = list(dict.fromkeys(each for names in found for each in names))
        raise UsageError(f"no run {name!r} is recorded{f' on {on}' if on else ''}: {suggest.hint(name, known)}"
                         f"There is {', '.join(known) or 'none'}")
    return read(runs[0]) if len(runs) == 1 else [read(file) for file in runs]


def recorded() -> dict[str, dict[str, list[Path]]]:
    """For each card the names of its runs, each with its file, or its files in order."""
    found: dict[str, dict[str, list[Path]]] = {}
    for file in sorted(FOLDER.glob("*/*.jsonl"), key=lambda file: (file.parent.name, *_parts(file))):
        found.setdefault(file.parent.name, {}).setdefault(_parts(file)[0], []).append(file)
    return found


def _parts(file: Path) -> tuple[str, int]:
    name, number = re.fullmatch(r"(.+?)(?:-(\d+))?", file.stem).groups()
    return name, int(number or 0)


def read(file: Path) -> Run:
    """The run of such a file; its name says where it was recorded."""
    record = clean(records.read(file))
    run = Run(file.stem, record, state_of(record), recorded=file.parent.name, asked=_parts(file)[0])
    run.name = f"{file.stem} (recorded on {run.device})"
    return run


def card(record: Record) -> str:
    """A short name for what a run computed on: ``h200``, ``v100``; ``cpu``."""
    gpu = (record.start.get("machine") or {}).get("gpu")
    model = re.search(r"\b[A-Z]{1,3}\d{2,4}[A-Z]?\b", gpu or "")
    return (model[0] if model else gpu.replace(" ", "-") if gpu else "cpu").lower()


def save(record: Record, name: str, folder: Path = FOLDER) -> Path:
    """Writes the record of a run as ``CARD/NAME.jsonl``, numbers with five digits, and without what is only of its machine or of
    whoever ran it. Returns the file."""
    file = folder / card(record) / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(_small(event)) + "\n" for event in _kept(record)), encoding="utf-8")
    return file


def _kept(record: Record) -> Iterable[dict]:
    return (event for event in record.events if event["event"] in EVENTS)


def _small(value, key: str = ""):
    if isinstance(value, dict):
        return {key: _small(each, key) for key, each in value.items() if key not in PRIVATE}
    if isinstance(value, list):
        return [_small(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) and key != "time" else value
