"""`room`: how the trainees are doing who publish it: who is where, where they are stuck, what they expected and gained."""

from __future__ import annotations

import contextvars
import threading
import time
from pathlib import Path

from ..labs import catalogue, predictions
from ..labs.room import HARD, Person, read, spread, stuck
from ..system import paths, sites
from ..system.errors import UsageError
from ..ui import page, words
from ..ui.notebook import plain_wanted
from ..ui.page import View

EVERY = 15  # seconds between two looks
HERE = 15 * 60  # seconds since somebody's last event: after that they may be at lunch
SHOWN = 12  # mistakes
LABS = ["lab", "solved", "at it", "tries", "hints", "predicted", "measured", "how hard"]
PEOPLE = ["who", "solved", "last at", "state", "tries", "ago"]
STUCK = ["lab", "what their code does wrong", "trainees", "times"]


def room(folder: str | Path = "") -> View:
    """The room of the course, from its shared folder (left out: the site's). In a notebook it looks again every 15 seconds.

    Raises UsageError where there is no such folder.
    """
    where = paths.given(folder, "/shared/course/room") if folder else sites.current().folder("room")
    if where is None:
        raise UsageError(f"the site {sites.current().name} has no room: give a folder, or write room = \"FOLDER\" into its file")
    view = look(where)
    if not plain_wanted():
        view.following = _Live(where)
    return view


def look(folder: Path) -> View:
    """The room as it is now."""
    people, others = read(folder)
    now = time.time()
    title = _title(people, now)
    tables = [(head, rows) for head, rows in ((LABS, _labs(people)), (STUCK, _stuck(people)), (PEOPLE, _people(people, now)))
              if rows]
    notes = [f"as of {time.strftime('%H:%M:%S')}"]
    if others:
        notes.append(f"{words.counted(others, 'file')} of {folder} left out: not written by the kit")
    text = "\n\n".join([title, *(page.table(head, rows) for head, rows in tables), "\n".join(notes)])
    return View("the room", text, page.headline(title) + "".join(page.table_html(head, rows) for head, rows in tables)
                + "".join(map(page.quiet, notes)))


def _title(people: list[Person], now: float) -> str:
    if not people:
        return "Nobody publishes yet: publish() in a notebook asks, in a shell `dlojz publish`"
    active = sum(now - person.time < HERE for person in people)
    spent = [f"{words.number(sum(person.gpu_seconds for person in people) / 3600)} GPU-hours"]
    if joules := sum(person.joules for person in people):
        spent.append(f"{words.number(joules / 3.6e6)} kWh measured in their training steps")
    return f"{words.counted(len(people), 'trainee')}, {active} active in the last {HERE // 60} minutes; {', '.join(spent)}"


def _labs(people: list[Person]) -> list[list[str]]:
    rows = []
    for lab in catalogue.labs().values():
        entries = [person.labs[lab.id] for person in people if lab.id in person.labs]
        if not entries:
            continue
        solved = [entry for entry in entries if entry.state == "solved"]
        tries = [entry.tries for entry in entries if entry.tries]
        rows.append([
            lab.id, str(len(solved)), str(sum(person.at == lab.id and person.labs[lab.id] not in solved for person in people)),
            spread(tries, words.count), spread([entry.hints for entry in entries if entry.hints], words.count),
            spread([entry.predicted for entry in entries if entry.predicted], lambda value, lab=lab: _said(lab, value)),
            spread([entry.ratio for entry in entries if entry.ratio], words.ratio),
            spread([entry.hard for entry in entries if entry.hard], lambda value: HARD[round(value)])])
    return rows


def _said(lab: catalogue.Lab, value: float) -> str:
    return predictions.said(lab.prediction, value)


def _stuck(people: list[Person]) -> list[list[str]]:
    return [[lab, what, str(count), str(times)] for lab, what, count, times in stuck(people)[:SHOWN]]


def _people(people: list[Person], now: float) -> list[list[str]]:
    rows = []
    for person in people:
        entry = person.labs.get(person.at)
        state = [entry.state + (", solution seen" if entry.looked else ""), str(entry.tries or "")] if entry else ["", ""]
        rows.append([person.name, str(person.solved), person.at, *state, words.seconds(max(0.0, now - person.time))])
    return rows


class _Live:
    """Shows a room in a notebook, and looks again until the next one is shown, or the kernel ends."""

    shown: _Live | None = None

    def __init__(self, folder: Path):
        self.folder = folder

    def show(self, view: View) -> None:
        from IPython.display import HTML, display

        _Live.shown = self
        self.handle = display(HTML(view._repr_html_()), display_id=True)
        threading.Thread(target=contextvars.copy_context().run, args=(self._go_on, HTML), daemon=True, name="dlojz-room").start()

    def _go_on(self, html) -> None:
        while True:
            time.sleep(EVERY)
            if _Live.shown is not self:
                return
            try:
                self.handle.update(html(look(self.folder)._repr_html_()))
            except UsageError:  # a folder that went away comes back
                continue


def follow(folder: str | Path, file: str) -> None:
    """Write the page of the room, which reloads itself, until interrupted. Raises UsageError where it cannot be written."""
    while True:
        time.sleep(EVERY)
        try:
            view = room(folder)
        except UsageError:  # a folder that went away comes back
            continue
        save(view, file)


def save(view: View, file: str, reload: bool = True) -> Path:
    """The page of a room; ``reload``: it asks for itself again."""
    path = view.save(file)
    if reload:
        again = f'<head>\n<meta http-equiv="refresh" content="{EVERY}">'
        page.write_text(path, path.read_text(encoding="utf-8").replace("<head>", again, 1), "room.html")
    return path
