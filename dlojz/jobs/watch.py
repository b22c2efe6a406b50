"""``jobs.watch()``: how jobs get on, as a live table in a notebook and as lines of text anywhere else.

A thread looks every two seconds: one query for all jobs of a launcher, and of each running job's record only what is new. It
sets the values of widgets and does nothing else to the notebook. When all jobs have ended, a plain HTML table takes the
place of the widgets, so that a saved notebook still shows how they ended.
"""

from __future__ import annotations

import html
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..system.errors import UsageError
from ..system.shown import say, shown
from ..training import records
from ..training.summary import unit
from ..ui.notebook import plain_wanted
from ..ui.words import duration
from .job import Group, Job, load, refresh
from .states import TORCHRUN, end_of

if TYPE_CHECKING:
    from . import Jobs

EVERY = 2.0  # seconds between two looks; the queue of a cluster serves many people
TAIL = 15  # lines of a log
RECENT = 40  # steps from which the time left is told
COLOUR = re.compile(r"\x1b\[[\d;]*m")
PLAIN_EVERY = 10.0  # seconds between two lines on the progress of one job


def watch(*which: Job | Group | str, among: Jobs | None = None, every: float = EVERY, timeout: float | None = None) -> None:
    """Show how jobs get on until they have ended.

    ``which`` are jobs, groups or names; without any, all of the workspace (or those ``among``) that wait or run now or are
    submitted later, and the latest one where none does. In a notebook this shows a live table and returns at once. In a
    terminal, under nbval, without ipywidgets or with DLOJZ_PLAIN=1 in the environment it prints lines, and returns when the
    jobs have ended or after ``timeout`` seconds.
    """
    every = max(EVERY, every)
    watched = Watched(which, among)
    if plain_wanted():
        follow_in_lines(watched, every, timeout)
    else:
        from .watch_table import Table

        Table(watched, every, timeout).show()


# --- what is known of the jobs -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """What is shown of one job. ``done`` and ``total`` are steps; ``speed`` in ``unit`` per second; ``left``
    and ``spent`` in seconds."""

    run: str
    state: str
    reason: str = ""
    place: int | None = None
    done: int = 0
    total: int | None = None
    speed: float | None = None
    left: float | None = None
    spent: float | None = None
    limit: int = 0
    unit: str = "images"

    @property
    def active(self) -> bool:
        return self.state in ("PENDING", "RUNNING")

    @property
    def words(self) -> str:
        """Everything but run and state, in one line."""
        said = []
        if self.place is not None:
            said.append(f"number {self.place} in the queue")
        if self.total:
            said.append(f"{self.done:,} of {self.total:,} steps")
        elif self.done:
            said.append(f"{self.done:,} steps")
        if self.speed:
            said.append((f"{self.speed:.4g}" if self.speed < 1000 else f"{self.speed:,.0f}") + f" {self.unit}/s")
        if self.state == "RUNNING" and self.left is not None:
            said.append(f"{duration(self.left)} left")
        elif self.spent is not None and self.active:
            said.append(f"{duration(self.spent)} of {duration(self.limit)} allowed")
        elif self.spent is not None:
            said.append(f"took {duration(self.spent)}")
        if self.reason and self.state not in ("RUNNING", "COMPLETED"):
            said.append(self.reason)
        return ", ".join(said)


class Progress:
    """Steps, speed and time left of one run, told from its record as that grows."""

    def __init__(self, path: Path):
        self.reader = records.Reader(path)
        self.over = False
        self.done = 0
        self.total: int | None = None
        self.unit = "images"
        self._images = self._seconds = 0.0  # of the timed steps of this attempt
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT)

    def look(self, over: bool = False) -> None:
        """Read what is new; ``over``: the run has ended, so that a last line without its end counts too, and nothing follows."""
        if self.over:
            return
        self.over = over
        for event in self.reader.poll() + (self.reader.rest() if over else []):
            self.take(event)

    def take(self, event: dict) -> None:
        if event["event"] == "start":
            self.done = event.get("resumed_at") or 0
            self.total = event.get("total_steps")
            self.unit = unit(event)
            self._images = self._seconds = 0.0
            self._recent.clear()
        elif event["event"] == "step" and isinstance(event.get("step"), int):
            self.done = event["step"]
            if isinstance(event.get("time"), (int, float)):
                self._recent.append((event["time"], self.done))
            if not event.get("warmup") and isinstance(event.get("seconds"), (int, float)):
                self._seconds += event["seconds"]
                self._images += event.get("images") or 0

    @property
    def speed(self) -> float | None:
        """Images per second over the timed steps, as every figure of the run says it."""
        return self._images / self._seconds if self._seconds > 0 and self._images else None

    def left(self, now: float) -> float | None:
        """Seconds until the last step at the pace of the latest ones, what lies between steps counted in."""
        if not self.total or len(self._recent) < 2:
            return None
        (began, first), (latest, last) = self._recent[0], self._recent[-1]
        if last <= first:
            return None
        return max(0.0, (self.total - last) * (latest - began) / (last - first) - max(0.0, now - latest))


class Watched:
    """The jobs that are watched, with handles of their own: those of the notebook may be used by its cells meanwhile."""

    def __init__(self, which: Sequence[Job | Group | str], among: Jobs | None = None, clock: Callable[[], float] = time.time):
        from . import jobs

        among = jobs if among is None else among
        self.clock = clock
        self.jobs: list[Job] = []
        self._progress: dict[Path, Progress] = {}
        self._runs: Path | None = None  # watched for new runs
        self._known: set[str] = set()
        self._changed = 0
        if which:
            for item in which:
                self._add(_flat(among[item] if isinstance(item, str) else item))
        else:
            everything = list(among)
            self._add([job for job in everything if job.status.active] or everything[-1:])
            self._runs = among._runs()
            self._known = {job.run for job in everything}
        if not self.jobs:
            raise UsageError('there is nothing to watch yet: submit a job, such as submit("train.py", name="first")')

    @property
    def key(self) -> str:
        """What tells this choice of jobs from another."""
        return str(self._runs) if self._runs else " ".join(sorted(str(job.folder) for job in self.jobs))

    def _add(self, found: Iterable[Job]) -> None:
        for job in found:
            if job.folder not in self._progress:
                self._progress[job.folder] = Progress(job.folder / records.NAME)
                self.jobs.append(load(job.folder) or job)

    def look(self) -> list[Row]:
        """Ask the queue once, read what is new in the records, and say how all jobs stand."""
        self._add(self._submitted_since())
        refresh(self.jobs)
        now = self.clock()
        return [row_of(job, self._progress[job.folder], now) for job in self.jobs]

    def _submitted_since(self) -> list[Job]:
        if self._runs is None:
            return []
        try:
            changed = self._runs.stat().st_mtime_ns
            if changed == self._changed:
                return []
            names = sorted(set(os.listdir(self._runs)) - self._known)
        except OSError:
            return []
        self._changed = changed
        found = {name: load(self._runs / name) for name in names if not name.startswith(".")}
        self._known |= {name for name, job in found.items() if job}
        if None in found.values():
            self._changed = 0  # a folder whose job.json is still being written: look again
        return [job for job in found.values() if job]

def row_of(job: Job, progress: Progress, now: float) -> Row:
    """How a job stands, as was last heard of it, with what is new in its record."""
    status = job.status
    if status.state != "PENDING":
        progress.look(over=not status.active)
    spent = None if status.started is None else max(0.0, (status.ended or now) - status.started)
    return Row(
        job.run, status.state, status.reason, status.position, progress.done, progress.total, progress.speed,
        progress.left(now) if status.state == "RUNNING" else None, spent, job.request.seconds,
        progress.unit,
    )


def _flat(item: Job | Group) -> list[Job]:
    if not isinstance(item, (Job, Group)):
        raise UsageError(f"{item!r} is no job: watch a job, a sweep, or a name such as \"amp\"")
    return [item] if isinstance(item, Job) else list(item)


def summary(rows: Sequence[Row]) -> str:
    """``2 running, 1 pending, 3 completed``"""
    states = [row.state for row in rows]
    order = sorted(dict.fromkeys(states), key=lambda state: (state != "RUNNING", state != "PENDING"))
    return ", ".join(f"{states.count(state)} {state.lower().replace('_', ' ')}" for state in order)


def tail(file: Path, lines: int = TAIL, width: int = 200) -> str:
    """The last lines of a log, without colours and what torchrun says of a failure. Of a line that was written over (a progress
    bar) the last state counts."""
    text = TORCHRUN.sub("", end_of(file))
    if not text:
        return ""
    text = COLOUR.sub("", text)
    last = [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")][-lines:]
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in last)


# --- lines of text -------------------------------------------------------------------------------------------------------


def follow_in_lines(watched: Watched, every: float, timeout: float | None, say=say, sleep=time.sleep, clock=time.monotonic):
    """Print a line whenever a job's state changes, and one on its progress now and then, until all have ended."""
    until = None if timeout is None else clock() + timeout
    shown: dict[str, tuple[str, str, float]] = {}
    try:
        while True:
            rows, now = watched.look(), clock()
            width = max(len(row.run) for row in rows)
            for row in rows:
                state, words, when = shown.get(row.run, ("", "", now))
                moved = row.words != words and now - when >= PLAIN_EVERY and row.state == "RUNNING"
                if row.state != state or moved:
                    say(f"{time.strftime('%H:%M:%S')}  {row.run:<{width}}  {row.state:<9}  {row.words}".rstrip())
                    shown[row.run] = (row.state, row.words, now)
            if not any(row.active for row in rows):
                say(f"ended: {summary(rows)}")
                return
            if until is not None and now >= until:
                say(f"after {timeout:g} s: {summary(rows)}; the jobs keep running")
                return
            sleep(every if until is None else max(0.0, min(every, until - now)))
    except KeyboardInterrupt:
        say("stopped watching; the jobs keep running")


# --- as HTML -------------------------------------------------------------------------------------------------------------

COLOURS = {"RUNNING": "#1a7fd4", "PENDING": "#8a8a8a", "COMPLETED": "#2f9e5f", "CANCELLED": "#c98500", "TIMEOUT": "#c98500",
           "UNKNOWN": "#8a8a8a"}  # of dots and bars: as letters they can't be read on every page
FAILED = "#d93a3f"
CUT = "overflow: hidden; text-overflow: ellipsis; white-space: nowrap"
BAR = "height: 8px; border-radius: 4px"
DOT = "display: inline-block; width: 8px; height: 8px; border-radius: 50%; margin-right: 5px"
LOG = (
    "margin: 2px 0 8px; padding: 6px 8px; max-height: 22em; overflow: auto; font-size: 12px; line-height: 1.35; "
    "background: rgba(128, 128, 128, .12); border-left: 3px solid rgba(128, 128, 128, .5)"
)


def row_html(row: Row) -> str:
    """One line: name, state, bar, words. The bar and the words take the notebook's own colours."""
    colour = COLOURS.get(row.state, FAILED)
    mark = f'<span style="{DOT}; background: {colour}"></span>'
    part = min(1.0, row.done / row.total) if row.total else float(row.state == "COMPLETED")  # a run may record no step
    run, state, words = (html.escape(shown(each)) for each in (row.run, row.state, row.words))
    cut = CUT if row.active else "overflow-wrap: anywhere"  # lines keep their height while they change
    return (
        '<div style="display: flex; gap: 10px; align-items: baseline; line-height: 22px; font-size: 13px">'
        f'<span style="flex: 0 0 13em; {CUT}" title="{run}">{run}</span>'
        f'<span style="flex: 0 0 12em; white-space: nowrap; font-weight: 600; font-size: 11px">{mark}{state}</span>'
        f'<span style="flex: 0 0 60px; background: rgba(128, 128, 128, .25); {BAR}" title="{part:.0%}">'
        f'<span style="display: block; width: {part:.1%}; background: {colour}; {BAR}"></span></span>'
        f'<span style="flex: 1 1 0; width: 0; min-width: 0; {cut}" title="{words}">{words}</span>'
        "</div>"
    )


def log_html(text: str, empty: str = "(nothing yet)") -> str:
    return f'<pre style="{LOG}">{html.escape(shown(text) or empty)}</pre>'


def final_html(rows: Sequence[Row], logs: Sequence[str]) -> str:
    """The table as it stays in the notebook: no widgets, no JavaScript, each log's end behind a fold."""
    parts = [f'<div style="font-size: 13px; font-weight: 600; margin: 2px 0 6px">{html.escape(shown(summary(rows)))}</div>']
    for row, text in zip(rows, logs):
        fold = f'<details style="font-size: 12px; opacity: .9"><summary>log</summary>{log_html(text, "(empty)")}</details>'
        parts.append(f'{row_html(row)}<div style="margin-left: 9.8em">{fold}</div>')
    return f'<div style="max-width: 70em; color: var(--jp-content-font-color1, inherit)">{"".join(parts)}</div>'


def final_text(rows: Sequence[Row]) -> str:
    width = max((len(row.run) for row in rows), default=0)
    return shown("\n".join([f"{row.run:<{width}}  {row.state:<9}  {row.words}".rstrip() for row in rows] + [summary(rows)]))
