"""The line that a notebook shows while a cell waits for jobs, and the sleep that keeps the page's buttons alive meanwhile."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Sequence

from ..system.shown import say
from ..training import records
from ..ui import page
from ..ui.notebook import plain_wanted
from ..ui.waiting import Sleeper
from .job import Job
from .states import UNKNOWN_HERE
from .watch import Progress, Row, final_text, row_html, row_of, summary

TROUBLE = ("last known state: ", "the queue's supervisor", UNKNOWN_HERE)  # how reasons begin that are no state of the job itself
MOST = 5  # jobs: of more than that only how many ended how
AGAIN = "(menu Run, Run Selected Cell and All Below)"
REOPENED = ("This cell is still waiting, although this page shows no [*] beside it. What it and the cells queued behind it "
            f"show next is missing from this page: when the job has ended, run them again {AGAIN}.")
OPENED = f"A page that was opened while this cell waited misses what it and those behind it showed next: run them again {AGAIN}."


class StoppedWaiting(KeyboardInterrupt):
    """What an interrupt of a wait becomes under its line: the same in one line, because where it came matters to nobody."""

    def _render_traceback_(self) -> list[str]:  # IPython's word
        return [f"KeyboardInterrupt: {self}"]


class WaitLine:
    """As a context: `sleep` in it. Where there is no page to show it on, only what keeps the queue from going on is said, once.

    The line is the value of a widget: the kernel keeps it, so a page that comes back shows what is true. When the wait is over,
    plain HTML takes its place, which a saved notebook keeps.
    """

    def __init__(self, jobs: Sequence[Job]):
        self.jobs = jobs
        self.line = None
        self._sleep = None
        self._said: set[str] = set()

    def __enter__(self) -> WaitLine:
        return self

    def sleep(self, seconds: float) -> None:
        if self._sleep is None:
            self._sleep = time.sleep if self._plain() else self._begin()
        if self.line is not None:
            with contextlib.suppress(OSError):  # a disk that went away comes back
                opened = getattr(self._sleep, "opened", False)
                self.line.value = going_html(self.rows()) + page.quiet(REOPENED) * opened
        else:
            self._say_trouble()
        self._sleep(seconds)

    def _say_trouble(self) -> None:
        for job in self.jobs:
            reason = job.status.reason
            if job.status.active and reason.startswith(TROUBLE) and (kind := reason[:40]) not in self._said:
                self._said.add(kind)  # how long it has lasted comes after that
                say(f"dlojz: {job.run} is {job.status.state}: {reason}", file=sys.stderr)

    def _plain(self) -> bool:
        return threading.current_thread() is not threading.main_thread() or plain_wanted()

    def _begin(self) -> Sleeper:
        import ipywidgets
        from IPython.display import display

        self._progress = [Progress(job.folder / records.NAME) for job in self.jobs]
        self.line = ipywidgets.HTML(layout={"max_width": "70em"})
        self._handle = display(self.line, display_id=True)
        return Sleeper()

    def rows(self) -> list[Row]:
        now = time.time()
        return [row_of(job, progress, now) for job, progress in zip(self.jobs, self._progress)]

    def __exit__(self, kind, error, trace) -> None:
        if self.line is None:
            return
        with contextlib.suppress(OSError):
            rows = self.rows()
            self.line.value = over_html(rows) + page.quiet(OPENED) * self._sleep.opened
            self._handle.update({"text/html": self.line.value, "text/plain": final_text(rows)}, raw=True)
        if kind is KeyboardInterrupt:
            raise StoppedWaiting(f"stopped waiting, {goes_on(self.jobs)}") from None


def going_html(rows: Sequence[Row]) -> str:
    """One job in full, the one that gets on, and of several how many stand how."""
    first = min((row for row in rows if row.active), key=lambda row: row.state != "RUNNING", default=rows[-1])
    several = f"{summary(rows)}. " if len(rows) > 1 else ""
    return row_html(first) + page.quiet(f"{several}Interrupting the cell is harmless: {goes_on(rows)}.")


def over_html(rows: Sequence[Row]) -> str:
    """How the jobs have ended. Of those that go on, as the wait was stopped, only that they do: this line stays as it is."""
    ended, going = [row for row in rows if not row.active], [row for row in rows if row.active]
    shown = [row_html(row) for row in ended] if len(rows) <= MOST else [page.quiet(summary(ended))] if ended else []
    if going:
        names = ", ".join(row.run for row in going[:MOST]) + " and more" * (len(going) > MOST)
        shown.append(page.quiet(f"Stopped waiting for {names}: {goes_on(going)}."))
    return "".join(shown)


def goes_on(rows: Sequence) -> str:
    return "the job goes on" if len(rows) == 1 else "the jobs go on"
