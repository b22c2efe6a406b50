"""The live table of `dlojz.jobs.watch`, made of ipywidgets: imported only where somebody can see it."""

from __future__ import annotations

import html
import threading
import time

import ipywidgets
from IPython.display import display

from ..system.errors import UsageError
from ..system.shown import shown
from .job import Job, cancel
from .watch import Row, Watched, final_html, final_text, log_html, row_html, summary, tail

SURE_FOR = 5.0  # seconds in which a second press on cancel counts

_tables: dict[str, Table] = {}
_tables_lock = threading.Lock()


class Line:
    """The widgets of one job: what row_html says, a button for the log's end, one to cancel."""

    def __init__(self, job: Job, lock: threading.RLock):
        self.job = job
        self.lock = lock
        self.asked_at = float("-inf")  # when cancel was pressed first
        self.text = ipywidgets.HTML(layout={"flex": "1 1 auto", "min_width": "0"})
        small = {"width": "74px", "margin": "1px 2px", "padding": "0"}
        self.log = ipywidgets.ToggleButton(description="log", tooltip="the last lines of its log", layout=small)
        self.stop = ipywidgets.Button(description="cancel", tooltip="stop this job", layout=small)
        self.tail = ipywidgets.HTML(layout={"display": "none"})
        self.log.observe(self._log_pressed, "value")
        self.stop.on_click(self._cancel_pressed)
        top = ipywidgets.HBox([self.text, self.log, self.stop], layout={"align_items": "center"})
        self.box = ipywidgets.VBox([top, self.tail], layout={"overflow": "hidden"})

    def show(self, row: Row) -> None:
        """Set what has changed: a value that stays the same costs no message."""
        with self.lock:
            self.text.value = row_html(row)
            if self.log.value:
                self.tail.value = log_html(log_end(self.job))
            if not row.active:
                self.stop.disabled = True
                self._label("cancel", "")
            elif self.asked_at != float("-inf") and time.monotonic() - self.asked_at > SURE_FOR:
                self.asked_at = float("-inf")
                self._label("cancel", "")

    def _label(self, words: str, style: str) -> None:
        self.stop.description, self.stop.button_style = words, style

    def _log_pressed(self, _change) -> None:
        with self.lock:
            self.tail.layout.display = "block" if self.log.value else "none"
            if self.log.value:
                self.tail.value = log_html(log_end(self.job))

    def _cancel_pressed(self, _button) -> None:
        with self.lock:
            if time.monotonic() - self.asked_at > SURE_FOR:
                self.asked_at = time.monotonic()
                self._label("really?", "warning")
                return
            self.stop.disabled = True
            self._label("stopping…", "")
        threading.Thread(target=self._cancel, daemon=True).start()  # a cluster may take seconds to answer

    def _cancel(self) -> None:
        try:
            cancel([self.job])
        except UsageError as error:
            with self.lock:
                self.stop.disabled, self.stop.tooltip = False, str(error)
                self.asked_at = float("-inf")
                self._label("cancel", "danger")


class Table:
    """Looks every ``every`` seconds, in a thread, until all jobs have ended, or ``timeout`` seconds have passed."""

    def __init__(self, watched: Watched, every: float, timeout: float | None = None):
        self.watched = watched
        self.every = every
        self.timeout = timeout
        self.lock = threading.RLock()
        self.stopped = threading.Event()
        self.lines: dict[str, Line] = {}
        self.head = ipywidgets.HTML()
        self.body = ipywidgets.VBox([])
        self.box = ipywidgets.VBox([self.head, self.body], layout={"max_width": "70em"})
        self.handles: list = []  # one for each place where it is shown
        self.thread = threading.Thread(target=self._go_on, daemon=True, name="dlojz-watch")

    def show(self) -> None:
        """Display the table and start looking. Where a table of the same jobs is looking already, because its cell is run again
        or another cell has it, show that one here too: it is true wherever it is shown."""
        with _tables_lock:
            going = _tables.get(self.watched.key)
            if going is not None and going.timeout is None and self.timeout is None:
                going.handles.append(display(going.box, display_id=True))
                return
        rows = self.look()
        if not any(row.active for row in rows):
            display(self._final(rows), raw=True)
            return
        with _tables_lock:
            self.handles.append(display(self.box, display_id=True))
            _tables[self.watched.key] = self
        self.thread.start()

    def look(self) -> list[Row]:
        rows = self.watched.look()
        with self.lock:
            for job, row in zip(self.watched.jobs, rows):
                if row.run not in self.lines:
                    self.lines[row.run] = Line(job, self.lock)
                    self.body.children = [line.box for line in self.lines.values()]
                self.lines[row.run].show(row)
            self._say(summary(rows))
        return rows

    def _say(self, words: str) -> None:
        self.head.value = f'<div style="font-size: 13px; font-weight: 600">{html.escape(shown(words))}</div>'

    def _go_on(self) -> None:
        until = None if self.timeout is None else time.monotonic() + self.timeout
        while not self.stopped.wait(self.every):
            try:
                rows = self.look()
            except Exception as error:  # a disk that went away comes back; the table must still be there then
                self._say(f"could not read the state ({type(error).__name__}), trying again")
                continue
            if not any(row.active for row in rows):
                self._end(rows)
                return
            if until is not None and time.monotonic() > until:
                self._say(f"{summary(rows)}; stopped watching, the jobs keep running")
                break
        self._forget()

    def _forget(self) -> list:
        """Be no longer the table of these jobs. Returns where it is shown."""
        with _tables_lock:
            if _tables.get(self.watched.key) is self:
                del _tables[self.watched.key]
            return self.handles

    def _end(self, rows: list[Row]) -> None:
        """Plain HTML for the page that is open; one that comes back later has the widgets, which say the same."""
        final = self._final(rows)
        for handle in self._forget():
            handle.update(final, raw=True)

    def _final(self, rows: list[Row]) -> dict[str, str]:
        logs = [log_end(job) for job in self.watched.jobs]
        return {"text/html": final_html(rows, logs), "text/plain": final_text(rows)}


def log_end(job: Job) -> str:
    """The end of the output; of the errors too where the job has failed."""
    out = tail(job.folder / "out.log")
    if job.status.state in ("PENDING", "RUNNING", "COMPLETED"):
        return out
    return "\n".join(part for part in (out, tail(job.folder / "err.log")) if part)
