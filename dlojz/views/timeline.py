"""`timeline`: step after step on one time axis, what the loader and what the device did."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..jobs import runs
from ..jobs.runs import Run
from ..system.errors import UsageError
from ..training.summary import PHASES
from ..ui import charts, page, words
from ..ui.charts import Bracket, Lane
from ..ui.page import View
from ..ui.palette import NAMES, PHASE
from .dashboard import face_of, face_page

ZOOM, MOST = 6, 200  # steps of a closer look, and as many as can be asked for
MANY = 4000  # pieces of the whole run: some for each column of pixels
WHOLE = "#6c8ead"  # a step whose phases were not timed
UNTIMED = "step (its phases were not timed)"
ORDER = [*PHASES, "step", "loading", "other"]  # of the legend


@dataclass(frozen=True)
class Span:
    """A stretch of the run: what (a phase, ``step`` where phases were not timed, ``other``), from when to when, of which step."""

    what: str
    begin: float
    end: float
    step: int


@dataclass(frozen=True)
class Course:
    """A run in seconds since its first step began, the time between two attempts left out. ``others``: seconds of validation and
    checkpoints after a step, by its index."""

    steps: list[dict]
    begins: list[float]
    others: dict[int, float]
    end: float

    @cached_property
    def device(self) -> list[Span]:
        found = []
        for index, (step, now) in enumerate(zip(self.steps, self.begins)):
            number, over = step["step"], now + step["seconds"]
            timed = [(phase, step[phase]) for phase in PHASES if phase in step]
            for phase, seconds in timed if len(timed) > 1 else [("step", step["seconds"])]:
                found.append(Span(phase, now, now + seconds, number))
                now += seconds
            if index in self.others:
                found.append(Span("other", over, over + self.others[index], number))
        return found

    @cached_property
    def loader(self) -> list[Span]:
        return [Span("loading", begin, begin + min(step["loading"], step["seconds"]), step["step"])
                for step, begin in zip(self.steps, self.begins) if "loading" in step]

    def part(self, first: int, last: int) -> Course:
        """Some of the steps, by index."""
        others = {index - first: seconds for index, seconds in self.others.items() if first <= index <= last}
        return Course(self.steps[first : last + 1], self.begins[first : last + 1], others,
                      self.begins[last] + self.steps[last]["seconds"])

    @cached_property
    def gathered(self) -> Course:
        """The same run, of many steps several taken as one: a column of pixels cannot show them one by one."""
        size = max(1, len(self.steps) // MANY)
        steps, begins, others, first = [], [], {}, 0
        for index in range(len(self.steps) if size > 1 else 0):
            if index - first + 1 < size and index not in self.others and index < len(self.steps) - 1:
                continue
            some = self.steps[first : index + 1]
            sums = {"step": some[0]["step"]}
            for name in ("seconds", *PHASES):
                if timed := [step[name] for step in some if name in step]:
                    sums[name] = sum(timed)
            if waits := [min(step["loading"], step["seconds"]) for step in some if "loading" in step]:
                sums["loading"] = sum(waits)
            if index in self.others:
                others[len(steps)] = self.others[index]
            steps.append(sums)
            begins.append(self.begins[first])
            first = index + 1
        return Course(steps, begins, others, self.end) if steps else self


def timeline(job, steps: tuple[int, int] | None = None) -> View:
    """What loader and device did, step after step, first the whole run and then a few steps in detail.

    ``steps=(100, 120)`` looks closer at these steps. Raises UsageError where there is no such run.
    """
    run = runs.one(job)
    course = laid_out(run)
    face = face_of(run)
    title = f"timeline of {run.name}: {face[0]}"
    if not course.steps:
        none = "no step is recorded" + (" yet" if run.state in ("PENDING", "RUNNING") else "")
        text = page.listed(title, [("", line) for line in (*face[1:], none)])
        return View(f"timeline of {run.name}", text, page.headline(run.name) + face_page(run, face) + page.quiet(none))
    chosen = _window(course, steps)
    rows = findings(run, course)

    def body() -> str:
        said = face_page(run, face) if run.state != "COMPLETED" or len(face) > 1 else ""
        return page.headline(f"Timeline of {run.name}", runs.what(run)) + said + _whole(course) + _near(course, chosen) \
            + page.rows(rows)

    return View(f"timeline of {run.name}", page.listed(title, [*(("", line) for line in face[1:]), *rows]), body)


def laid_out(run: Run) -> Course:
    """Steps one after the other, with validations and checkpoints where they came, or before the next step that was kept."""
    between: dict[int, float] = {}
    for event in (*run.record.validations, *run.record.checkpoints):
        if "step" in event and "seconds" in event:
            between[event["step"]] = between.get(event["step"], 0.0) + event["seconds"]
    steps = [step for step in run.record.steps if "seconds" in step]
    begins, others, now = [], {}, 0.0
    for index, step in enumerate(steps):
        now += step.get("left_out", 0.0)
        begins.append(now)
        now += step["seconds"]
        if due := [at for at in between if at <= step["step"]]:
            others[index] = sum(map(between.pop, due))
            now += others[index]
    return Course(steps, begins, others, now)


def findings(run: Run, course: Course) -> list[tuple[str, str]]:
    """The same in words."""
    steps, found = course.steps, run.numbers
    thin = any("left_out" in step for step in steps)
    done, kept = (steps[-1]["step"], f", {len(steps)} of them recorded") if thin else (len(steps), "")
    rows = [("run", f"{words.counted(done, 'step')} in {words.seconds(course.end)}{kept}")]
    rows.append(("first step", f"{words.seconds(steps[0]['seconds'])}" + _most(steps[0])))
    warm = [step["seconds"] for step in steps if step.get("warmup")]
    if warm:
        rows.append(("warm-up", f"{words.counted(len(warm), 'step')} in {words.seconds(sum(warm))}, left out of averages"))
    timed = run.record.timed_steps
    if timed:
        middle = words.seconds(median(timed))
        rows.append(("per step", f"{words.seconds(found['step_seconds'])} on average, {middle} median"))
        slowest = max(timed, key=lambda step: step["seconds"])
        rows.append(("slowest", f"step {slowest['step']:,}: {words.seconds(slowest['seconds'])}{_most(slowest)}"))
        waits = (("idle", "waiting", "the device waits"), ("loading", "loader", "the process waits for its loader"))
        for name, title, what in waits:
            if name in found:
                share = words.share(run.share(name) or 0)
                rows.append((title, f"{what} {words.seconds(found[name])} per step, {share} of it"))
    other = sum(course.others.values())
    if other:
        rows.append(("other", f"{_named(run, course)} took {words.seconds(other)}"))
    return rows


def _named(run: Run, course: Course) -> str:
    """``1 validation and 2 checkpoints``: a run that was stopped has saved one, perhaps without having validated."""
    last = course.steps[-1]["step"]
    kinds = (("validation", run.record.validations), ("checkpoint", run.record.checkpoints))
    numbers = ((sum("seconds" in each and each.get("step", last + 1) <= last for each in events), kind) for kind, events in kinds)
    return " and ".join(words.counted(number, kind) for number, kind in numbers if number)


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
        return [("in detail", 0, count - 1)]
    windows = [("the first steps", 0, min(ZOOM, count) - 1)]
    timed = [i for i, step in enumerate(steps) if not step.get("warmup")]
    if len(timed) >= ZOOM:
        length = [(steps[i]["seconds"], i) for i in timed]
        middle = sorted(length)[len(length) // 2][0]
        over = [0.0, *itertools.accumulate(step["seconds"] for step in steps)]
        first = min(timed[: len(timed) - ZOOM + 1], key=lambda i: abs(over[min(i + ZOOM, count)] - over[i] - ZOOM * middle))
        windows.append(("steps as most of them are", first, first + ZOOM - 1))
        slowest = max(length, key=lambda pair: pair[0])  # the first of those that are as slow, as in the text
        if slowest[0] > 1.5 * middle and not first <= slowest[1] < first + ZOOM:
            begin = max(0, min(slowest[1] - 2, count - ZOOM))
            windows.append(("around the slowest step", begin, begin + ZOOM - 1))
    return windows


# --- the picture ---------------------------------------------------------------------------------------------------------


def spans(found: Sequence[Span]) -> list[charts.Span]:
    """As a chart has them, in the order of the phases: so they are stacked where there are many."""
    each = len(found) <= charts.EACH  # else nothing can be pointed at
    of_kind: dict[str, list[charts.Span]] = {what: [] for what in ORDER}
    for one in found:
        what = one.what
        of_kind[what].append(charts.Span(one.begin, one.end, NAMES.get(what, UNTIMED), PHASE.get(what, WHOLE), False,
                                         tip(one) if each else ""))
    return [span for some in of_kind.values() for span in some]


def tip(span: Span) -> str:
    return f"step {span.step:,}: {NAMES.get(span.what, 'step')} {words.seconds(span.end - span.begin)}"


def _whole(course: Course) -> str:
    warm = [i for i, step in enumerate(course.steps) if step.get("warmup")]
    ends = [*course.begins[1:], course.end]
    said = f"first step {words.seconds(course.steps[0]['seconds'])}"
    said += f", warm-up {words.counted(len(warm), 'step')}" if warm else ""
    lanes = [Lane("device", spans(course.gathered.device), 100), Lane("loader", spans(course.gathered.loader), 30)]
    chart = charts.timeline(lanes, title="the whole run", begin=0.0, end=course.end, legend=False, gap=12, brackets=[
        Bracket(0.0, ends[max(warm)] if warm else ends[0], said, ends[0] if warm else None)])
    many = page.quiet("height: share of the time") if any(len(lane.spans) > charts.EACH for lane in lanes) else ""
    return chart.html() + many


def _near(course: Course, windows: Sequence[tuple[str, int, int]]) -> str:
    """A few steps from near: each phase as a bar, the loader's wait below where it belongs."""
    found = []
    for title, first, last in windows:
        part = course.part(first, last)
        labels = [(begin_, begin_ + step["seconds"], (f"step {step['step']:,}: {words.seconds(step['seconds'])}",
                                                      f"step {step['step']:,}", f"{step['step']:,}"))
                  for begin_, step in zip(part.begins, part.steps)]
        lanes = [Lane("device", spans(part.device), 30, labels), Lane("loader", spans(part.loader), 14)]
        found.append(charts.timeline(lanes, title=title, begin=part.begins[0], end=part.end, lines=part.begins, gap=4))
    return replace(charts.grid(*found, columns=1), label="a few steps in detail", names=_names(course)).html()


def _names(course: Course) -> list[tuple[str, str]]:
    there = {span.what for span in course.gathered.device} | {span.what for span in course.gathered.loader}
    return [(NAMES.get(what, UNTIMED), PHASE.get(what, WHOLE)) for what in ORDER if what in there]


def moments(course: Course) -> dict[int, float]:
    """When each step was over, in seconds since the first began: the time axis of other figures."""
    return {step["step"]: begin + step["seconds"] for step, begin in zip(course.steps, course.begins)}


