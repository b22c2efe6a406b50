"""`memory_sweep`: how memory and speed follow the batch size, and what of the memory belongs to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..jobs import runs
from ..jobs.runs import Run
from ..ui import page, words
from ..ui.page import View
from ..ui.svg import BAD, CARE, GREY, MEMORY, POWER, SPEED, Panel, Svg, legend, nice_top
from . import alike

STATES = {"adam": 2, "adamw": 2, "lamb": 2}  # numbers that an optimizer keeps per parameter; SGD keeps one with momentum
# A swatch that is dashed as the line in the picture is.
DASHED = f"repeating-linear-gradient(90deg, {MEMORY} 0 4px, transparent 4px 7px) center / 100% 3px no-repeat"
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
    left_out = [f"{run.name} is left out: {run.unreadable or 'its record does not say its batch size'} ({alike.state(run)})."
                for run in found if not run.batch_size]
    if not known:
        text = "\n".join([title, *(f"  {line}" for line in left_out)])
        return View(title, text, page.headline(title) + "".join(map(page.quiet, left_out)))
    own, others, notes = alike.curve(known, _batch, lambda run, base: alike.differences(run, base, "world_size"))
    own, others = sorted(own, key=_batch), sorted(others, key=_batch)
    fitted = fit([(_batch(run), run.memory) for run in own if ended(run)])
    said = [*findings(own, fitted), *notes, *left_out, *_going(known)]
    head, cells = table([*own, *others])
    text = "\n".join([": ".join(filter(None, (title, runs.what(*own)))), page.table(head, cells), *said])
    body = page.headline("Memory and speed against the batch size", runs.what(*own)) + _figure(own, others, fitted)
    body += page.table_html(head, cells)
    return View(title, text, body + "".join(f'<div style="margin: 3px 0">{page.html.escape(line)}</div>' for line in said))


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
    head = ["run", "batch", "memory", *(["reserved"] if on_gpu else []), "images/s",
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
        cells.append([*row, alike.state(run)])
    return head, cells


def findings(known: Sequence[Run], fitted: Fit | None) -> list[str]:
    """What the runs say, in sentences."""
    out = []
    run = _first(known)
    limit = run.limit
    if fitted:
        whose = "the model with its gradients and optimizer" + ("" if run.on_gpu else ", Python and its libraries")
        out.append(f"{words.gigabytes(fitted.model)} do not depend on the batch ({whose}); "
                   f"activations take {words.number(fitted.image / 1e6)} MB an image.")
    elif len({_batch(run) for run in known if ended(run)}) > 1:
        out.append("The runs do not lie on a line that clearly rises: what belongs to the model and what to the batch can't be "
                   "separated. Batches that are further apart may tell.")
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
        far = f", if it went on so: no batch above {tried:,} was tried" if line.largest(limit) > WIDE * tried else ""
        out.append(f"{said}{far}.")
    broke = [_batch(run) for run in known if run.state == "OUT_OF_MEMORY"]
    held = [_batch(run) for run in known if run.state == "COMPLETED"]
    if broke:
        out.append(f"Out of memory at a batch of {min(broke):,}" + (f"; {max(held):,} fitted." if held else "."))
    timed = [run for run in known if "images_per_second" in run.numbers]
    if timed:
        run = max(timed, key=lambda run: run.numbers["images_per_second"])
        speed = words.number(run.numbers["images_per_second"])
        out.append(f"Fastest: a batch of {_batch(run):,} with {speed} images/s ({run.name}).")
    return out


def of(run: Run) -> str:
    """Of what the limit is; on a CPU it may be that of a job or container."""
    return "the card's" if run.on_gpu else "the host's"


def _going(known: Sequence[Run]) -> list[str]:
    going = [run.name for run in known if run.state in ("RUNNING", "PENDING", "NOT_ENDED")]
    return [f"Not ended: {', '.join(going)}. Memory is known at the end of a run."] if going else []


def _figure(known: Sequence[Run], others: Sequence[Run], fitted: Fit | None) -> str:
    """``known``: the runs of the curve. The others are dots, where their memory is that of the same kind of device."""
    width, left, across = 900, 62, 760
    first = _first(known)
    on_gpu, limit = first.on_gpu, first.limit
    others = [run for run in others if run.on_gpu == on_gpu]
    apart = {id(run) for run in others}
    batches = sorted({_batch(run) for run in (*known, *others)})
    fitting = [_batch(run) for run in (*known, *others) if ended(run)]
    if fitting and batches[-1] > WIDE * max(fitting):  # what is far beyond stands at the edge, or nothing else has room
        batches = [batch for batch in batches if batch <= WIDE * max(fitting)]
        edge = 2.0 * batches[-1]
    else:
        edge = float(batches[-1])
    held = [run for run in known if ended(run)]
    drawn = [*(run for run in others if ended(run)), *held]
    highest = max((run.memory for run in drawn), default=0)
    if limit and not on_gpu and limit > FAR * highest:
        limit = None  # a limit far above would leave the measurements no room
    highest = max(highest, limit or 0)
    top = nice_top(highest * 1.04 / 1e9)
    svg = Svg(width, 500, "memory and images per second against the batch size")
    x = (0, edge * 1.05)
    panel = Panel(svg, left, 34, across, 210, x, (0, top))
    if fitted:
        last = max(_batch(run) for run in held)
        (x0, y0), (x1, y1) = panel.at(0, fitted.model / 1e9), panel.at(last, fitted.model / 1e9)
        x2, y2 = panel.at(last, fitted.at(last) / 1e9)
        svg.path(f"M{x0} {y0}L{x1} {y1}L{x2} {y2}Z", fill=MEMORY, opacity=0.35, tip="activations")
        svg.rect(x0, y0, x1 - x0, panel.py(0) - y0, MEMORY, "what does not depend on the batch", opacity=0.85)
    panel.axis_y("GB of GPU memory" if on_gpu else "GB of host memory")
    panel.axis_x("", batches)
    if limit:
        y = panel.py(limit / 1e9)
        svg.line(left, y, left + across, y, BAD, 2, dash="7 5")
        svg.text(left + 6, y - 6, f"{of(first)} {words.gigabytes(limit)}", weight=600)
    line = reserved(known) if on_gpu else fitted
    if line and limit:  # on to where it meets the limit, if that is in the picture
        until = min(line.largest(limit), x[1])
        svg.polyline([panel.at(0, line.at(0) / 1e9), panel.at(until, line.at(until) / 1e9)], MEMORY, 1.5, dash="5 4")
    for run in drawn:
        tip = f"{run.name}, batch {_batch(run)}: {words.gigabytes(run.memory)}"
        svg.dot(*panel.at(_batch(run), run.memory / 1e9), GREY if id(run) in apart else MEMORY, 5, tip)
    said: set[float] = set()
    for run in (*others, *known):
        batch = _batch(run)
        if run.state == "OUT_OF_MEMORY":
            px, py = panel.at(min(batch, edge), (limit / 1e9) if limit else top * 0.96)
            svg.cross(px, py, GREY if id(run) in apart else BAD, tip=f"{run.name}, batch {batch}: out of memory")
            if id(run) not in apart and px not in said:  # above the limit: below it the dashed line may pass
                said.add(px)
                far = f" at {batch:,}" if batch > edge else ""
                svg.text(px, py - 13, f"out of memory{far}", anchor="end" if px > 700 else "middle", weight=600)
        elif run.state in ("FAILED", "TIMEOUT", "CANCELLED"):
            tip = f"{run.name}, batch {batch}: {alike.state(run)}"
            svg.cross(panel.px(min(batch, edge)), panel.py(0) - 10, GREY if id(run) in apart else CARE, 5, tip)
    _speed(svg, known, others, Panel(svg, left, 306, across, 140, x, (0, 1)), batches)
    entries = [("activations", MEMORY + "59"), ("what does not depend on the batch", MEMORY)] if fitted else []
    entries += [("reserved", DASHED)] if line and limit and on_gpu else []
    entries += [("would go on so", DASHED)] if line and limit and not on_gpu else []
    entries += [("images/s", SPEED)] + ([("power", POWER)] if any("power" in run.numbers for run in known) else [])
    return str(svg) + legend(entries + ([("can't be compared", GREY)] if others else []))


def _speed(svg: Svg, known: Sequence[Run], others: Sequence[Run], panel: Panel, batches: Sequence[int]) -> None:
    """Images/s below the memory, with power on a second axis where it was measured. The line goes by the fastest of a batch."""
    timed = [run for run in (*others, *known) if "images_per_second" in run.numbers and _batch(run) <= panel.x1]
    panel.y1 = nice_top(max((run.numbers["images_per_second"] for run in timed), default=1) * 1.05, 4)
    panel.axis_y("images/s", None if timed else [])
    panel.axis_x("images of a batch (per process)", batches)
    if not timed:
        svg.text(panel.left + panel.width / 2, panel.top + panel.height / 2, "no timed steps", anchor="middle", opacity=0.7)
    best: dict[int, Run] = {}
    for run in known:
        if any(run is other for other in timed):
            other = best.setdefault(_batch(run), run)
            if run.numbers["images_per_second"] > other.numbers["images_per_second"]:
                best[_batch(run)] = run
    svg.polyline([panel.at(batch, run.numbers["images_per_second"]) for batch, run in best.items()], SPEED, 2.5)
    for run in timed:
        batch, speed = _batch(run), run.numbers["images_per_second"]
        tip = f"{run.name}, batch {batch}: {words.number(speed)} images/s"
        svg.dot(*panel.at(batch, speed), SPEED if any(run is other for other in known) else GREY, 4.5, tip)
    powered = [run for run in known if "power" in run.numbers and _batch(run) <= panel.x1]
    if powered:
        top = nice_top(max(run.numbers["power"] for run in powered) * 1.05, 4)
        second = Panel(svg, panel.left, panel.top, panel.width, panel.height, (panel.x0, panel.x1), (0, top))
        second.axis_y("power, W", right=True)
        line = [run for run in best.values() if "power" in run.numbers]  # the power of those that the other line goes by
        svg.polyline([second.at(_batch(run), run.numbers["power"]) for run in line], POWER, 2, dash="5 4")
        for run in powered:
            tip = f"{run.name}, batch {_batch(run)}: {words.number(run.numbers['power'])} W"
            svg.dot(*second.at(_batch(run), run.numbers["power"]), POWER, 4, tip)
