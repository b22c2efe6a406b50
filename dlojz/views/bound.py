"""`bound`: what fraction of a device's peak a run reached, what the roofline allows for it, here or on a GPU that is not here."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ..jobs import runs
from ..system import hardware
from ..system.errors import UsageError
from ..ui import charts, page, words
from ..ui.charts import Point
from ..ui.page import View
from ..ui.palette import BLUE, GREEN, GREY, ORANGE, PINK, SKY, SPEED, VERMILLION
from .trace import facts_of, nothing

if TYPE_CHECKING:
    from ..traces import Facts
    from ..traces.bounds import Bound, Step
    from ..traces.roofs import Roof

COLOURS = {"convolution": BLUE, "grouped convolution": SKY, "matrix product": BLUE, "attention": PINK, "norm": ORANGE,
           "pointwise": GREEN, "copy": VERMILLION, "optimizer": GREY}


def bound(*jobs, on: str | Roof | None = None, batch: int | None = None) -> View:
    """The least time of a step by the roofline, class by class of operator, beside what it took.

    ``jobs``: a job, run or trace with ``--profile``. ``on``: a GPU by name (``"h100"``) or a measured roof: what a step of eager
    PyTorch would take there, from the sizes in this trace. ``batch``: the same for another batch size, which takes two runs that
    differ in theirs. Raises UsageError where there is no such run or GPU, or runs do not fit.
    """
    from ..traces import bounds, roofs

    if not jobs or len(jobs) > 2 or (batch is not None) != (len(jobs) == 2):
        raise UsageError("bound takes one run, or two runs with different batch sizes and batch=")
    roof = roofs.of(on) if isinstance(on, str) else on
    steps, sizes = [], []
    for job in jobs:
        name, facts, why = facts_of(job)
        if facts is None:
            return nothing(f"bound of {name}", why)
        steps.append(bounds.step_of(facts))
        sizes.append(_batch(job))
    if batch is not None:
        if None in sizes:
            raise UsageError("the batch sizes of these traces are not known: give the runs, whose records have them")
        step, size = bounds.at_batch(*steps, tuple(sizes), batch), batch
    else:
        step, size = steps[0], sizes[0]
    elsewhere = roof is not None or batch is not None
    return _view(name, step, bounds.bound(step, roof or _own(facts)), _items(jobs[0], size), elsewhere)


def _batch(job) -> int | None:
    """Images (or rows of tokens) of a step of one process, by the run's record."""
    try:
        start = runs.one(job).start
    except UsageError:
        return None
    size = start.get("batch_size")
    return size if isinstance(size, int) else None


def _items(job, size: int | None) -> tuple[int, str] | None:
    """What a step of this batch size trains on, and how it is called: images, or tokens."""
    if size is None:
        return None
    start = runs.one(job).start
    unit, length = start.get("unit", "images"), start.get("length")
    return (size * length if unit == "tokens" and isinstance(length, int) else size), unit


def _own(facts: Facts) -> Roof:
    """The roof of the device that a trace is from."""
    from ..traces import roofs

    if facts.trace.device == "CPU":
        return _here()
    try:
        return roofs.of(facts.trace.device)
    except UsageError as error:
        raise UsageError(f"{error}, and give what it returns as on=") from None


@lru_cache(maxsize=1)
def _here() -> Roof:
    """This machine's CPU, measured once: it takes a second or two."""
    from ..traces import roofs

    formats = ("float",) if hardware.bf16_is_emulated() else ("float", "bfloat16")
    return roofs.measure("cpu", 0.1, formats)


def _view(name: str, step: Step, found: Bound, items: tuple[int, str] | None, elsewhere: bool) -> View:
    title = f"bound of {name}"
    seconds = None if elsewhere else step.seconds
    head = ["", "operators", "FLOPs", "FLOP per byte", "at least"] + ([] if elsewhere else ["took", "of its roof"])
    whole = found.flops or 1.0
    cells = []
    for row in found.rows:
        intensity = charts.number(round(row.intensity, 1))
        cell = [row.kind, f"{row.count:,}", words.share(row.flops / whole), intensity, words.seconds(row.least)]
        if not elsewhere:
            cell += [words.seconds(row.took), words.share(row.least / row.took)] if row.took else ["", ""]
        cells.append(cell)
    said = listed(found, seconds, items)
    text = "\n".join([page.listed(title, said), page.table(head, cells)])
    return View(title, text, lambda: _page(title, found, said, head, cells, elsewhere))


def listed(found: Bound, seconds: float | None, items: tuple[int, str] | None) -> list[tuple[str, str]]:
    """What there is to say of a bound, as name and words."""
    from ..traces.roofs import FORMATS

    def speed(of: float) -> str:
        return f"{words.seconds(of)} per step" + (f", {words.number(items[0] / of)} {items[1]}/s" if items and of else "")

    kind = FORMATS[found.dtype if found.dtype in found.roof.peaks else "float"]
    rows = [("device", f"{found.roof.name}: products {charts.si(found.roof.peak(found.dtype))}FLOP/s in {kind}, memory "
                       f"{charts.si(found.roof.memory)}B/s"),
            ("arithmetic", f"{charts.si(found.flops)}FLOP per step in convolutions and products"),
            ("roofline", f"at least {speed(found.least)}")]
    if seconds:
        roofs = f"{words.share(found.least / seconds)} of what the roofline allows"
        rows += [("took", speed(seconds)), ("reached", f"{roofs}, {words.share(found.of_peak(seconds))} of the peak of products")]
    elif found.roof.rates:
        peak = words.share(found.of_peak(found.expected))
        rows.append(("expected", f"{speed(found.expected)} of eager PyTorch, {peak} of the peak of products. With these rates, "
                                 "six networks and train_lm.py came within 25 % of their speed on an H200"))
    return rows


def _page(title: str, found: Bound, said: list, head: list, cells: list, elsewhere: bool) -> str:
    parts = [page.headline(title.capitalize(), found.roof.name), page.rows(said)]
    if not elsewhere and (points := points_of(found)):
        peaks = {found.dtype: found.roof.peak(found.dtype)}
        parts.append(charts.roofline(points, peaks=peaks, bandwidths={"memory": found.roof.memory}, title="").html())
    longest = max((row.least for row in found.rows), default=0) or 1.0
    return "".join(parts) + page.table_html(head, cells, {head[4]: [row.least / longest for row in found.rows]})


def points_of(found: Bound) -> list[Point]:
    """Each class that took some time, at its intensity and what it reached."""
    return [Point(row.kind, row.intensity, row.flops / row.took, COLOURS.get(row.kind, SPEED)) for row in found.rows
            if row.took and row.flops and row.bytes and row.took > 0.005 * (found.seconds or 1)]
