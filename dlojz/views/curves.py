"""`curves`: loss, accuracy and learning rate of one run or several."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ..jobs import runs
from ..jobs.runs import Run
from ..system.errors import UsageError
from ..ui import charts, page, words
from ..ui.charts import Line, Mark
from ..ui.page import View
from ..ui.palette import BAD, RUNS
from .timeline import laid_out, moments

BY = ("step", "epoch", "time")
SHARED = 40  # points of the line of a group
FAR = 2.5  # times the usual loss of a training step: a validation above that is an arrow at the edge
MARKED = 60  # validations that are drawn as dots


def curves(*jobs, by: str = "step") -> View:
    """Loss, accuracy and learning rate against steps, epochs or time (``by``) of one run or several.

    Lines are means of the training steps, dots are validations. A dict of groups, ``{"SGD": [job, …], "LAMB": […]}``, makes one
    line of each group's runs, such as three seeds: their mean, in a band from the lowest to the highest. Raises UsageError where
    there is no such run.
    """
    if by not in BY:
        raise UsageError(f"by={by!r}: curves go by {', '.join(BY)}")
    found = runs.several(*jobs)
    groups = [(str(name), runs.several(of)) for item in jobs if isinstance(item, dict) for name, of in item.items()]
    if groups:
        return _of_groups([*groups, *((run.name, [run]) for item in jobs if not isinstance(item, dict)
                                      for run in runs.several(item))], by)
    head, cells = table(found)
    notes = [line for run in found for line in notes_on(run)] + same(found)
    title, what = f"curves by {by}", runs.what(*found)
    text = "\n".join([f"{title}: {what or ', '.join(run.name for run in found)}", page.table(head, cells), *notes])

    def body() -> str:
        figure = _figure(found, by) if any(run.record.steps for run in found) else ""
        below = page.table_html(head, cells) + "".join(page.quiet(line) for line in notes)
        return page.headline("Loss, accuracy, learning rate", what) + figure + below

    return View(title, text, body)


def _of_groups(groups: Sequence[tuple[str, list[Run]]], by: str) -> View:
    found = [run for _, of in groups for run in of]
    head = ["group", "runs", "steps", "loss", "validation loss", "accuracy", "learning rate"]
    cells = []
    for name, of in groups:
        rows = [table([run])[1][0] for run in of]
        numbers = [run.numbers for run in of]
        cells.append([name, str(len(of)), _either(row[1] for row in rows),
                      *(_spread([said.get(key) for said in numbers], say) for key, say in
                        (("loss", words.loss), ("validation_loss", words.loss), ("validation_accuracy", "{:.1%}".format))),
                      _either(row[-1] for row in rows)])
    notes = [line for run in found for line in notes_on(run)] + same(found)
    title, what = f"curves by {by}", runs.what(*found)
    text = "\n".join([f"{title}: {what or ', '.join(name for name, _ in groups)}", page.table(head, cells), *notes])

    def body() -> str:
        figure = _bands(groups, by) if any(run.record.steps for run in found) else ""
        below = page.table_html(head, cells) + "".join(page.quiet(line) for line in notes)
        return page.headline("Loss, accuracy, learning rate", what) + figure + below

    return View(title, text, body)


def _spread(values: Sequence[float | None], say) -> str:
    """``1.25 (1.20 to 1.31)``: the mean, the lowest and the highest."""
    known = [value for value in values if value is not None]
    if not known or not all(map(math.isfinite, known)):
        return "-" if not known else say(next(value for value in known if not math.isfinite(value)))
    mean = say(sum(known) / len(known))
    return f"{mean} ({say(min(known))} to {say(max(known))})" if len(known) > 1 else mean


def _either(said) -> str:
    return " or ".join(dict.fromkeys(said))


def _bands(groups: Sequence[tuple[str, list[Run]]], by: str) -> str:
    where = {id(run): _positions(run, by) for _, of in groups for run in of}
    longest = max((max(at.values(), default=0) for at in where.values()), default=0)
    unit, second = charts.clock(longest) if by == "time" else ({"step": "steps", "epoch": "epochs"}[by], 1.0)
    panels = []
    for name, title in (("loss", "training loss"), ("accuracy", "training accuracy")):
        lines = []
        for number, (group, of) in enumerate(groups):
            series = [charts.thinned(_series(run.record.steps, where[id(run)], name, second), SHARED)[0] for run in of]
            lines.append(Line.of_seeds(group, _aligned(series), colour=RUNS[number % len(RUNS)],
                                       dash=(6, 4) if number >= len(RUNS) else ()))
        values = [y for line in lines for _, low, high in line.band for y in (low, high)]
        panels.append(charts.lines(lines, x=unit, y=title, x_range=(0, longest / second or 1), y_range=_range(name, values, []),
                                   whole=by == "step", say=lambda value, name=name: _exactly(name, value),
                                   say_y=(lambda value: f"{value:.0%}") if name == "accuracy" else charts.short))
    said = "lines: the mean of a group's runs; bands: from the lowest to the highest"
    return charts.grid(*panels, columns=2).html() + page.quiet(said)


def _aligned(series: Sequence[Sequence[tuple[float, float]]]) -> list[list[tuple[float, float]]]:
    """The same runs at the same places: those of the first, as far as all go, between two points in proportion."""
    series = [each for each in series if each]
    if not series:
        return []
    low, high = max(each[0][0] for each in series), min(each[-1][0] for each in series)
    places = [x for x, _ in series[0] if low <= x <= high]
    return [[(x, _between(each, x)) for x in places] for each in series]


def _between(points: Sequence[tuple[float, float]], x: float) -> float:
    for (left, one), (right, two) in itertools.pairwise(points):
        if left <= x <= right:
            return one + (two - one) * (x - left) / (right - left) if right > left else two
    return points[-1][1]


def table(found: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """The numbers at the end of each run."""
    head = ["run", "steps", "epochs", "training", "loss", "validation loss", "accuracy", "best", "learning rate"]
    cells = []
    for run in found:
        said = run.numbers
        done = run.record.steps[-1]["step"] if run.record.steps else 0
        each = run.steps_per_epoch
        best = max((event["accuracy"] for event in run.record.validations if "accuracy" in event), default=None)
        best = None if by_chance(run) else best
        rates = [step["lr"] for step in run.record.steps if "lr" in step]
        cells.append([
            run.name, f"{done:,}", f"{done / each:.2f}" if each else "-",
            words.seconds(laid_out(run).end) if done else "-",
            _loss(said.get("loss")), _loss(said.get("validation_loss")),
            f"{said['validation_accuracy']:.1%}" if "validation_accuracy" in said and not by_chance(run) else "-",
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
    if by_chance(run):
        out.append(f"{run.name}: images and labels are random, so its loss and accuracy do not show learning")
    if run.state in ("RUNNING", "NOT_ENDED"):
        out.append(f"{run.name}: {runs.steps(run)}")
    elif run.state != "COMPLETED":
        out.append(f"{run.name}: {run.state.lower().replace('_', ' ')} after {runs.steps(run)}")
    return out


def by_chance(run: Run) -> bool:
    """Whether the labels are random: then the run learns nothing but its one batch by heart."""
    return run.args.get("data") == "random"


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
            out.append(f"{run.name}: the losses equal those of {found[first].name}, so the curves coincide")
    return out


def _figure(found: Sequence[Run], by: str) -> str:
    where = {id(run): _positions(run, by) for run in found}
    longest = max((max(at.values(), default=0) for at in where.values()), default=0)
    unit, second = charts.clock(longest) if by == "time" else ({"step": "steps", "epoch": "epochs"}[by], 1.0)
    panels, above = [], False
    for name, title in (("loss", "loss"), ("accuracy", "accuracy"), ("lr", "learning rate")):
        if name == "accuracy" and all(by_chance(run) for run in found):
            continue
        lines, marks, trained, validated = [], [], [], []
        for number, run in enumerate(found):
            look = {"colour": RUNS[number % len(RUNS)], "dash": (6, 4) if number >= len(RUNS) else ()}
            means, bands = charts.thinned(_series(run.record.steps, where[id(run)], name, second))
            dots = _series(run.record.validations, where[id(run)], name, second)
            trained += [y for _, y in means]
            validated += [y for _, y in dots]
            lines.append(Line(run.name, means, band=bands if len(found) <= 3 and name != "lr" else (),
                              tip=f"{run.name}: training {name}", **look))
            said = f"{run.name}: validation {name}"
            lines.append(Line(f"{run.name}, validation", dots, look["colour"], marker="o" if len(dots) <= MARKED else "", width=1,
                              dash=(2, 3), tip=said, tips=[f"{said} {_exactly(name, y)}" for _, y in dots], shown=False))
        low, top = _range(name, trained, validated)
        above |= max((*trained, *validated), default=0) > top
        for run in found if name == "loss" else ():
            if (lost := lost_at(run)) and lost in where[id(run)]:  # the words to its left, where the curve has been
                marks.append(Mark(where[id(run)][lost] / second, top - 0.04 * (top - low), "not a number", BAD, "x", "right",
                                  f"{run.name}: not a number at step {lost}"))
        panels.append(charts.lines(
            lines, x=unit if name == "lr" else "", y=title, x_range=(0, longest / second or 1), y_range=(low, top), marks=marks,
            whole=by == "step", say=lambda value, name=name: _exactly(name, value), height=86 if name == "lr" else 236,
            say_y=(lambda value: f"{value:.0%}") if name == "accuracy" else charts.short))
    return charts.grid(*panels, columns=2 if len(panels) > 2 else 1).html() + page.quiet("lines: training steps, dots: validation"
                                                  + (", arrows: above the axis, with the value" if above else ""))


def _exactly(name: str, value: float) -> str:
    """As the table has it."""
    return words.loss(value) if name == "loss" else f"{value:.1%}" if name == "accuracy" else f"{value:.4g}"


def _positions(run: Run, by: str) -> dict[int, float]:
    """Step -> where it lies on the axis. A validation after a step that was not kept is, in time, where the next one is."""
    numbers = {event["step"] for event in (*run.record.steps, *run.record.validations) if "step" in event}
    if by != "time":
        each = (run.steps_per_epoch or 1) if by == "epoch" else 1
        return {number: number / each for number in numbers}
    known, found, later = moments(laid_out(run)), {}, None
    for number in sorted(numbers, reverse=True):
        later = known.get(number, later)
        if later is not None:
            found[number] = later
    return found


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
