"""`curves`: loss, accuracy and learning rate of one run or several."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import UsageError
from . import page, runs, steps, words
from .page import View
from .runs import Run
from .svg import BAD, RUNS, Panel, Svg, legend, short

BY = ("step", "epoch", "time")
POINTS = 260  # of a curve: more can't be told apart


def curves(*jobs, by: str = "step") -> View:
    """Loss, accuracy and learning rate against steps, epochs or time (``by``) of one run or several.

    Lines are means of the training steps, dots are validations. Raises UsageError where there is no such run.
    """
    if by not in BY:
        raise UsageError(f"by={by!r}: curves go by {', '.join(BY)}")
    found = runs.several(*jobs)
    head, cells = table(found)
    notes = [line for run in found for line in notes_on(run)]
    title = f"curves by {by}"
    text = "\n".join([f"{title}: {runs.what(found[0]) or found[0].name}", page.table(head, cells), *notes])
    body = page.headline("Loss, accuracy, learning rate", runs.what(found[0]))
    if any(run.record.steps for run in found):
        body += _figure(found, by)
    body += page.table_html(head, cells) + "".join(page.quiet(line) for line in notes)
    return View(title, text, body)


def table(found: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """The numbers at the end of each run."""
    head = ["run", "steps", "epochs", "training", "loss", "validation loss", "accuracy", "best", "learning rate"]
    cells = []
    for run in found:
        said = run.numbers
        done = run.record.steps[-1]["step"] if run.record.steps else 0
        each = run.start.get("steps_per_epoch")
        best = max((event["accuracy"] for event in run.record.validations if "accuracy" in event), default=None)
        rates = [step["lr"] for step in run.record.steps if "lr" in step]
        cells.append([
            run.name, f"{done:,}", f"{done / each:.2f}" if each else "-",
            words.seconds(steps.laid_out(run).end) if done else "-",
            _loss(said.get("loss")), _loss(said.get("validation_loss")),
            f"{said['validation_accuracy']:.1%}" if "validation_accuracy" in said else "-",
            f"{best:.1%}" if best is not None else "-",
            "-" if not rates else f"{rates[0]:g}" if min(rates) == max(rates) else f"{min(rates):.2g} to {max(rates):.2g}"])
    return head, cells


def _loss(value: float | None) -> str:
    return "-" if value is None else words.loss(value)


def notes_on(run: Run) -> list[str]:
    if not run.record.steps:
        why = run.unreadable or ("no step is recorded" + (" yet" if run.state in ("PENDING", "RUNNING") else ""))
        return [f"{run.name}: {why} ({run.state.lower().replace('_', ' ')})"]
    lost = lost_at(run)
    out = [f"{run.name}: the loss is not a number at step {lost:,}"] if lost else []
    if run.state in ("RUNNING", "NOT_ENDED"):
        out.append(f"{run.name}: {runs.steps(run)}")
    elif run.state != "COMPLETED":
        out.append(f"{run.name}: {run.state.lower().replace('_', ' ')} after {runs.steps(run)}")
    return out


def lost_at(run: Run) -> int | None:
    """The first step whose loss is no number."""
    return next((step["step"] for step in run.record.steps if "loss" in step and not math.isfinite(step["loss"])), None)


def thinned(points: Sequence[tuple[float, float]], most: int = POINTS) -> tuple[list[tuple], list[tuple]]:
    """Means (x, y) over as many neighbours as needed, and (x, lowest, highest) of those; what is no number is left out."""
    points = [point for point in points if math.isfinite(point[1])]
    size = max(1, math.ceil(len(points) / most))
    means, bands = [], []
    for i in range(0, len(points), size):
        group = points[i : i + size]
        x = sum(px for px, _ in group) / len(group)
        values = [value for _, value in group]
        means.append((x, sum(values) / len(values)))
        bands.append((x, min(values), max(values)))
    return means, bands if size > 1 else []


def _figure(found: Sequence[Run], by: str) -> str:
    where = {id(run): _positions(run, by) for run in found}
    longest = max((max(at.values(), default=0) for at in where.values()), default=0)
    unit, second = steps._clock(longest) if by == "time" else ({"step": "steps", "epoch": "epochs"}[by], 1.0)
    x = (0, longest / second or 1)
    svg = Svg(900, 490, "loss, accuracy and learning rate")
    for name, left, top, width, height in (("loss", 56, 34, 380, 236), ("accuracy", 512, 34, 380, 236), ("lr", 56, 350, 836, 86)):
        lines = []
        for run in found:
            at = where[id(run)]
            lines.append((run, *thinned(_series(run.record.steps, at, name, second)),
                          _series(run.record.validations, at, name, second)))
        values = [y for _, means, _, dots in lines for _, y in (*means, *dots)]
        panel = Panel(svg, left, top, width, height, x, _range(name, values))
        panel.axis_y({"loss": "loss", "accuracy": "accuracy", "lr": "learning rate"}[name],
                     None if values else [], say=(lambda v: f"{v:.0%}") if name == "accuracy" else short)
        panel.axis_x("" if name != "lr" else unit)
        if not values:
            svg.text(left + width / 2, top + height / 2, "not recorded", anchor="middle", opacity=0.7)
        for number, (run, means, bands, dots) in enumerate(lines):
            colour, dash = RUNS[number % len(RUNS)], "6 4" if number >= len(RUNS) else ""
            if bands and len(found) <= 3 and name != "lr":
                upper = [panel.at(x_, min(y, panel.y1)) for x_, _, y in bands]
                lower = [panel.at(x_, max(y, panel.y0)) for x_, y, _ in reversed(bands)]
                around = "L".join(f"{px:.1f} {py:.1f}" for px, py in (*upper, *lower))
                svg.path(f"M{around}Z", fill=colour, opacity=0.16, width=0)
            svg.polyline([panel.at(x_, min(y, panel.y1)) for x_, y in means], colour, 2, dash)
            dots = [(x_, min(y, panel.y1)) for x_, y in dots]
            svg.polyline([panel.at(*point) for point in dots], colour, 1, "2 3", 0.8)
            for point in dots if len(dots) <= 60 else ():
                svg.dot(*panel.at(*point), colour, 4, f"{run.name}: validation {name} {point[1]:.4g}")
            if name == "loss" and (lost := lost_at(run)) and lost in where[id(run)]:
                px = panel.px(where[id(run)][lost] / second)
                svg.cross(px, top + 10, BAD, 5, f"{run.name}: not a number at step {lost}")
                svg.text(px - 10, top + 15, "not a number", anchor="end", fill=BAD, weight=600)
    names = [(run.name, RUNS[number % len(RUNS)]) for number, run in enumerate(found)]
    return str(svg) + legend(names) + page.quiet("lines: training steps, dots: validation")


def _positions(run: Run, by: str) -> dict[int, float]:
    """Step -> where it lies on the axis."""
    if by == "time":
        return steps.moments(steps.laid_out(run))
    each = (run.start.get("steps_per_epoch") or 1) if by == "epoch" else 1
    return {step["step"]: step["step"] / each for step in run.record.steps}


def _series(events: Sequence[dict], where: dict[int, float], name: str, second: float) -> list[tuple[float, float]]:
    return [(where[event["step"]] / second, event[name]) for event in events
            if name in event and event.get("step") in where and math.isfinite(event[name])]


def _range(name: str, values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0, 1
    high = max(values)
    if name == "accuracy":
        return 0, min(1.0, max(high * 1.1, 0.05))
    if name == "lr":
        return 0, (high or 1) * 1.15
    ordered = sorted(values)
    top = min(high, 1.25 * max(values[0], ordered[int(len(ordered) * 0.98)]))  # one bad step must not flatten all others
    low = ordered[0]
    return min(low, max(0.0, low - 0.08 * (top - low))), top + 0.05 * ((top - low) or 1)
