"""The course as a whole: which labs lead to what one wants, what comes next, and timetables of half a day to four days."""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..system import workspace
from ..system.errors import UsageError
from ..ui import messages, page, words
from ..ui.page import View
from . import catalogue, events, notebooks
from .catalogue import WANTS, Lab
from .progress import standing

START = ("day0_start", 30)  # the notebook that comes first, and its minutes
BLOCKS = (("9:00", 90), ("10:45", 105), ("13:30", 105), ("15:30", 90))  # of a day: when each begins, and its minutes
OWN = "questions, and what you have learned in your own script"
LENGTHS = {"half": 2, "1": 4, "2": 8, "4": 16}  # blocks
ALSO = {"0.5": "half", "one": "1", "two": "2", "four": "4"}
OVER = 5  # minutes that a break may begin late, so that it cuts no lab
SHORT = 20  # minutes: with less left before a break, no lab begins that the break would cut


def with_needs(labs: Iterable[Lab]) -> list[Lab]:
    """These labs and all that they need, in the order of the course."""
    known, found, waiting = catalogue.labs(), set(), [lab.id for lab in labs]
    while waiting:
        if (lab := waiting.pop()) not in found:
            found.add(lab)
            waiting += known[lab].needs
    return [lab for lab in known.values() if lab.id in found]


def leads_to(want: str) -> list[Lab]:
    """The labs that lead to one of `WANTS`, with what they need. Raises UsageError."""
    if want not in WANTS:
        raise UsageError(f"{want!r} is nothing that labs lead to: choose {', '.join(map(repr, WANTS))}")
    return with_needs(lab for lab in catalogue.labs().values() if want in lab.serves)


def minutes(labs: Iterable[Lab]) -> int:
    return sum(lab.minutes for lab in labs)


def long(labs: Iterable[Lab]) -> str:
    return words.seconds(60 * minutes(labs))


# --- the map -------------------------------------------------------------------------------------------------------------

HEAD = ["day", "lab", "minutes", "difficulty", "needs", "state"]


def course() -> View:
    """All labs, with what is done, what comes next, and which of them lead to what one wants."""
    here = workspace.find()
    said = events.read(here)
    states = {lab.id: standing(lab, said, here).state for lab in catalogue.labs().values()}
    labs = list(catalogue.labs().values())
    left = [lab for lab in labs if states[lab.id] != "solved"]
    following = next((lab for lab in left if all(states[need] == "solved" for need in lab.needs)), None)
    if following:
        states[following.id] = f"{states[following.id]}, next".removeprefix("not checked, ")
    title = f"{len(labs)} labs, {long(labs)}; {len(labs) - len(left)} solved"
    title += f". Next: {following.title} ({following.id}, {following.minutes} min)" if following else ": you have done it all"
    rows = [[str(lab.day), lab.id, str(lab.minutes), "●" * lab.difficulty + "○" * (5 - lab.difficulty), ", ".join(lab.needs),
             states[lab.id].replace("not checked", "")] for lab in labs]
    ways = [(want, [lab for lab in leads_to(want) if lab in left]) for want in WANTS]
    lines = [f"{want}: {' → '.join(lab.id for lab in way)} ({long(way)} to go)" if way else f"{want}: done"
             for want, way in ways]
    text = "\n".join([title, page.table(HEAD, rows), "", "What do you want?", *lines])
    cells = [[html.escape(cell) for cell in row] for row in rows]
    for lab, row in zip(labs, cells):
        row[1] = f'<a href="{notebooks.name_of(lab)}" title="{html.escape(lab.id)}">{html.escape(lab.title)}</a>'
        row[5] = f"<b>{row[5]}</b>" if "next" in row[5] else row[5]
    head = [f"<b>{word}</b>" for word in HEAD]
    below = messages.headline("What do you want?") + messages.lines(*lines)
    return View("the course", text, page.headline(title) + messages.rows_html([head, *cells]) + below)


# --- a timetable ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slot:
    """Part of a timetable: the day (from 1), when it begins and ends in minutes since midnight, what is done."""

    day: int
    begins: int
    ends: int
    what: str

    def __str__(self) -> str:
        return f"{_clock(self.begins)} to {_clock(self.ends)}"


def chosen(budget: int, among: Sequence[Lab]) -> list[Lab]:
    """The labs that fit into so many minutes: the most important first, each with what it needs."""
    found: list[Lab] = []
    for lab in sorted(among, key=lambda lab: (-lab.importance, lab.place)):
        more = with_needs([*found, lab])
        if minutes(more) <= budget:
            found = more
    return found


def timetable(length: str, want: str = "") -> list[Slot]:
    """Labs for this length (`LENGTHS`) in blocks of 90 and 105 min. A lab that a break cuts goes on after it. Four days keep
    to the days of the course. What is left of a block is for the trainees' own scripts. Raises UsageError."""
    if length not in LENGTHS:
        raise UsageError(f"there is no course of length {length!r}: choose {', '.join(LENGTHS)} (days)")
    blocks = [(place // 4 + 1, _minutes(BLOCKS[place % 4][0]), BLOCKS[place % 4][1]) for place in range(LENGTHS[length])]
    among = leads_to(want) if want else list(catalogue.labs().values())
    by_days = length == str(max(lab.day for lab in catalogue.labs().values()))
    budget = sum(long for _, _, long in blocks) - START[1]
    while (found := _placed(chosen(budget, among), blocks, by_days)) is None:
        budget -= OVER  # what is lost before breaks, found by trying
    return found


def _placed(labs: Iterable[Lab], blocks: Iterable[tuple[int, int, int]], by_days: bool) -> list[Slot] | None:
    """These labs in blocks (day, when it begins, minutes). None where the blocks end before the labs do."""
    waiting = [(*START, 1), *((f"{lab.id}: {lab.title}", lab.minutes, lab.day) for lab in labs)]
    found = []
    for day, at, left in blocks:
        while waiting and left and not (by_days and waiting[0][2] > day):
            what, long, of = waiting[0]
            begins = not what.endswith(" (goes on)")
            taken = long if long <= left + OVER else left
            if begins and taken < min(long, SHORT):
                break
            found.append(Slot(day, at, at + taken, what))
            at, left = at + taken, max(0, left - taken)
            waiting[:1] = [(f"{what} (goes on)" if begins else what, long - taken, of)] if long > taken else []
        if left > OVER:
            found.append(Slot(day, at, at + left, OWN))
    return None if waiting else found


def syllabus(length: str | float, want: str = "") -> View:
    """A course of half a day, one, two or four days, with a timetable. Raises UsageError."""
    length = str(length).lower()
    length = ALSO.get(length, length)
    slots = timetable(length, want)
    in_it = {slot.what.partition(":")[0] for slot in slots}
    labs = [lab for lab in catalogue.labs().values() if lab.id in in_it]
    gpu = sum(lab.gpu_minutes for lab in labs)
    days = {"half": "Half a day", "1": "One day"}.get(length, f"{length} days")
    title = f"{days}: {words.counted(len(labs), 'lab')}, {long(labs)}, about {words.gpu_minutes(gpu)} for each trainee"
    title += f", towards {want}" if want else ""
    left_out = [lab.id for lab in catalogue.labs().values() if lab not in labs]
    rows = [[f"day {slot.day}", str(slot), slot.what] for slot in slots]
    notes = [f"For later: {', '.join(left_out)}"] if left_out else []
    whole = sum(slot.ends - slot.begins for slot in slots)
    if sum(slot.ends - slot.begins for slot in slots if slot.what == OWN) > whole / 2:
        notes.insert(0, f"These labs take {long(labs)} of {whole / 60:g} h: a shorter course has room for them. Without --want, "
                        "other labs fill the time.")
    head = ["day", "time", "what"]
    return View(title, "\n".join([title, page.table(head, rows), *notes]),
                page.headline(title) + page.table_html(head, rows) + "".join(map(page.quiet, notes)))


def _minutes(clock: str) -> int:
    at = time.strptime(clock, "%H:%M")
    return at.tm_hour * 60 + at.tm_min


def _clock(at: int) -> str:
    return f"{at // 60:02}:{at % 60:02}"
