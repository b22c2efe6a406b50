"""`timeline`: step after step on one time axis, what the loader and what the device did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..jobs import runs
from ..jobs.runs import Run
from ..system.errors import UsageError
from ..training.summary import PHASES
from ..ui import page, words
from ..ui.page import View
from ..ui.svg import NAMES, PHASE, Panel, Svg, legend, short
from . import board

WIDTH, LEFT, ACROSS = 900, 76, 806
COLUMNS = 403  # of the picture of a long run: 2 pixels each
EACH = 100  # steps that can be drawn one by one
ZOOM, MOST = 6, 200  # steps of a closer look, and as many as can be asked for
LETTER = 6.6  # pixels of a letter, as a label has them
WHOLE = "#6C8EAD"  # a step whose phases were not timed


@dataclass(frozen=True)
class Span:
    """A stretch of the run: what (a phase, ``step`` where phases were not timed, ``other``), from when to when, of which step."""

    what: str
    begin: float
    end: float
    step: int


@dataclass(frozen=True)
class Course:
    """A run in seconds since its first step began, the time between two attempts left out."""

    steps: list[dict]
    begins: list[float]
    device: list[Span]
    loader: list[Span]
    end: float


def timeline(job, steps: tuple[int, int] | None = None) -> View:
    """What loader and device did, step after step, first the whole run and then a few steps from near.

    ``steps=(100, 120)`` looks closer at these steps. Raises UsageError where there is no such run.
    """
    run = runs.one(job)
    course = laid_out(run)
    face = board.face_of(run)
    title = f"timeline of {run.name}: {face[0]}"
    if not course.steps:
        none = "no step is recorded" + (" yet" if run.state in ("PENDING", "RUNNING") else "")
        text = page.listed(title, [("", line) for line in (*face[1:], none)])
        return View(f"timeline of {run.name}", text, page.headline(run.name) + board.face_page(run, face) + page.quiet(none))
    chosen = _window(course, steps)
    rows = findings(run, course)
    body = page.headline(f"Timeline of {run.name}", runs.what(run))
    if run.state != "COMPLETED" or len(face) > 1:
        body += board.face_page(run, face)
    body += _whole(run, course) + _near(course, chosen) + _legend(course) + page.rows(rows)
    return View(f"timeline of {run.name}", page.listed(title, [*(("", line) for line in face[1:]), *rows]), body)


def laid_out(run: Run) -> Course:
    """Steps one after the other, with validations and checkpoints where they came."""
    between: dict[int, float] = {}
    for event in (*run.record.validations, *run.record.checkpoints):
        if "step" in event and "seconds" in event:
            between[event["step"]] = between.get(event["step"], 0.0) + event["seconds"]
    steps = [step for step in run.record.steps if "seconds" in step]
    begins, device, loader, now = [], [], [], 0.0
    for step in steps:
        number, begin = step["step"], now
        begins.append(begin)
        timed = [(phase, step[phase]) for phase in PHASES if phase in step]
        for phase, seconds in timed if len(timed) > 1 else [("step", step["seconds"])]:
            device.append(Span(phase, now, now + seconds, number))
            now += seconds
        now = begin + step["seconds"]
        if "loading" in step:
            loader.append(Span("loading", begin, begin + min(step["loading"], step["seconds"]), number))
        if number in between:
            device.append(Span("other", now, now + between[number], number))
            now += between.pop(number)
    return Course(steps, begins, device, loader, now)


def findings(run: Run, course: Course) -> list[tuple[str, str]]:
    """The same in words."""
    steps, found = course.steps, run.numbers
    rows = [("run", f"{words.counted(len(steps), 'step')} in {words.seconds(course.end)}")]
    rows.append(("first step", f"{words.seconds(steps[0]['seconds'])}" + _most(steps[0])))
    warm = [step["seconds"] for step in steps if step.get("warmup")]
    if warm:
        rows.append(("warm-up", f"{words.counted(len(warm), 'step')} in {words.seconds(sum(warm))}, left out of averages"))
    timed = run.record.timed_steps
    if timed:
        middle = words.seconds(median(timed))
        rows.append(("a step", f"{words.seconds(found['step_seconds'])} on average, {middle} in the middle"))
        slowest = max(timed, key=lambda step: step["seconds"])
        rows.append(("slowest", f"step {slowest['step']:,}: {words.seconds(slowest['seconds'])}{_most(slowest)}"))
        waits = (("idle", "waiting", "the device waits"), ("loading", "loader", "the process waits for its loader"))
        for name, title, what in waits:
            if name in found:
                share = words.share(run.share(name) or 0)
                rows.append((title, f"{what} {words.seconds(found[name])} a step, {share} of it"))
    other = sum(span.end - span.begin for span in course.device if span.what == "other")
    if other:
        rows.append(("other", f"validation and checkpoints took {words.seconds(other)}"))
    return rows


def median(steps: Sequence[dict]) -> float:
    """Seconds of the step in the middle, were they sorted."""
    ordered = sorted(step["seconds"] for step in steps)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _most(step: dict) -> str:
    timed = [(step[phase], phase) for phase in PHASES if phase in step]
    if len(timed) < 2:
        return ""
    seconds, phase = max(timed)
    return f", {words.seconds(seconds)} of it {NAMES[phase]}"


def _window(course: Course, asked: tuple[int, int] | None) -> list[tuple[str, int, int]]:
    """What to look at from near: a title, and the first and last index of its steps."""
    steps = course.steps
    if asked is not None:
        try:
            first, last = (int(number) for number in asked)
        except (TypeError, ValueError):
            raise UsageError(f"steps={asked!r}: give the first and the last, such as steps=(100, 120)") from None
        inside = [i for i, step in enumerate(steps) if first <= step["step"] <= last]
        if not inside:
            there = f"{steps[0]['step']} to {steps[-1]['step']}"
            raise UsageError(f"steps {first} to {last} are not in the record: it has {there}")
        first, last = inside[0], min(inside[-1], inside[0] + MOST - 1)
        return [(f"steps {steps[first]['step']:,} to {steps[last]['step']:,}", first, last)]
    count = len(steps)
    if count <= ZOOM:
        return [("from near", 0, count - 1)]
    windows = [("the first steps", 0, min(ZOOM, count) - 1)]
    timed = [i for i, step in enumerate(steps) if not step.get("warmup")]
    if len(timed) >= ZOOM:
        length = [(steps[i]["seconds"], i) for i in timed]
        middle = sorted(length)[len(length) // 2][0]
        sums = {i: sum(step["seconds"] for step in steps[i : i + ZOOM]) for i in timed[: len(timed) - ZOOM + 1]}
        first = min(sums, key=lambda i: abs(sums[i] - ZOOM * middle))
        windows.append(("steps as most of them are", first, first + ZOOM - 1))
        slowest = max(length, key=lambda pair: pair[0])  # the first of those that are as slow, as in the text
        if slowest[0] > 1.5 * middle and not first <= slowest[1] < first + ZOOM:
            begin = max(0, min(slowest[1] - 2, count - ZOOM))
            windows.append(("around the slowest step", begin, begin + ZOOM - 1))
    return windows


# --- the picture ---------------------------------------------------------------------------------------------------------


def _clock(seconds: float) -> tuple[str, float]:
    """The unit of a time axis this long, and how many seconds one is."""
    if seconds < 1:
        return "ms", 1e-3
    return ("s", 1.0) if seconds < 300 else ("min", 60.0) if seconds < 3 * 3600 else ("h", 3600.0)


def shares(spans: Sequence[Span], end: float, columns: int) -> dict[str, list[float]]:
    """For each kind of span which part of each column of time it takes."""
    found: dict[str, list[float]] = {}
    width = end / columns
    for span in spans:
        begin, until = span.begin / width, min(span.end / width, columns)
        row = found.setdefault(span.what, [0.0] * columns)
        first, last = min(int(begin), columns - 1), min(int(until), columns - 1)
        if first == last:
            row[first] += until - begin
            continue
        row[first] += first + 1 - begin
        for column in range(first + 1, last):
            row[column] = 1.0
        row[last] += until - last
    return found


def area(panel: Panel, low: Sequence[float], high: Sequence[float]) -> str:
    """The path around a band of columns; columns that are as the one before add nothing."""
    upper, lower = [], []
    width = panel.width / len(low)
    for i in range(len(low)):
        if i == 0 or high[i] != high[i - 1] or low[i] != low[i - 1]:
            x = panel.left + i * width
            upper.append(f"H{x:.1f}V{panel.py(high[i]):.1f}")
            lower.append((x, panel.py(low[i])))
    right = panel.left + panel.width
    back = []
    for i in range(len(lower) - 1, -1, -1):
        x, y = lower[i]
        back.append(f"V{y:.1f}H{x:.1f}")
    return f"M{panel.left:.1f} {panel.py(high[0]):.1f}{''.join(upper)}H{right:.1f}{''.join(back)}Z"


def _whole(run: Run, course: Course) -> str:
    unit, second = _clock(course.end)
    svg = Svg(WIDTH, 236, f"what device and loader did in {words.seconds(course.end)}")
    end = course.end or 1.0
    device = Panel(svg, LEFT, 44, ACROSS, 100, (0, end / second), (0, 1))
    loader = Panel(svg, LEFT, 156, ACROSS, 30, (0, end / second), (0, 1))
    if len(course.steps) <= EACH:
        for span in (*course.device, *course.loader):
            _bar(svg, loader if span.what == "loading" else device, span, 0.0, end, second)
    else:
        _stacked(device, course.device, end)
        _stacked(loader, course.loader, end)
        svg.text(LEFT + 112, 16, "height: share of the time", opacity=0.7)
    for panel, name in ((device, "device"), (loader, "loader")):
        svg.text(LEFT - 10, panel.top + panel.height / 2 + 4, name, 13, "end", 600)
        svg.line(LEFT, panel.top + panel.height, LEFT + ACROSS, panel.top + panel.height, opacity=0.35)
    svg.text(LEFT, 16, "the whole run", 13, weight=600)
    _warmup(svg, course, device)
    loader.axis_x(unit)
    return str(svg)


def _bar(svg: Svg, panel: Panel, span: Span, begin: float, end: float, second: float) -> None:
    """One span in a panel whose axis begins at ``begin``."""
    x0, x1 = (panel.px((moment - begin) / second) for moment in (span.begin, min(span.end, end)))
    if x1 > x0 and span.begin < end:
        tip = f"{NAMES.get(span.what, 'step')} {words.seconds(span.end - span.begin)}"
        svg.rect(x0, panel.top, max(x1 - x0, 0.4), panel.height, _colour(span.what), f"step {span.step:,}: {tip}")


def _stacked(panel: Panel, spans: Sequence[Span], end: float) -> None:
    """Many spans: how much of each column of time they take, waiting on top."""
    taken = shares(spans, end, COLUMNS)
    low = [0.0] * COLUMNS
    for what in ("update", "backward", "forward", "copy", "step", "other", "idle", "loading"):
        if what in taken:
            high = [min(1.0, round(a + b, 4)) for a, b in zip(low, taken[what])]
            panel.svg.path(area(panel, low, high), fill=_colour(what), width=0, tip=NAMES.get(what, "step"))
            low = high


def _warmup(svg: Svg, course: Course, panel: Panel) -> None:
    """A bracket over the steps that are left out of averages, and one over the first of them."""
    warm = [i for i, step in enumerate(course.steps) if step.get("warmup")]
    first = course.begins[1] if len(course.steps) > 1 else course.end
    until = [*course.begins, course.end][max(warm) + 1] if warm else first
    x0 = panel.left
    x1, x2 = (x0 + seconds / (course.end or 1.0) * panel.width for seconds in (first, until))
    svg.path(f"M{x0:.1f} 40V34H{max(x2, x0 + 2):.1f}V40", "currentColor", width=1.5, opacity=0.6)
    said = f"first step {words.seconds(course.steps[0]['seconds'])}"
    if warm:
        said += f", warm-up {words.counted(len(warm), 'step')}"
        if x1 - x0 > 4 and x2 - x1 > 4:
            svg.line(x1, 34, x1, 40, opacity=0.6, width=1.5)
    at_end = x2 + 8 + len(said) * 6.6 > panel.left + panel.width
    svg.text(x2 - 6 if at_end else x2 + 8, 30 if at_end else 38, said, anchor="end" if at_end else "start", opacity=0.85)


def _near(course: Course, windows: Sequence[tuple[str, int, int]]) -> str:
    """A few steps from near: each phase as a bar, the loader's wait below where it belongs."""
    tall = 118
    svg = Svg(WIDTH, tall * len(windows) + 4, "a few steps from near")
    of_step: dict[int, list[Span]] = {}
    wanted = {course.steps[i]["step"] for _, first, last in windows for i in range(first, last + 1)}
    for span in (*course.device, *course.loader):
        if span.step in wanted:
            of_step.setdefault(span.step, []).append(span)
    for row, (title, first, last) in enumerate(windows):
        top = row * tall
        begin = course.begins[first]
        end = begin + sum(course.steps[i]["seconds"] for i in range(first, last + 1))
        end = max(end, course.begins[last] + course.steps[last]["seconds"])
        unit, second = _clock(end - begin)
        device = Panel(svg, LEFT, top + 36, ACROSS, 30, (0, (end - begin) / second), (0, 1))
        loader = Panel(svg, LEFT, top + 70, ACROSS, 14, (0, (end - begin) / second), (0, 1))
        svg.text(LEFT, top + 14, title, 13, weight=600)
        widths = [course.steps[i]["seconds"] / (end - begin) * ACROSS if end > begin else 0.0 for i in range(first, last + 1)]
        lefts = [device.px((course.begins[i] - begin) / second) for i in range(first, last + 1)]
        for x, label in labels([course.steps[i] for i in range(first, last + 1)], lefts, widths):
            svg.text(x + 3, top + 31, label, opacity=0.8)
        for i in range(first, last + 1):
            step, x = course.steps[i], lefts[i - first]
            svg.line(x, top + 32, x, top + 84, opacity=0.5)
            for span in of_step.get(step["step"], ()):
                _bar(svg, loader if span.what == "loading" else device, span, begin, end, second)
        svg.text(LEFT - 10, device.top + 20, "device", 13, "end", 600)
        svg.text(LEFT - 10, loader.top + 12, "loader", 13, "end", 600)
        loader.axis_x("", say=lambda value, unit=unit: f"{short(value)} {unit}")
    return str(svg)


def labels(steps: Sequence[dict], lefts: Sequence[float], widths: Sequence[float]) -> list[tuple[float, str]]:
    """What stands above steps at these pixels, and where: as much as fits, the longest steps first, for they are looked for."""
    found: list[tuple[float, str]] = []
    for place in sorted(range(len(steps)), key=lambda place: -widths[place]):
        step, x, wide = steps[place], lefts[place], widths[place]
        label = f"step {step['step']:,}"
        if wide > len(label) * LETTER + 70:
            label += f": {words.seconds(step['seconds'])}"
        if wide <= len(label) * LETTER + 6:
            label = f"{step['step']:,}"
        long = 6 + len(label) * LETTER
        free = all(x + long <= other or other + 6 + len(said) * LETTER <= x for other, said in found)
        if wide > 14 and free and x + long <= WIDTH:
            found.append((x, label))
    return sorted(found)


def _colour(what: str) -> str:
    return PHASE.get(what, WHOLE)


def _legend(course: Course) -> str:
    there = {span.what for span in course.device} | {span.what for span in course.loader}
    order = [*PHASES, "step", "loading", "other"]
    return legend([(NAMES.get(what, "step (its phases were not timed)"), _colour(what)) for what in order if what in there])


def moments(course: Course) -> dict[int, float]:
    """When each step was over, in seconds since the first began: the time axis of other figures."""
    return {step["step"]: begin + step["seconds"] for step, begin in zip(course.steps, course.begins)}


