"""A view of runs that have not ended: it shows at once what there is, and fills itself when they have."""

from __future__ import annotations

import contextvars
import functools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..jobs import runs
from ..jobs.job import Job, wait
from ..jobs.watch import EVERY, Row, Watched, row_html
from ..ui import page
from ..ui.notebook import plain_wanted
from ..ui.page import View
from ..ui.palette import BAD

FILLS = "Below is what there is so far. It fills itself until the end; you can go on meanwhile."
PAUSE = 10.0  # seconds between two drawings of what there is so far, at least
SPARING = 50  # times what a drawing takes: the job may need the processor


def following(make: Callable[..., View]) -> Callable[..., View]:
    """A verb whose view follows its runs, where some of them have not ended."""

    @functools.wraps(make)
    def verb(*what, **options) -> View:
        view = make(*what, **options)
        if going := [job for job in runs.jobs_of([*what, options.get("against")]) if job.status.active]:
            view.following = Following(going, lambda: make(*what, **options))
        return view

    return verb


@dataclass(frozen=True)
class Following:
    """The jobs that a view waits for, and how to make it anew."""

    going: Sequence[Job]
    again: Callable[[], View]

    def then(self, change: Callable[[View], View]) -> Following:
        """The same for a view that is made of this one."""
        return Following(self.going, lambda: change(self.again()))

    def show(self, view: View) -> None:
        """Display the view now and fill it later; where no page looks, such as in CI, wait for the end and display it then."""
        if not plain_wanted():
            return Filling(view, self).show()
        from IPython.display import display

        wait(self.going)
        display(self.again())


class Filling:
    """The view as the value of a widget: the kernel keeps it, so a page that comes back shows what is true. At the end the plain
    view takes its place on the page that is open, so that a saved notebook keeps it."""

    def __init__(self, view: View, follow: Following):
        import ipywidgets

        self.follow = follow
        self.watched = Watched(follow.going)
        self.line = ipywidgets.HTML()
        self.body = ipywidgets.HTML(view._repr_html_())
        self.box = ipywidgets.VBox([self.line, self.body], layout={"overflow": "visible"})
        # The thread belongs to this cell, also when others run.
        self.thread = threading.Thread(target=contextvars.copy_context().run, args=(self._go_on,), daemon=True, name="dlojz-view")

    def show(self) -> None:
        from IPython.display import display

        self._say(self.watched.look())
        self.handle = display(self.box, display_id=True)
        self.thread.start()

    def _say(self, rows: Sequence[Row]) -> None:
        self.line.value = "".join(row_html(row) for row in rows if row.active) + page.quiet(FILLS)

    def _go_on(self) -> None:
        done, due, going = 0, 0.0, True
        while going:
            time.sleep(EVERY)
            try:
                rows = self.watched.look()
            except OSError:  # a disk that went away comes back
                continue
            self._say(rows)
            going = any(row.active for row in rows)
            steps, began = sum(row.done for row in rows), time.monotonic()
            if going and (steps == done or began < due):
                continue
            view = self._made(going)
            done, due = steps, time.monotonic() + max(PAUSE, SPARING * (time.monotonic() - began))
        if view is not None:
            self.line.value = ""
            self.handle.update(view)

    def _made(self, going: bool) -> View | None:
        try:
            view = self.follow.again()
            self.body.value = view._repr_html_()
            return view
        except Exception as error:  # nobody would see it in a thread
            if not going:
                why = f"This view can't be shown now ({type(error).__name__}: {error}). Run the cell again."
                self.line.value = page.note(why, BAD)
            return None
