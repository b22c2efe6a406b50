"""`memory_sweep`: how memory and speed follow the batch size, and what of the memory belongs to the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import page, runs, words
from .page import View
from .runs import Run
from .svg import BAD, CARE, GREY, MEMORY, POWER, SPEED, Panel, Svg, legend, nice_top

STATES = {"adam": 2, "adamw": 2, "lamb": 2}  # numbers that an optimizer keeps per parameter; SGD keeps one with momentum


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


def memory_sweep(*jobs) -> View:
    """Memory and images/s against the batch size per process, from runs that differ in it: a `Group`, or a list of runs.

    Raises UsageError where there is no such run.
    """
    found = sorted(runs.several(*jobs), key=lambda run: run.start.get("batch_size", 0))
    known = [run for run in found if run.start.get("batch_size")]
    title = "memory and speed against the batch size"
    notes = notes_on(found, known)
    if not known:
        text = "\n".join([title, *(f"  {line}" for line in notes)])
        return View(title, text, page.headline(title) + "".join(map(page.quiet, notes)))
    fitted = fit([(run.start["batch_size"], run.memory) for run in known if ended(run)])
    said = [*findings(known, fitted), *notes]
    head, cells = table(known)
    text = "\n".join([f"{title}: {runs.what(known[0])}", page.table(head, cells), *said])
    body = page.headline("Memory and speed against the batch size", runs.what(known[0])) + _figure(known, fitted)
    return View(title, text, body + "".join(f'<div style="margin: 3px 0">{page.html.escape(line)}</div>' for line in said))


def ended(run: Run) -> bool:
    return run.memory is not None and run.state == "COMPLETED"


def fit(points: Sequence[tuple[int, float]]) -> Fit | None:
    """The straight line through memory against batch size; None where the points allow none that makes sense."""
    if len({batch for batch, _ in points}) < 2:
        return None
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    image = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    model = mean_y - image * mean_x
    return Fit(model, image) if image > 0 and model > 0 else None


def reserved(known: Sequence[Run]) -> Fit | None:
    """The line of what the allocator holds, which is what meets the card's limit."""
    points = [(run.start["batch_size"], run.numbers.get("memory_reserved")) for run in known if ended(run)]
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
    head = ["batch", "memory", *(["reserved"] if on_gpu else []), "images/s", *(["power", "J/image"] if power else []), "state"]
    cells = []
    for run in known:
        found = run.numbers
        reserved = [words.gigabytes(found["memory_reserved"]) if "memory_reserved" in found else "-"] if on_gpu else []
        row = [str(run.start["batch_size"]), words.gigabytes(run.memory) if run.memory else "-", *reserved,
               words.number(found["images_per_second"]) if "images_per_second" in found else "-"]
        if power:
            row += [f"{words.number(found[name])}{unit}" if name in found else "-"
                    for name, unit in (("power", " W"), ("joules_per_image", ""))]
        cells.append([*row, run.state.lower().replace("_", " ")])
    return head, cells


def findings(known: Sequence[Run], fitted: Fit | None) -> list[str]:
    """What the runs say, in sentences."""
    out = []
    run, limit = known[0], known[0].limit
    if fitted:
        whose = "the model with its gradients and optimizer" + ("" if run.on_gpu else ", Python and its libraries")
        out.append(f"{words.gigabytes(fitted.model)} do not depend on the batch ({whose}); "
                   f"activations take {words.number(fitted.image / 1e6)} MB an image.")
    elif len({run.start["batch_size"] for run in known if ended(run)}) > 1:
        out.append("The runs do not lie on a rising line: what belongs to the model and what to the batch can't be separated.")
    else:
        out.append("Two batch sizes that fit are needed to separate what belongs to the model from what belongs to the batch.")
    if parts := counted(run):
        total = words.gigabytes(sum(size for _, size in parts))
        out.append("By count: " + ", ".join(f"{name} {words.gigabytes(size)}" for name, size in parts) + f", together {total}.")
    line = reserved(known) if run.on_gpu else fitted
    if line and limit:
        what = "What the allocator reserves" if run.on_gpu else "The process"
        out.append(f"{what} would fill {of(run)} {words.gigabytes(limit)} at a batch of about {line.largest(limit):,}.")
    broke = [run.start["batch_size"] for run in known if run.state == "OUT_OF_MEMORY"]
    held = [run.start["batch_size"] for run in known if run.state == "COMPLETED"]
    if broke:
        out.append(f"Out of memory at a batch of {min(broke):,}" + (f"; {max(held):,} fitted." if held else "."))
    timed = [(run.numbers["images_per_second"], run.start["batch_size"]) for run in known if "images_per_second" in run.numbers]
    if timed:
        speed, batch = max(timed)
        out.append(f"Fastest: a batch of {batch:,} with {words.number(speed)} images/s.")
    return out


def of(run: Run) -> str:
    """Of what the limit is; on a CPU it may be that of a job or container."""
    return "the card's" if run.on_gpu else "the host's"


def notes_on(found: Sequence[Run], known: Sequence[Run]) -> list[str]:
    """What to know before reading the figure."""
    out = []
    for run in found:
        if run not in known:
            why = run.unreadable or "its record does not say its batch size"
            out.append(f"{run.name} is left out: {why} ({run.state.lower().replace('_', ' ')}).")
    for name in ("model", "image size", "device"):
        if len({str(run.unlike[name]) for run in known}) > 1:
            out.append(f"The runs differ in {name}: their memory can't be compared.")
    going = [run.name for run in known if run.state in ("RUNNING", "PENDING", "NOT_ENDED")]
    return out + ([f"Not ended: {', '.join(going)}. Memory is known at the end of a run."] if going else [])


def _figure(known: Sequence[Run], fitted: Fit | None) -> str:
    width, left, across = 900, 62, 760
    batches = [run.start["batch_size"] for run in known]
    held = [run for run in known if ended(run)]
    highest = max((run.memory for run in held), default=0)
    limit = known[0].limit
    if limit and not known[0].on_gpu and limit > FAR * highest:
        limit = None  # a limit far above would leave the measurements no room
    highest = max(highest, limit or 0)
    top = nice_top(highest * 1.04 / 1e9)
    svg = Svg(width, 500, "memory and images per second against the batch size")
    x = (0, max(batches) * 1.05)
    panel = Panel(svg, left, 34, across, 210, x, (0, top))
    if fitted:
        last = max(run.start["batch_size"] for run in held)
        (x0, y0), (x1, y1) = panel.at(0, fitted.model / 1e9), panel.at(last, fitted.model / 1e9)
        x2, y2 = panel.at(last, fitted.at(last) / 1e9)
        svg.path(f"M{x0} {y0}L{x1} {y1}L{x2} {y2}Z", fill=MEMORY, opacity=0.35, tip="activations")
        svg.rect(x0, y0, x1 - x0, panel.py(0) - y0, MEMORY, "what does not depend on the batch", opacity=0.85)
    panel.axis_y("GB of GPU memory" if known[0].on_gpu else "GB of host memory")
    panel.axis_x("", batches)
    if limit:
        y = panel.py(limit / 1e9)
        svg.line(left, y, left + across, y, BAD, 2, dash="7 5")
        svg.text(left + 6, y - 6, f"{of(known[0])} {words.gigabytes(limit)}", fill=BAD, weight=600)
    line = reserved(known) if known[0].on_gpu else fitted
    if line and limit:  # on to where it meets the limit, if that is in the picture
        until = min(line.largest(limit), x[1])
        svg.polyline([panel.at(0, line.at(0) / 1e9), panel.at(until, line.at(until) / 1e9)], MEMORY, 1.5, dash="5 4")
    for run in held:
        batch = run.start["batch_size"]
        px, py = panel.at(batch, run.memory / 1e9)
        svg.dot(px, py, MEMORY, 5, f"batch {batch}: {words.gigabytes(run.memory)}")
    for run in known:
        if run.state == "OUT_OF_MEMORY":
            px, py = panel.at(run.start["batch_size"], (limit / 1e9) if limit else top * 0.96)
            svg.cross(px, py, BAD, tip=f"batch {run.start['batch_size']}: out of memory")
            svg.text(px, py + 24, "out of memory", anchor="end" if px > 700 else "middle", fill=BAD, weight=600)
        elif run.state in ("FAILED", "TIMEOUT", "CANCELLED"):
            px = panel.px(run.start["batch_size"])
            svg.cross(px, panel.py(0) - 10, CARE, 5, f"batch {run.start['batch_size']}: {run.state.lower()}")
    _speed(svg, known, Panel(svg, left, 306, across, 140, x, (0, 1)), batches)
    entries = [("activations", MEMORY + "59"), ("what does not depend on the batch", MEMORY)] if fitted else []
    entries += [("dashed: reserved", MEMORY)] if line and limit and known[0].on_gpu else []
    entries += [("images/s", SPEED)] + ([("power", POWER)] if any("power" in run.numbers for run in known) else [])
    return str(svg) + legend(entries)


def _speed(svg: Svg, known: Sequence[Run], panel: Panel, batches: Sequence[int]) -> None:
    """Images/s below the memory, with power on a second axis where it was measured."""
    fast = [(run.start["batch_size"], run.numbers["images_per_second"]) for run in known if "images_per_second" in run.numbers]
    panel.y1 = nice_top(max((speed for _, speed in fast), default=1) * 1.05, 4)
    panel.axis_y("images/s", None if fast else [])
    panel.axis_x("images of a batch (per process)", batches)
    if not fast:
        svg.text(panel.left + panel.width / 2, panel.top + panel.height / 2, "no timed steps", anchor="middle", fill=GREY)
    svg.polyline([panel.at(*point) for point in fast], SPEED, 2.5)
    for batch, speed in fast:
        svg.dot(*panel.at(batch, speed), SPEED, 4.5, f"batch {batch}: {words.number(speed)} images/s")
    watts = [(run.start["batch_size"], run.numbers["power"]) for run in known if "power" in run.numbers]
    if watts:
        top = nice_top(max(power for _, power in watts) * 1.05, 4)
        second = Panel(svg, panel.left, panel.top, panel.width, panel.height, (panel.x0, panel.x1), (0, top))
        second.axis_y("power, W", right=True)
        svg.polyline([second.at(*point) for point in watts], POWER, 2, dash="5 4")
        for batch, power in watts:
            svg.dot(*second.at(batch, power), POWER, 4, f"batch {batch}: {words.number(power)} W")
