"""`curves`: loss, accuracy and learning rate of one run or several."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..jobs import runs
from ..jobs.runs import Run
from ..system.errors import UsageError
from ..ui import page, words
from ..ui.page import View
from ..ui.svg import BAD, RUNS, Panel, Svg, legend, short, ticks
from . import steps

BY = ("step", "epoch", "time")
DASH = 10  # pixels of a dash where lines lie on each other
LABEL = 70  # pixels that a loss takes at most
FAR = 2.5  # times the usual loss of a training step: a validation above that is an arrow at the edge
POINTS = 260  # of a curve: more can't be told apart


def curves(*jobs, by: str = "step") -> View:
    """Loss, accuracy and learning rate against steps, epochs or time (``by``) of one run or several.

    Lines are means of the training steps, dots are validations. Raises UsageError where there is no such run.
    """
    if by not in BY:
        raise UsageError(f"by={by!r}: curves go by {', '.join(BY)}")
    found = runs.several(*jobs)
    head, cells = table(found)
    notes = [line for run in found for line in notes_on(run)] + same(found)
    title, what = f"curves by {by}", runs.what(*found)
    text = "\n".join([f"{title}: {what or ', '.join(run.name for run in found)}", page.table(head, cells), *notes])
    body = page.headline("Loss, accuracy, learning rate", what)
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


def same(found: Sequence[Run]) -> list[str]:
    """Runs with the same losses, step for step: their curves lie on each other."""
    losses = [[(step["step"], step["loss"]) for step in run.record.steps if "loss" in step and math.isfinite(step["loss"])]
              for run in found]
    out = []
    for number, run in enumerate(found):
        if losses[number] and (first := losses.index(losses[number])) != number:
            out.append(f"{run.name}: each loss is that of {found[first].name}, so their curves lie on each other")
    return out


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
    above = False
    svg = Svg(900, 490, "loss, accuracy and learning rate")
    for name, left, top, width, height in (("loss", 56, 34, 380, 236), ("accuracy", 512, 34, 380, 236), ("lr", 56, 350, 836, 86)):
        lines = []
        for run in found:
            at = where[id(run)]
            lines.append((run, *thinned(_series(run.record.steps, at, name, second)),
                          _series(run.record.validations, at, name, second)))
        trained = [y for _, means, _, _ in lines for _, y in means]
        validated = [y for _, _, _, dots in lines for _, y in dots]
        values = trained or validated
        panel = Panel(svg, left, top, width, height, x, _range(name, trained, validated))
        at_y = [] if not values else ticks(panel.y0, panel.y1, 4) if name == "lr" else None
        panel.axis_y({"loss": "loss", "accuracy": "accuracy", "lr": "learning rate"}[name], at_y,
                     say=(lambda v: f"{v:.0%}") if name == "accuracy" else short)
        whole = [tick for tick in ticks(*x, 9) if tick == int(tick)]
        panel.axis_x("" if name != "lr" else unit, whole if by == "step" else None)
        if not values:
            svg.text(left + width / 2, top + height / 2, "not recorded", anchor="middle", opacity=0.7)
        dashes = overlaid([[panel.at(x_, min(y, panel.y1)) for x_, y in means] for _, means, _, _ in lines])
        labels: list[float] = []
        for number, (run, means, bands, dots) in enumerate(lines):
            colour = RUNS[number % len(RUNS)]
            dash = dashes[number] or ("6 4" if number >= len(RUNS) else "")
            if bands and len(found) <= 3 and name != "lr":
                upper = [panel.at(x_, min(y, panel.y1)) for x_, _, y in bands]
                lower = [panel.at(x_, max(y, panel.y0)) for x_, y, _ in reversed(bands)]
                around = "L".join(f"{px:.1f} {py:.1f}" for px, py in (*upper, *lower))
                svg.path(f"M{around}Z", fill=colour, opacity=0.16, width=0)
            svg.polyline([panel.at(x_, min(y, panel.y1)) for x_, y in means], colour, 2, dash)
            svg.polyline([panel.at(x_, min(y, panel.y1)) for x_, y in dots], colour, 1, "2 3", 0.8)
            tips = [(point, f"{run.name}: validation {name} {_exactly(name, point[1])}") for point in dots]
            later = [panel.at(*point) for _, _, _, others in lines[number + 1 :] for point in others]
            for point, tip in tips if len(dots) <= 60 else ():
                if point[1] <= panel.y1:  # with a rim, where others will lie on it
                    hidden = sum(_near([panel.at(*point)], [other]) for other in later)
                    svg.dot(*panel.at(*point), colour, 4 + min(2.5 * hidden, 10), tip)
            high = [(point, tip) for point, tip in tips if point[1] > panel.y1]
            high += [(point, f"{run.name}: training {name} {_exactly(name, point[1])}") for point in peaks(means, panel.y1)]
            above |= bool(high)
            for point, tip in high:
                _above(panel, point, colour, tip, _exactly(name, point[1]), labels)
            if name == "loss" and (lost := lost_at(run)) and lost in where[id(run)]:
                px = panel.px(where[id(run)][lost] / second)
                svg.cross(px, top + 10, BAD, 5, f"{run.name}: not a number at step {lost}")
                room = px - left > 100  # to its left, where the curve has been
                svg.text(px - 10 if room else px + 10, top + 15, "not a number", anchor="end" if room else "start", weight=600)
    names = [(run.name, RUNS[number % len(RUNS)]) for number, run in enumerate(found)]
    return str(svg) + legend(names) + page.quiet("lines: training steps, dots: validation"
                                               + (", arrows: above the axis, with the value" if above else ""))


def overlaid(lines: Sequence[Sequence[tuple[float, float]]]) -> list[str]:
    """The dashes of lines (in pixels) that can't be told apart: each leaves gaps through which those below it are seen."""
    dashes = [""] * len(lines)
    groups: list[list[int]] = []
    for number, line in enumerate(lines):
        like = (group for group in groups if line and _near(line, lines[group[0]]))
        if group := next(like, None):
            group.append(number)
        else:
            groups.append([number])
    for group in groups:
        for place, number in enumerate(group[1:], 1):
            dashes[number] = f"{DASH * (len(group) - place)} {DASH * place}"
    return dashes


def _near(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """Whether lines lie on each other as far as both go."""
    return bool(one and other) and all(abs(x - x2) < 1 and abs(y - y2) < 1 for (x, y), (x2, y2) in zip(one, other))


def peaks(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """The highest point of each stretch of a line that is above the top of its axis."""
    found: list[tuple[float, float]] = []
    inside = True
    for point in points:
        if point[1] > top and (inside or point[1] > found[-1][1]):
            found[len(found) if inside else -1 :] = [point]
        inside = point[1] <= top
    return found


def _above(panel: Panel, point: tuple[float, float], colour: str, tip: str, value: str, labels: list[float]) -> None:
    """An arrow at the top of the axis for what lies above it, with the value where there is room for it."""
    px, py = panel.at(point[0], panel.y1)
    panel.svg.path(f"M{px - 5:.1f} {py:.1f}L{px:.1f} {py - 8:.1f}L{px + 5:.1f} {py:.1f}Z", fill=colour, width=0, tip=tip)
    right = px + 10 + len(value) * 6.6 < panel.left + panel.width  # else there is no room to its right
    x = px + 8 if right else px - 8 - len(value) * 6.6
    if all(abs(x - other) > LABEL for other in labels):
        labels.append(x)
        panel.svg.text(x, py + 1, value, weight=600)


def _exactly(name: str, value: float) -> str:
    """As the table has it."""
    return words.loss(value) if name == "loss" else f"{value:.1%}" if name == "accuracy" else f"{value:.4g}"


def _positions(run: Run, by: str) -> dict[int, float]:
    """Step -> where it lies on the axis."""
    if by == "time":
        return steps.moments(steps.laid_out(run))
    each = (run.start.get("steps_per_epoch") or 1) if by == "epoch" else 1
    return {step["step"]: step["step"] / each for step in run.record.steps}


def _series(events: Sequence[dict], where: dict[int, float], name: str, second: float) -> list[tuple[float, float]]:
    return [(where[event["step"]] / second, event[name]) for event in events
            if name in event and event.get("step") in where and math.isfinite(event[name])]


def _range(name: str, trained: Sequence[float], validated: Sequence[float]) -> tuple[float, float]:
    """The axis of the training steps' lines and the validations' dots."""
    values = [*trained, *validated]
    if not values:
        return 0, 1
    high, low = max(values), min(values)
    if name == "accuracy":
        return 0, min(1.0, max(high * 1.1, 0.05))
    if name == "lr":
        return 0, (high or 1) * 1.15
    # One bad step must not flatten all others, nor a validation far above what the training has come to.
    ordered = sorted(trained or validated)
    usual = 1.25 * max((trained or validated)[0], ordered[int((len(ordered) - 1) * 0.98)])
    top = max([min(max(ordered), usual), *(value for value in validated if value <= FAR * usual)])
    span = (top - low) or 0.1 * abs(top) or 1
    return min(low, max(0.0, low - 0.08 * span)), top + 0.05 * span
