"""The launcher that runs nothing: each submission is answered at once by a recorded run of the same command.

A folder of recorded runs holds run folders, as ``runs/`` of any workspace does: job.json says the command and how it ended; the
logs, record.jsonl and whatever else the run wrote are copied into the new run's folder. Name the folder in ``DLOJZ_REPLAY``,
which answers every submission whatever the site, or in a site with ``launcher = "replay"`` and ``recorded = "FOLDER"``.

What the trainee's script contains makes no difference: a recorded run shows what the command did where it was recorded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..system import sites, suggest
from ..system.errors import UsageError
from .states import NAME, Request, Status, judged, left_exit_code, made, read_json, sound, update

if TYPE_CHECKING:
    from .job import Job

VARIABLE = "DLOJZ_REPLAY"
OWN = (NAME, "job.sh")  # what a run keeps of its own: who asked for it, and how
IGNORED = ("--run-dir",)  # switches that say where to write, not what to do


def submit(folders: Sequence[Path], request: Request) -> list[str]:
    asked = [_content(folder) for folder in folders]
    found = [find(recordings(content.get("site", "")), _request(content)) for content in asked]
    for folder, source in zip(folders, found):
        for entry in source.iterdir():
            if entry.name not in OWN and not entry.name.startswith("."):
                copy = shutil.copytree if entry.is_dir() else shutil.copy2
                copy(entry, folder / entry.name)
        update(folder, replays={"run": source.name, "status": dataclasses.asdict(_shifted(source))})
    return [_identifier(folder) for folder in folders]


def poll(jobs: Sequence[Job]) -> dict[str, Status]:
    known = {job.id: _content(job.folder).get("replays") for job in jobs}
    return {job.id: made(Status, known[job.id]["status"]) if known[job.id] else judged(left_exit_code(job.folder))
            for job in jobs}


def cancel(ids: Sequence[str], given_to: str = "") -> None:
    """There is nothing to end: a replayed run has ended when it was submitted."""


def recover(folders: Sequence[Path]) -> dict[Path, str]:
    return {folder: _identifier(folder) for folder in folders if _content(folder).get("replays")}


def recordings(site: str = "") -> Path:
    """The folder of recorded runs: what ``DLOJZ_REPLAY`` names, else the ``recorded`` of this site. Raises UsageError."""
    chosen = os.environ.get(VARIABLE, "")
    folder = Path(chosen).expanduser() if chosen else sites.load(site).folder("recorded") if site else None
    if folder is None:
        raise UsageError(f"there is no folder of recorded runs: name one in {VARIABLE}, or as `recorded` in the site's file")
    if not folder.is_dir():
        raise UsageError(f"the folder of recorded runs {folder} does not exist: correct {VARIABLE}, or the site's `recorded`")
    return folder


def find(folder: Path, asked: Request) -> Path:
    """The recorded run of this command with as many processes: one of the same name first, then the latest. Raises UsageError."""
    runs = list(_runs(folder))
    key = normalised(asked.command), asked.processes
    same = [(run.name == asked.name, submitted, path) for path, run, submitted in runs
            if (normalised(run.command), run.processes) == key]
    if same:
        return max(same)[2]
    wanted, known = _said(asked), list(dict.fromkeys(_said(run) for _, run, _ in runs))
    some = f"it has {'; '.join(known[:5])}{' and more' * (len(known) > 5)}" if known else "it is empty"
    there = suggest.hint(wanted, known, 3) or some
    raise UsageError(f"{folder} has no recorded run of `{wanted}`: {there.strip()}. "
                     f"Submit one that is recorded, or run it: unset {VARIABLE} or choose another site")


def normalised(command: Sequence[str]) -> tuple[str, ...]:
    """The script, its positional arguments in their order, then the switches sorted by name: ``--a=1 --b`` and ``--b --a 1`` are
    one command. A switch's values are what follows it up to the next switch; of a switch given twice the last one counts."""
    script = command[:2] if command[:1] == ("-m",) else command[:1]
    positional: list[str] = []
    switches: dict[str, list[str]] = {}
    values = positional
    for word in command[len(script):]:
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.partition("=")
            values = switches[name] = [value] if equals else []
        else:
            values.append(word)
    kept = (word for name in sorted(switches) if name not in IGNORED for word in (name, *switches[name]))
    return (*script, *positional, *kept)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _runs(folder: Path) -> Iterator[tuple[Path, Request, float]]:
    """The folders of recorded runs that have ended, what was asked for in each, and when."""
    for path in sorted(folder.iterdir()):
        content = _content(path)
        if content.get("request") and (content.get("status") or left_exit_code(path) is not None):
            yield path, _request(content), content.get("submitted") or 0.0


def _request(content: dict) -> Request:
    return made(Request, content["request"])


def _shifted(source: Path) -> Status:
    """How the recorded run ended, as if it had ended now: it took as long as it did."""
    content = _content(source)
    status = made(Status, content["status"]) if content.get("status") else judged(left_exit_code(source))
    if status.started is None or status.ended is None:
        return status
    now = time.time()
    return dataclasses.replace(status, started=now - (status.ended - status.started), ended=now)


def _content(folder: Path) -> dict:
    return sound(read_json(folder) or {})[0]


def _identifier(folder: Path) -> str:
    return "recorded-" + hashlib.sha256(str(folder).encode()).hexdigest()[:8]


def _said(asked: Request) -> str:
    return shlex.join(asked.command) + (f" ({asked.processes} processes)" if asked.processes > 1 else "")
