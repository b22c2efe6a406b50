"""Runs recorded elsewhere, as data of the package or of a site: real numbers where there is no GPU, or where the queue is full.

    reference("amp")                 the run of that name, of the first card that has one
    reference("amp", on="h200")      of this card
    views.dashboard(reference("amp"), against=reference("gpu"))

``recorded/CARD/NAME.jsonl`` is the record of a run, as `save` writes it. ``NAME-1``, ``NAME-2`` are the runs of a sweep. A site
may have runs of its own, in the folder that ``references`` in its file names: they come before those of the kit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..system import paths, sites, suggest, textfile
from ..system.errors import UsageError
from ..training import records, summary
from ..training.records import Record
from ..ui import page
from .job import Job
from .runs import Run, about, clean, state_of

FOLDER = paths.PACKAGE / "recorded"
EVENTS = ("start", "sweep", "step", "validation", "end")
MOST = 120  # steps that are kept of a run: its figures need no more
PRIVATE = ("command", "git", "run_dir", "host", "gpu_uuid")  # of the machine, or of whoever ran it


def reference(name: str, on: str = "") -> Run | list[Run]:
    """The recorded run of this name, which all views take; of a sweep a list of runs. ``on``: a card, such as ``"h200"``. Raises
    UsageError where there is no such run."""
    cards = recorded()
    if on and on.lower() not in cards:
        raise UsageError(f"no runs are recorded on {on!r}: {suggest.hint(on, cards)}Choose from {', '.join(cards)}")
    found = [names for card, names in cards.items() if on.lower() in ("", card)]
    runs = next((names[name] for names in found if name in names), None)
    if runs is None:
        known = list(dict.fromkeys(each for names in found for each in names))
        raise UsageError(f"no run {name!r} is recorded{f' on {on}' if on else ''}: {suggest.hint(name, known)}"
                         f"Choose from {', '.join(known)}")
    return read(runs[0]) if len(runs) == 1 else [read(file) for file in runs]


def recorded() -> dict[str, dict[str, list[Path]]]:
    """For each card the names of its runs, each with its file, or its files in order."""
    found: dict[str, dict[str, list[Path]]] = {}
    for folder in folders():
        here: dict[str, dict[str, list[Path]]] = {}
        for file in sorted(folder.glob("*/*.jsonl"), key=lambda file: (file.parent.name, *_parts(file))):
            here.setdefault(file.parent.name, {}).setdefault(_parts(file)[0], []).append(file)
        for name, names in here.items():
            found[name] = {**names, **found.get(name, {})}
    return found


def folders() -> list[Path]:
    """Where recorded runs are: the folder of the site in use, if it has one, then the kit's."""
    try:
        own = sites.current().folder("references")
    except UsageError:  # a site that is wrong says so where it is needed
        own = None
    return [own, FOLDER] if own else [FOLDER]


def table() -> str:
    """All recorded runs, one a line: name, how many (of a sweep), card, versions and date."""
    rows = []
    for name, names in recorded().items():
        for run, files in names.items():
            rows.append([run, str(len(files)), name, about(read(files[0]))])
    return page.table(["run", "runs", "card", "recorded on"], rows)


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


def keep(names: Sequence[str] = (), into: str = "") -> Iterator[str]:
    """Saves the latest runs of these names, or of all names where none is given, if they have completed. Yields what was kept and
    what was not, a line for each run. Raises UsageError where there is no such run, or no folder."""
    from . import jobs

    own = sites.current().folder("references")
    folder = Path(into).expanduser() if into else own or (None if paths.is_installed() else FOLDER)
    if folder is None:
        raise UsageError("say where to keep them: --into FOLDER, or references = \"FOLDER\" in the site's file")
    found = [jobs[name] for name in names or sorted({job.name for job in jobs})]
    for one in found:
        some = [one] if isinstance(one, Job) else list(one)
        for number, job in enumerate(some, 1):
            if why := _lacks(job):
                yield f"{job.run}: not kept, it {why}"
            else:
                name = job.name if len(some) == 1 else f"{job.name}-{number}"
                there = (folder / card(job.record) / f"{name}.jsonl").exists()
                yield f"{job.run}: {save(job.record, name, folder)}{' (replaces the record that was there)' if there else ''}"


def _lacks(job: Job) -> str:
    """What a job's record needs to be a reference, and this one has not."""
    if job.status.state != "COMPLETED":
        return f"is {job.status.state}"
    if not summary.numbers(job.record).get("images_per_second"):
        return "recorded no timed step"
    return "" if job.record.start.get("machine") else "does not say on which machine it ran"


def save(record: Record, name: str, folder: Path = FOLDER) -> Path:
    """Writes the record of a run as ``CARD/NAME.jsonl``, numbers with five digits, and without what is only of its machine or of
    whoever ran it. Of a long run it keeps `MOST` steps, spread evenly. Returns the file; raises UsageError."""
    file = folder / card(record) / f"{name}.jsonl"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {file.parent}: {error.strerror}") from None
    textfile.write_bytes(file, "".join(json.dumps(_small(event)) + "\n" for event in _kept(record)).encode())
    return file


def _kept(record: Record) -> Iterator[dict]:
    """Of a long run every n-th of the timed steps, so that averages stay what they are, and the last. ``left_out`` of a step are
    the seconds of those before it that were not kept."""
    timed = [step["step"] for step in record.timed_steps]
    every = -(-len(timed) // MOST)
    left_out = {number for place, number in enumerate(reversed(timed)) if place % every} if timed else set()
    seconds = 0.0
    for event in record.events:
        if event["event"] == "step" and event["step"] in left_out:
            seconds += event.get("seconds", 0.0)
        elif event["event"] in EVENTS:
            if event["event"] == "step" and seconds:
                event, seconds = {**event, "left_out": seconds}, 0.0
            yield event


def _small(value, key: str = ""):
    if isinstance(value, dict):
        return {key: _small(each, key) for key, each in value.items() if key not in PRIVATE}
    if isinstance(value, list):
        return [_small(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) and key != "time" else value
