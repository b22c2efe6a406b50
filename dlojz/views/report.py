"""`report`: several views as one page, for a file that opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..jobs import runs
from ..jobs.runs import Run
from ..system.errors import UsageError
from ..ui.page import View, write
from .communications import communications
from .compare import compare
from .curves import curves
from .dashboard import dashboard, scale_of
from .memory_sweep import memory_sweep
from .timeline import timeline
from .trace import facts_of, has_trace, nothing, trace


class Report(View):
    """Views one after the other; ``views`` are the single ones."""

    def __init__(self, views: Sequence[View], title: str):
        self.views = list(views)
        super().__init__(title, "\n\n".join(map(repr, self.views)), lambda: "".join(
            f'<div style="margin-bottom: 28px">{view._repr_html_()}</div>' for view in self.views))

    def save(self, file: str | Path) -> Path:
        return write(file, self.views, self.title)


def report(*what, html: str | Path | None = None, against=None) -> Report:
    """Views as one page. Runs get what there is to show of them, views that are given stay as they are; ``html``: write it there.

    Of one run: dashboard, timeline, curves, and its trace with its communications where it has one. Of several: their comparison,
    the memory sweep where they differ in the batch size, curves, and the dashboard and the trace of each. Raises UsageError.
    """
    items = list(_flat(what))
    given = [item for item in items if isinstance(item, View)]
    asked = [item for item in items if not isinstance(item, View)]
    found = runs.several(*asked) if asked else []
    views = [*given, *_of(found, against)]
    if not views:
        raise UsageError("there is nothing to report: give runs or views")
    title = f"Report on {', '.join(run.name for run in found[:4])}{' and more' * (len(found) > 4)}" if found else given[0].title
    page = Report(views, title)
    if html is not None:
        page.save(html)
    return page


def _flat(what):
    for item in what:
        if isinstance(item, (list, tuple)):
            yield from _flat(item)
        else:
            yield item


def _of(found: Sequence[Run], against) -> list[View]:
    if not found:
        return []
    with_steps = [run for run in found if run.record.steps]
    if len(found) == 1:
        shown = [dashboard(found[0], against), *((timeline(found[0]), curves(found[0])) if with_steps else ())]
        return shown + traced(found[0])
    views: list[View] = [compare(found, against=against)]
    if is_sweep(found):
        views.append(memory_sweep(found))
    if with_steps:
        views.append(curves(with_steps))
    scale = scale_of(found, against)  # else the bar of the slowest may look the longest
    return views + [view for run in found for view in (dashboard(run, against, scale), *traced(run))]


def traced(run: Run) -> list[View]:
    """The trace of a run that has one, and what its processes sent each other."""
    if run.folder is None or not has_trace(run.folder):
        return []
    try:
        _, facts, _ = facts_of(run)
        return [trace(run), *([communications(run)] if facts is not None and facts.collectives else [])]
    except Exception as error:  # files of a profiler may hold anything: one that nobody thought of must not cost the other runs
        return [nothing(f"trace of {run.name}", [f"it can't be shown ({type(error).__name__}: {error}): profile it again"])]


def is_sweep(found: Sequence[Run]) -> bool:
    """Whether these runs differ in nothing but their batch size, and what follows from it."""
    known = [run for run in found if run.start]
    follows = ("batch_size", "lr", "run_dir", "test_steps")
    same = {repr(sorted((name, repr(value)) for name, value in run.args.items() if name not in follows)) for run in known}
    return len(same) == 1 and len({run.start.get("batch_size") for run in known}) > 1
