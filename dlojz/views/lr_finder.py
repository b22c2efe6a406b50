"""`lr_finder`: the loss against the learning rate, as `train.py --find-lr` has swept it on a copy of model and optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..jobs import runs
from ..jobs.runs import Run
from ..ui import charts, page, words
from ..ui.charts import Line, Mark
from ..ui.page import View
from ..ui.palette import BAD, GOOD, RUNS

KEPT = 0.8  # of the running mean: what each loss leaves of those before it
DIVERGED = 1.5  # times the smallest smoothed loss
HOW = "Submit train.py with --find-lr; once the fence optimizers.finder is written, the run sweeps before it trains."


def lr_finder(*jobs) -> View:
    """The sweep of one run with ``--find-lr``, or of several: where the loss falls fastest, is lowest, and diverges.

    The run's own training begins after its sweep with the weights, rates and momenta from before it. Raises UsageError where
    there is no such run.
    """
    found = runs.several(*jobs)
    head = ["run", "rates", "falls fastest at", "lowest at", "diverges at", "the run's own"]
    cells, notes, lines, marks = [], [], [], []
    for number, run in enumerate(found):
        rates, losses = sweep(run)
        if not rates:
            cells.append([run.name, "-", "-", "-", "-", _rate(run)])
            notes.append(f"{run.name} has swept no learning rates. {HOW}")
            continue
        smooth = smoothed(losses)
        steepest, lowest, diverged = read(rates, smooth)
        cells.append([run.name, f"{rates[0]:.2g} to {rates[-1]:.2g}", *(f"{rate:.2g}" if rate else "-" for rate in
                                                                       (steepest, lowest, diverged)), _rate(run)])
        line = list(zip(rates, smooth))
        lines.append(Line(run.name, line, RUNS[number % len(RUNS)], tip=f"{run.name}: loss"))
        at = dict(line)
        marks += [Mark(rate, at[rate], said, colour, "o", "left", f"{run.name}: {said} {rate:.2g}") for rate, said, colour in
                  ((steepest, "falls fastest", GOOD), (diverged, "diverges", BAD)) if rate and len(found) == 1]
        if diverged:
            notes.append(f"{run.name}: stay well below {diverged:.2g}. A rate to begin with is {lowest / 10:.2g}, a tenth of the "
                         "one with the lowest loss.")
        else:
            notes.append(f"{run.name}: the loss does not diverge up to {rates[-1]:.2g}: sweep further.")
    title, what = "learning rates", runs.what(*found)
    text = "\n".join([f"{title}: {what}", page.table(head, cells), *notes])

    def body() -> str:
        values = [y for line in lines for _, y in line.points if math.isfinite(y)]
        figure = "" if not values else charts.lines(
            lines, x="learning rate", y="loss, smoothed", log="x", marks=marks, say=words.loss, say_x=lambda rate: f"{rate:.2g}",
            y_range=(0.95 * min(values), min(max(values), max(1.2 * values[0], *(mark.y for mark in marks), 0)))).html()
        return page.headline("Loss against the learning rate", what) + figure + page.table_html(head, cells) + \
            "".join(map(page.quiet, notes))

    return View(title, text, body)


def sweep(run: Run) -> tuple[list[float], list[float]]:
    """Rates and losses of a run's latest sweep, both empty where it has none."""
    event = next((event for event in reversed(run.record.events) if event.get("event") == "sweep"), {})
    return event.get("rates", []), event.get("losses", [])


def smoothed(losses: Sequence[float]) -> list[float]:
    """A running mean, corrected for its start at 0: one batch says little. What is no number stays one."""
    mean, out = 0.0, []
    for number, loss in enumerate(losses, 1):
        mean = KEPT * mean + (1 - KEPT) * loss
        out.append(mean / (1 - KEPT**number))
    return out


def read(rates: Sequence[float], smooth: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """The rate at which the loss falls fastest per factor, where it is lowest, and the first above `DIVERGED` times that."""
    known = [at for at, loss in enumerate(smooth) if math.isfinite(loss)]
    if len(known) < 3:
        return None, None, None
    lowest = min(known, key=smooth.__getitem__)
    slopes = {at: (smooth[at + 1] - smooth[at - 1]) / math.log(rates[at + 1] / rates[at - 1])
              for at in known[1:-1] if at < lowest and math.isfinite(smooth[at + 1])}
    steepest = min(slopes, key=slopes.__getitem__, default=None)
    diverged = next((at for at in range(lowest, len(smooth)) if not smooth[at] <= DIVERGED * smooth[lowest]), None)
    return (*(None if at is None else rates[at] for at in (steepest, lowest, diverged)),)


def _rate(run: Run) -> str:
    rate = run.args.get("lr")
    return f"{rate:.2g}" if isinstance(rate, (int, float)) else "-"
