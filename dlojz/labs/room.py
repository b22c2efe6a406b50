"""The room: what a trainee publishes under a pseudonym, if they want to, and what is read of all.

The site names a shared folder, ``room = "FOLDER"``. Each workspace that publishes has one file there, which it alone writes,
beside and renamed: no lock, and no reader sees half a file. In it are ids of labs, states, numbers, and the names that the kit
gives to mistakes: nothing of the trainee's code, paths or messages. Whoever reads expects anything in the folder: `read` takes
what has the right form and is small, and says how many files had not.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import math
import os
import re
import secrets
import stat
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..jobs.job import load
from ..jobs.submission import numbered
from ..system import sites, textfile, workspace
from ..system.errors import UsageError
from ..training import records, summary
from ..ui import messages
from . import catalogue, events, goals
from .catalogue import Lab
from .progress import Standing, standing
from .verbs import Question

NAME = "room.json"  # of a workspace: what its trainee has answered, and what its ended runs have cost
FILE = re.compile(r"[0-9a-f]{12}\.json")
LARGEST = 64_000  # bytes of a file; one with all labs has about 6,000
MOST = 1000  # files that are read
ANIMALS = ("otter", "lynx", "heron", "newt", "ibex", "robin", "stoat", "wren", "carp", "hare", "adder", "finch", "moth", "seal")
COLOURS = ("amber", "azure", "coral", "green", "indigo", "ivory", "jade", "olive", "pearl", "plum", "rust", "silver", "teal")
STATES = ("solved", "wrong", "not attempted", "can't be checked", "not checked", "changed since")
HARD = {1: "too easy", 2: "easy", 3: "right", 4: "hard", 5: "too hard"}
PUBLISHED = (
    "labs solved, tries and hints, the kit's names of mistakes, predictions, ratios, GPU time and energy of your runs, how hard "
    "a lab was for you; no code, no message, no path, not your name. On a shared file system others can see who owns the file")


# --- a trainee -----------------------------------------------------------------------------------------------------------


def publish(name: str | bool | None = None) -> messages.Shown:
    """Publish how you are doing to the room of the course, under a pseudonym; ``publish(False)`` stops. Off until you say so.

    Raises UsageError.
    """
    here, folder = workspace.find(), sites.current().folder("room")
    mine = _mine(here)
    if name is False:
        if folder and mine.get("id"):
            with contextlib.suppress(OSError):
                (folder / f"{mine['id']}.json").unlink()
        _keep(here, mine | {"publish": False})
        return messages.Shown("Nothing of this workspace is published.")
    if folder is None:
        return messages.Shown(f"The site {sites.current().name} has no room, so nothing is published.")
    if name is None and "publish" in mine:
        return messages.Shown(f"You publish as {mine['name']}. To stop: publish(False)" if mine["publish"] else
                              'Nothing of this workspace is published. To publish: publish("a pseudonym")')
    if name is None:
        name = f"{secrets.choice(COLOURS)} {secrets.choice(ANIMALS)}"
        words = f"The instructors would like to see where the room is stuck. You may publish, under a pseudonym: {PUBLISHED}."
        how = (f'Nothing is published unless you say so: publish("{name}"), or any other pseudonym, in a shell '
               f"`dlojz publish '{name}'`. publish(False): no.")
        return Question(words, how, {f"Publish as {name}": lambda: publish(name)})
    mine |= {"publish": True, "name": _pseudonym(name), "id": mine.get("id") or secrets.token_hex(6)}
    put(here, mine, folder)
    _keep(here, mine)
    return messages.Shown(f"You publish as {mine['name']}. To stop: publish(False), in a shell `dlojz publish --stop`")


def _pseudonym(name: str) -> str:
    if not isinstance(name, str) or not _is_name(name := " ".join(name.split())):
        raise UsageError(f"{name!r} is no pseudonym: take 2 to 24 letters, digits and blanks, such as \"green otter\"")
    with contextlib.suppress(KeyError, OSError):
        login = getpass.getuser()
        if len(login) > 2 and login.lower() in name.lower():
            raise UsageError(f"{name!r} has your login in it: take a name that says nothing of you, such as \"green otter\"")
    return name


def _is_name(name) -> bool:
    return isinstance(name, str) and re.fullmatch(r"\w[\w -]{1,23}", name) is not None


def feedback(lab: str, value: int) -> messages.Shown:
    """How hard a lab was for you: 1 too easy, 2 easy, 3 right, 4 hard, 5 too hard. Raises UsageError."""
    known = catalogue.lab(lab)
    if isinstance(value, bool) or value not in HARD:
        raise UsageError(f"{value!r} is no answer: {', '.join(f'{number} {word}' for number, word in HARD.items())}")
    events.add(workspace.find(), "feedback", known.id, value=value)
    return messages.Shown(f"{known.id} was {HARD[value]} for you. Thank you.")


def mistake(lab: Lab, message: str) -> str:
    """The kit's name of the mistake that a check's message is about; empty where it has none. A lab whose answers cannot be read
    is no reason for a check to fail."""
    with contextlib.suppress(UsageError):
        return next((answer.name for answer in catalogue.answers(lab)
                     if answer.kind == "wrong" and re.search(answer.expect, message, re.DOTALL)), "")
    return ""


def asks(here: Path, lab: str) -> Question | None:
    """The question on a lab that was just solved, for whoever publishes and has not answered it."""
    if not _mine(here).get("publish") or any(event["event"] == "feedback" and event["lab"] == lab for event in events.read(here)):
        return None
    answers = ", ".join(f"{number} {word}" for number, word in HARD.items())
    how = f'feedback("{lab}", 3), in a shell `dlojz feedback {lab} 3`: {answers}'
    return Question("How hard was it for you?", how, {word: partial(feedback, lab, number) for number, word in HARD.items()})


def update(here: Path) -> None:
    """Write the file of this workspace anew, where it publishes."""
    if not (here / NAME).exists():
        return
    with contextlib.suppress(Exception):  # a full disk, a damaged file: no check of the trainee's may fail for it
        mine, folder = _mine(here), sites.current().folder("room")
        if folder and mine.get("publish"):
            put(here, mine, folder)
            _keep(here, mine)


def put(here: Path, mine: dict, folder: Path) -> None:
    """Writes ``mine['id'].json`` into the room's folder. Raises UsageError."""
    said = events.read(here)
    rows = [standing(lab, said, here) for lab in catalogue.labs().values() if any(event["lab"] == lab.id for event in said)]
    gpu, energy = _spent(here, mine.setdefault("spent", {}))
    content = {"name": mine["name"], "time": round(time.time()), "labs": {row.lab.id: _entry(row, said, here) for row in rows},
               "gpu_seconds": round(gpu), "joules": round(energy)}
    file = folder / f"{mine['id']}.json"
    if not folder.is_dir():
        raise UsageError(f"the room's folder {folder} is not there: ask an instructor")
    textfile.write_bytes(file, json.dumps(content).encode())
    os.chmod(file, 0o644)  # also where the umask would keep it from the instructors
    for left in folder.glob(f".{file.name}.*"):  # of a process that was killed while it wrote
        with contextlib.suppress(OSError):
            if time.time() - left.lstat().st_mtime > 600:
                left.unlink()


def _entry(row: Standing, said: list[dict], here: Path) -> dict:
    mine = [event for event in said if event["lab"] == row.lab.id]
    wrong = Counter(event.get("mistake", "") for event in mine if event["event"] == "check" and event.get("outcome") == "wrong")
    hard = [event.get("value") for event in mine if event["event"] == "feedback"]
    found = {"state": row.state.rpartition(", ")[2], "tries": row.tries, "hints": row.hints, "looked": row.looked,
             "time": round(max(event["time"] for event in mine)), "mistakes": dict(wrong), "predicted": row.prediction,
             "ratio": best(row.lab, here), "hard": hard[-1] if hard else None}
    return {key: value for key, value in found.items() if value not in (None, {}, False)}


def best(lab: Lab, here: Path) -> float | None:
    """The best ratio of the lab's goal among all its runs, to the latest run that it is compared with."""
    if lab.goal is None or (base := goals.latest(here, lab.goal.against, lab.goal.measure)) is None:
        return None
    measured = [goals.measured(folder, lab.goal.measure) for folder in numbered(here / "runs", lab.goal.run)]
    ratios = [ratio for run in measured if run and (ratio := goals.compare(lab.goal, run, base).ratio)]
    return round((max if lab.goal.at_least else min)(ratios), 3) if ratios else None


def _spent(here: Path, known: dict) -> tuple[float, float]:
    """GPU-seconds and joules of all runs; ``known`` keeps those of ended ones, so that no record is read twice."""
    total = {}
    for folder in (here / "runs").glob("*"):
        if folder.name in known:
            total[folder.name] = known[folder.name]
        elif job := load(folder):
            status = job.status
            seconds = (status.ended or time.time()) - status.started if status.started else 0.0
            total[folder.name] = [max(0.0, seconds) * job.request.gpus, 0.0]
            if not status.active:
                record = records.read(folder)
                images = sum(step.get("images", 0) for step in record.timed_steps)
                total[folder.name][1] = summary.numbers(record).get("joules_per_image", 0.0) * images
                known[folder.name] = total[folder.name]
    return sum(gpu for gpu, _ in total.values()), sum(energy for _, energy in total.values())


def _mine(here: Path) -> dict:
    try:
        found = json.loads((here / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict) or not isinstance(found.get("publish"), bool) or not isinstance(found.get("spent", {}), dict):
        return {}
    named = _is_name(found.get("name")) and FILE.fullmatch(f"{found.get('id')}.json")
    return found if named or not found["publish"] else {}


def _keep(here: Path, mine: dict) -> None:
    textfile.write_bytes(here / NAME, json.dumps(mine).encode())


# --- the room ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A lab of a trainee, as published. ``time``: of its last event; ``mistakes``: how often, by the kit's name ("" for one
    without); ``ratio``: the best one."""

    state: str
    time: float
    tries: int = 0
    hints: int = 0
    looked: bool = False
    mistakes: dict[str, int] = field(default_factory=dict)
    predicted: float | None = None
    ratio: float | None = None
    hard: int | None = None


@dataclass(frozen=True)
class Person:
    name: str
    time: float
    labs: dict[str, Entry]
    gpu_seconds: float = 0.0
    joules: float = 0.0

    @property
    def solved(self) -> int:
        return sum(entry.state == "solved" for entry in self.labs.values())

    @property
    def at(self) -> str:
        """The lab that something happened in last; empty where there is none."""
        return max(self.labs, key=lambda lab: self.labs[lab].time, default="")


def read(folder: Path) -> tuple[list[Person], int]:
    """Everybody who publishes, by name, and how many files are there that nobody's kit has written. Raises UsageError."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
    except OSError as error:
        raise UsageError(f"the room {folder} cannot be read: {error.strerror}. Make it with: mkdir -m 1777 {folder}") from None
    found = [_person(folder / name) if FILE.fullmatch(name) else None for name in names[:MOST]]
    people = sorted((person for person in found if person), key=lambda person: person.name)
    return people, len(names) - len(people)


def _person(file: Path) -> Person | None:
    """What a file says, without whatever has not the form or the size that it should have; None where nothing is left."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a link, or a pipe that nobody writes to
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            content = opened.read(LARGEST + 1)
        said = json.loads(content) if len(content) <= LARGEST else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not _is_name(said.get("name")) or not isinstance(said.get("labs"), dict):
        return None
    now = time.time()
    known = catalogue.labs()
    labs = {lab: entry for lab, one in said["labs"].items() if lab in known and (entry := _read_entry(one, now))}
    return Person(said["name"], min(now, _number(said.get("time"))), labs, _number(said.get("gpu_seconds"), 1e9),
                  _number(said.get("joules"), 1e12))


def _read_entry(said, now: float) -> Entry | None:
    if not isinstance(said, dict) or said.get("state") not in STATES:
        return None
    mistakes = said.get("mistakes") if isinstance(said.get("mistakes"), dict) else {}
    return Entry(said["state"], min(now, _number(said.get("time"))), int(_number(said.get("tries"), 1e4)),
                 int(_number(said.get("hints"), 3)), said.get("looked") is True,
                 {name: count for name, value in mistakes.items() if (count := int(_number(value, 1e4)))},
                 _number(said.get("predicted"), 1e6) or None, _number(said.get("ratio"), 1e6) or None,
                 said.get("hard") if type(said.get("hard")) is int and said["hard"] in HARD else None)


def _number(value, most: float = 1e11) -> float:
    """A number from 0 to ``most``; 0 for anything else."""
    right = type(value) in (int, float) and 0 <= value <= most and math.isfinite(value)
    return float(value) if right else 0.0


def stuck(people: list[Person]) -> list[tuple[str, str, int, int]]:
    """Lab, mistake in the kit's words, how many trainees made it and how often: what most made comes first."""
    found: dict[tuple[str, str], list[int]] = {}
    for person in people:
        for lab, entry in person.labs.items():
            for name, count in entry.mistakes.items():
                found.setdefault((lab, name), []).append(count)
    words = {(lab, answer.name): answer.words for lab in {lab for lab, _ in found}
             for answer in catalogue.answers(catalogue.lab(lab)) if answer.kind == "wrong"}
    rows = [(lab, words.get((lab, name), "something that the kit has no name for"), len(counts), sum(counts))
            for (lab, name), counts in found.items() if not name or (lab, name) in words]
    return sorted(rows, key=lambda row: (-row[2], -row[3], row[:2]))


def spread(values: list[float], say) -> str:
    """``2.00x (1.40x to 3.10x)``: the median, and between what they lie, where they differ."""
    if not values:
        return ""
    middle, least, most = say(statistics.median(values)), say(min(values)), say(max(values))
    return middle if least == most else f"{middle} ({least} to {most})"
