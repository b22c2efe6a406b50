"""`memory_sweep`: how memory and speed follow the batch size, and what of the memory belongs to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..jobs import runs
from ..jobs.runs import Run
from ..ui import charts, page, words
from ..ui.charts import Line, Mark, Rule
from ..ui.page import View
from ..ui.palette import BAD, CARE, GREY, MEMORY, POWER, SPEED
from . import comparable

STATES = {"adam": 2, "adamw": 2, "lamb": 2}  # numbers that an optimizer keeps per parameter; SGD keeps one with momentum
WIDE = 8  # times the largest batch that fitted: what is beyond has no place on the axis
SPREAD = 3  # a rise of memory that is less than so many times what a run is away from the line says nothing
RISE = 0.02  # nor does one below this part of the memory: as much differs from run to run on a CPU
FAR = 4  # a host's limit is drawn where it is at most so many times the largest measurement


@dataclass(frozen=True)
class Fit:
    """Memory in bytes = ``model`` + ``image`` x images of a batch."""

    model: float
    image: float

    def at(self, batch: float) -> float:
        return self.model + self.image * batch

    def largest(self, limit: float) -> int:
        return max(0, int((limit - self.model) / self.image))

    def roughly(self, limit: float) -> int:
        """The same with two figures: a line through a few measurements knows no more."""
        found = self.largest(limit)
        unit = 10 ** max(0, len(str(found)) - 2)
        return found // unit * unit


def memory_sweep(*jobs) -> View:
    """Memory and images/s against the batch size per process, from runs that differ in it: a `Group`, or a list of runs.

    What differs in more is shown beside the curve. Raises UsageError where there is no such run.
    """
    found = runs.several(*jobs)
    known = [run for run in found if run.batch_size]
    title = "memory and speed against the batch size"
    left_out = [f"{run.name} is left out: {run.unreadable or 'its record does not say its batch size'} ({comparable.state(run)})."
                for run in found if not run.batch_size]
    if not known:
        text = "\n".join([title, *(f"  {line}" for line in left_out)])
        return View(title, text, page.headline(title) + "".join(map(page.quiet, left_out)))
    own, others, notes = comparable.curve(known, _batch, lambda run, base: comparable.differences(run, base, "world_size"))
    own, others = sorted(own, key=_batch), sorted(others, key=_batch)
    fitted = fit([(_batch(run), run.memory) for run in own if ended(run)])
    said = [*findings(own, fitted), *notes, *left_out, *_going(known)]
    head, cells = table([*own, *others])
    text = "\n".join([": ".join(filter(None, (title, runs.what(*own)))), page.table(head, cells), *said])

    def body() -> str:
        below = "".join(f'<div style="margin: 3px 0">{page.html.escape(line)}</div>' for line in said)
        return page.headline("Memory and speed against the batch size", runs.what(*own)) + _figure(own, others, fitted) \
            + page.table_html(head, cells) + below

    return View(title, text, body)


def _batch(run: Run) -> int:
    return run.batch_size or 0


def _first(known: Sequence[Run]) -> Run:
    """The run that says what all of them have in common: one that ended before its start can't."""
    return next((run for run in known if run.start), known[0])


def ended(run: Run) -> bool:
    return run.memory is not None and run.state == "COMPLETED"


def fit(points: Sequence[tuple[int, float]]) -> Fit | None:
    """The straight line through memory against batch size; None where the points allow none that makes sense."""
    if len({batch for batch, _ in points}) < 2:
        return None
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    image = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    found = Fit(mean_y - image * mean_x, image)
    batches = [x for x, _ in points]
    rise = image * (max(batches) - min(batches))
    away = max(abs(y - found.at(x)) for x, y in points)
    clear = rise >= max(SPREAD * away, RISE * max(y for _, y in points))
    return found if found.model > 0 and image > 0 and clear else None


def reserved(known: Sequence[Run]) -> Fit | None:
    """The line of what the allocator holds, which is what meets the card's limit."""
    points = [(_batch(run), run.numbers.get("memory_reserved")) for run in known if ended(run)]
    return fit([(batch, held) for batch, held in points if held is not None])


def counted(run: Run) -> list[tuple[str, float]]:
    """What parameters, gradients and the optimizer's state take, counted from the number of parameters (4 bytes each)."""
    parameters, args = run.start.get("parameters"), run.args
    if not parameters or not args.get("optimizer"):
        return []
    states = STATES.get(args["optimizer"], 1 if args.get("mom") else 0)
    parts = [("parameters", 4.0 * parameters), ("gradients", 4.0 * parameters)]
    return parts + ([("optimizer", 4.0 * parameters * states)] if states else [])


def table(known: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    power = any("power" in run.numbers for run in known)
    on_gpu = any(run.on_gpu for run in known)
    head = ["run", "batch", "memory", *(["reserved"] if on_gpu else []), f"{known[0].unit}/s",
            *(["power", "J/image"] if power else []), "state"]
    cells = []
    for run in known:
        found = run.numbers
        reserved = [words.gigabytes(found["memory_reserved"]) if "memory_reserved" in found else "-"] if on_gpu else []
        row = [run.name, f"{_batch(run):,}", words.gigabytes(run.memory) if run.memory else "-", *reserved,
               words.number(found["images_per_second"]) if "images_per_second" in found else "-"]
        if power:
            row += [f"{words.number(found[name])}{unit}" if name in found else "-"
                    for name, unit in (("power", " W"), ("joules_per_image", ""))]
        cells.append([*row, comparable.state(run)])
    return head, cells


def findings(known: Sequence[Run], fitted: Fit | None) -> list[str]:
    """What the runs say, in sentences."""
    out = []
    run = _first(known)
    limit = run.limit
    if fitted:
        whose = "the model with its gradients and optimizer" + ("" if run.on_gpu else ", Python and its libraries")
        out.append(f"{words.gigabytes(fitted.model)} do not depend on the batch ({whose}); "
                   f"activations take {words.number(fitted.image / 1e6)} MB per {run.item.removesuffix('s')}.")
    elif len({_batch(run) for run in known if ended(run)}) > 1:
        out.append("Memory does not clearly rise with the batch, so the model's part and the batch's part cannot be separated. "
                   "Try batches that differ more.")
    else:
        out.append("Two batch sizes that fit are needed to separate what belongs to the model from what belongs to the batch.")
    if parts := counted(run):
        total = words.gigabytes(sum(size for _, size in parts))
        out.append("By count: " + ", ".join(f"{name} {words.gigabytes(size)}" for name, size in parts) + f", together {total}.")
    line = reserved(known) if run.on_gpu else fitted
    if line and limit:
        what = "What the allocator reserves" if run.on_gpu else "The process"
        said = f"{what} would fill {of(run)} {words.gigabytes(limit)} at a batch of about {line.roughly(limit):,}"
        tried = max(_batch(run) for run in known)
        far = f", by extrapolation: no batch above {tried:,} was tried" if line.largest(limit) > WIDE * tried else ""
        out.append(f"{said}{far}.")
    broke = [_batch(run) for run in known if run.state == "OUT_OF_MEMORY"]
    held = [_batch(run) for run in known if run.state == "COMPLETED"]
    if broke:
        out.append(f"Out of memory at a batch of {min(broke):,}" + (f"; {max(held):,} fitted." if held else "."))
    timed = [run for run in known if "images_per_second" in run.numbers]
    if timed:
        run = max(timed, key=lambda run: run.numbers["images_per_second"])
        speed = words.number(run.numbers["images_per_second"])
        out.append(f"Fastest: a batch of {_batch(run):,} with {speed} {run.unit}/s ({run.name}).")
    return out


def of(run: Run) -> str:
    """Of what the limit is; on a CPU it may be that of a job or container."""
    return "the card's" if run.on_gpu else "the host's"


def _going(known: Sequence[Run]) -> list[str]:
    going = [run.name for run in known if run.state in ("RUNNING", "PENDING", "NOT_ENDED")]
    return [f"Not ended: {', '.join(going)}. Memory is known at the end of a run."] if going else []


def _figure(known: Sequence[Run], others: Sequence[Run], fitted: Fit | None) -> str:
    """``known``: the runs of the curve. The others are dots, where their memory is that of the same kind of device."""
    first = _first(known)
    on_gpu, limit = first.on_gpu, first.limit
    others = [run for run in others if run.on_gpu == on_gpu]
    batches = sorted({_batch(run) for run in (*known, *others)})
    fitting = [_batch(run) for run in (*known, *others) if ended(run)]
    edge = float(batches[-1])
    if fitting and edge > WIDE * max(fitting):  # what is far beyond stands at the edge, or nothing else has room
        batches = [batch for batch in batches if batch <= WIDE * max(fitting)]
        edge = 2.0 * batches[-1]
    highest = max((run.memory for run in (*known, *others) if ended(run)), default=0)
    if limit and not on_gpu and limit > FAR * highest:
        limit = None  # a limit far above would leave the measurements no room
    top = max(highest, limit or 0) * 1.08 / 1e9 or 1.0
    lines = _areas(known, fitted) + _reserved(known, fitted, limit, on_gpu, 1.05 * edge)
    marks = []
    for apart, some in ((True, others), (False, known)):
        dots = [(run, _batch(run), run.memory / 1e9) for run in some if ended(run)]
        lines.append(Line("can't be compared" if apart and others else "", [dot[1:] for dot in dots], GREY if apart else MEMORY,
                          marker="o", width=0, size=10, shown=bool(apart and others),
                          tips=[f"{run.name}, batch {batch}: {words.gigabytes(run.memory)}" for run, batch, _ in dots]))
        for run in some:
            batch, at = _batch(run), min(_batch(run), edge)
            tip = f"{run.name}, batch {batch}: {comparable.state(run)}"
            if run.state == "OUT_OF_MEMORY":
                said = "" if apart else "out of memory" + (f" at {batch:,}" if batch > edge else "")
                marks.append(Mark(at, limit / 1e9 if limit else 0.96 * top, said, GREY if apart else BAD, "x", tip=tip))
            elif run.state in ("FAILED", "TIMEOUT", "CANCELLED"):
                marks.append(Mark(at, 0.04 * top, "", GREY if apart else CARE, "x", tip=tip))
    axis = {"x_range": (0, 1.05 * edge), "x_ticks": batches}
    panels = [charts.lines(lines, y=f"GB of {'GPU' if on_gpu else 'host'} memory", y_range=(0, top), marks=marks, height=210,
                           rules=[Rule(limit / 1e9, f"{of(first)} {words.gigabytes(limit)}")] if limit else (), **axis)]
    powered = any("power" in run.numbers for run in known)
    below = {"x": f"{first.item} of a batch (per process)"}
    speed = f"{first.unit}/s"
    panels.append(charts.lines(_measured(known, others, "images_per_second", speed, SPEED, edge), y=speed, height=120,
                               empty="no timed steps", **axis, **({} if powered else below)))
    if powered:
        panels.append(charts.lines(_measured(known, (), "power", "W", POWER, edge), y="power, W", height=100, **axis, **below))
    return charts.grid(*panels, columns=1).html()


def _areas(known: Sequence[Run], fitted: Fit | None) -> list[Line]:
    """What belongs to the model below, what to the batch upon it."""
    if not fitted:
        return []
    last = max(_batch(run) for run in known if ended(run))
    model, whole = fitted.model / 1e9, fitted.at(last) / 1e9
    return [Line("activations", [], MEMORY, [(0, model, model), (last, model, whole)], width=0, opacity=0.35),
            Line("what does not depend on the batch", [], MEMORY, [(0, 0, model), (last, 0, model)], width=0, opacity=0.85)]


def _reserved(known: Sequence[Run], fitted: Fit | None, limit: float | None, on_gpu: bool, edge: float) -> list[Line]:
    """On to where the line meets the limit, if that is in the picture."""
    line = reserved(known) if on_gpu else fitted
    if not line or not limit:
        return []
    until = min(line.largest(limit), edge)
    return [Line("reserved" if on_gpu else "extrapolated", [(at, line.at(at) / 1e9) for at in (0, until)], MEMORY, width=1.5,
                 dash=(5, 4))]


def _measured(known: Sequence[Run], others: Sequence[Run], name: str, unit: str, colour: str, edge: float) -> list[Line]:
    """A measure against the batch. The line goes by the fastest run of a batch."""
    best: dict[int, Run] = {}
    for run in known:
        if "images_per_second" in run.numbers and _batch(run) <= edge:
            other = best.setdefault(_batch(run), run)
            if run.numbers["images_per_second"] > other.numbers["images_per_second"]:
                best[_batch(run)] = run
    curve = [(batch, run.numbers[name]) for batch, run in best.items() if name in run.numbers]
    lines = [Line("power" if unit == "W" else unit, curve, colour, width=2.5)]
    for some, of_dots in ((others, GREY), (known, colour)):
        dots = [(run, _batch(run), run.numbers[name]) for run in some if name in run.numbers and _batch(run) <= edge]
        lines.append(Line("", [dot[1:] for dot in dots], of_dots, marker="o", width=0, size=9, shown=False,
                          tips=[f"{run.name}, batch {batch}: {words.number(value)} {unit}" for run, batch, value in dots]))
    return lines
