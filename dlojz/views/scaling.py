"""`scaling`: how speed follows the number of processes, how much of the ideal that is, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Sequence

from ..summary import PHASES
from . import page, runs, words
from .page import View
from .runs import Run
from .svg import GREY, NAMES, PHASE, SPEED, Panel, Svg, legend, nice_top

LONGER = 0.05  # of a step: less than that is noise
TOO_GOOD = 1.1  # an efficiency above this is no gain of DDP's


def scaling(*jobs) -> View:
    """Images/s against the number of processes, beside a line for "as many times as fast as there are processes".

    From runs that differ in it, the fewest processes being the measure. Efficiency: images/s of a process, as a share of what a
    process of that measure does. Raises UsageError where there is no such run.
    """
    found = runs.several(*jobs)
    known = sorted((run for run in found if timed(run)), key=lambda run: run.start["world_size"])
    title = "speed against the number of processes"
    notes = [f"{run.name} is left out: {_why_not(run)}." for run in found if run not in known]
    if not known:
        return View(title, "\n".join([title, *(f"  {line}" for line in notes)]),
                    page.headline(title.capitalize()) + "".join(map(page.quiet, notes)))
    head, cells = table(known)
    said = [*findings(known), *notes]
    body = page.headline("Speed against the number of processes", runs.what(known[0])) + _figure(known)
    body += "".join(f'<div style="margin: 3px 0">{page.html.escape(line)}</div>' for line in said)
    return View(title, "\n".join([f"{title}: {runs.what(known[0])}", page.table(head, cells), *said]), body)


def timed(run: Run) -> bool:
    return bool(run.start.get("world_size") and run.numbers.get("images_per_second"))


def _why_not(run: Run) -> str:
    if run.unreadable:
        return run.unreadable
    why = "no step of it was timed" if run.start.get("world_size") else "its record does not say how many processes it had"
    return f"{why} ({run.state.lower().replace('_', ' ')})"


def fastest(known: Sequence[Run]) -> dict[int, Run]:
    """The fastest run of each number of processes, the fewest first."""
    found: dict[int, Run] = {}
    for run in known:
        best = found.setdefault(run.start["world_size"], run)
        if run.numbers["images_per_second"] > best.numbers["images_per_second"]:
            found[run.start["world_size"]] = run
    return found


def ideal(known: Sequence[Run], processes: int) -> float:
    """Images/s of as many processes, were each as fast as one of the run with the fewest."""
    fewest, run = next(iter(fastest(known).items()))
    return run.numbers["images_per_second"] / fewest * processes


def efficiency(known: Sequence[Run], run: Run) -> float:
    return run.numbers["images_per_second"] / ideal(known, run.start["world_size"])


def table(known: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    phases = [phase for phase in PHASES if any(run.numbers.get(phase) for run in known)]
    head = ["processes", "images of a step", "images/s", "ideal", "efficiency", "ms a step", *(f"{NAMES[p]}" for p in phases)]
    cells = []
    for run in known:
        numbers, processes = run.numbers, run.start["world_size"]
        images = run.start.get("batch_size", 0) * processes
        cells.append([str(processes), f"{images:,}", words.number(numbers["images_per_second"]),
                      words.number(ideal(known, processes)), words.share(efficiency(known, run)),
                      words.number(numbers["step_seconds"] * 1000),
                      *(words.number(numbers.get(phase, 0.0) * 1000) for phase in phases)])
    return head, cells


def findings(known: Sequence[Run]) -> list[str]:
    """What the runs say, in sentences, and what to know before believing them."""
    best = list(fastest(known).values())
    first, last = best[0], best[-1]
    out = []
    if first.start["world_size"] < last.start["world_size"]:
        times = last.numbers["images_per_second"] / first.numbers["images_per_second"]
        many, few = (words.counted(run.start["world_size"], "process", "processes") for run in (last, first))
        share = words.share(efficiency(known, last))
        out.append(f"{many}: {words.ratio(times)} the images/s of {few}, an efficiency of {share}.")
        if max(efficiency(known, run) for run in best) > TOO_GOOD:
            out.append(f"More than ideal: what {few} did is no fair measure. Was the machine busy with something else meanwhile? "
                       "Run it once more (again=True).")
        longer = _longer(first, last)
        if longer:
            out.append(longer)
    else:
        out.append("All runs have the same number of processes: runs with more or fewer make a curve.")
    out += _hardware(known)
    batches = {run.start.get("batch_size") for run in known}
    totals = {run.start.get("global_batch") for run in known}
    if len(batches) > 1 and len(totals) == 1:
        out.append("The images of a step over all processes stay the same, so each process has fewer (strong scaling).")
    elif len(batches) > 1:
        out.append("Batches per process and over all processes both differ: the runs say little about each other.")
    elif len(known) > 1:
        out.append("Each process has as many images a step, so all together have more (weak scaling).")
    for run in known:
        if "ddp" in run.unwritten:
            out.append(f"{run.name}: ddp is not written yet, so each process trained alone and none waited for another.")
        if why := runs.not_comparable(run, first):
            out.append(f"{run.name} is {why}.")
    return out


def _longer(first: Run, last: Run) -> str:
    """Which phase of a step has become longer by most."""
    grown = {phase: last.numbers.get(phase, 0.0) - first.numbers.get(phase, 0.0) for phase in PHASES}
    phase, by = max(grown.items(), key=lambda item: item[1])
    whole = last.numbers["step_seconds"] - first.numbers["step_seconds"]
    if whole <= LONGER * first.numbers["step_seconds"] or by <= 0:
        return ""
    why = ", in which gradients are exchanged" if phase == "backward" else ""
    return (f"A step takes {words.seconds(whole)} longer; of the phases {NAMES[phase]} has grown most{why} "
            f"(by {words.seconds(by)}).")


def _hardware(known: Sequence[Run]) -> list[str]:
    """Whether more processes had more hardware: without a GPU each, they share the cores."""
    shared = [run for run in known if not run.on_gpu and run.start["world_size"] > 1]
    cores = known[0].machine.get("cores_allowed")
    if not shared or not isinstance(cores, int):
        return []
    return [f"No GPU: the processes of a node share its {words.counted(cores, 'core')}, and one process alone uses all of them. "
            "What is measured is what sharing costs; the dashed line is for processes with hardware of their own."]


def _figure(known: Sequence[Run]) -> str:
    width, left, top, high = 900, 62, 34, 230
    counts = list(dict.fromkeys(run.start["world_size"] for run in known))
    most = counts[-1]
    svg = Svg(width, top + high + 48, "images per second against the number of processes, and the phases of a step")
    highest = max([run.numbers["images_per_second"] for run in known] + [ideal(known, most)])
    panel = Panel(svg, left, top, 410, high, (0, most * 1.08), (0, nice_top(highest * 1.06)))
    panel.axis_y("images/s")
    panel.axis_x("processes", counts)
    svg.polyline([panel.at(0, 0), panel.at(most, ideal(known, most))], GREY, 2, dash="6 5")
    best = fastest(known)
    svg.polyline([panel.at(count, run.numbers["images_per_second"]) for count, run in best.items()], SPEED, 2.5)
    for run in known:
        count, speed = run.start["world_size"], run.numbers["images_per_second"]
        x, y = panel.at(count, speed)
        svg.dot(x, y, SPEED, 5, f"{count} processes: {words.number(speed)} images/s")
        if run is best[count]:
            below = y + 26 < top + high
            svg.text(x, y + 20 if below else y - 10, words.share(efficiency(known, run)), anchor="middle", weight=600)
    _steps(svg, list(best.items()), 560, top, 320, high)
    return str(svg) + legend([("images/s, with the efficiency", SPEED), ("ideal (dashed)", GREY),
                              *((NAMES[p], PHASE[p]) for p in PHASES if any(run.numbers.get(p) for run in known))])


def _steps(svg: Svg, best: Sequence[tuple[int, Run]], left: float, top: float, across: float, high: float) -> None:
    """A step of each number of processes, as a bar of its phases."""
    longest = nice_top(max(run.numbers["step_seconds"] for _, run in best) * 1000)
    panel = Panel(svg, left, top, across, high, (0, longest), (0, 1))
    svg.text(left, top - 12, "a step, by the number of processes", size=13, weight=600)
    panel.axis_x("ms", None)
    room = high / len(best)
    thick = min(34, room * 0.6)
    for place, (count, run) in enumerate(best):
        x, y = left, top + place * room + (room - thick) / 2
        svg.text(left - 10, y + thick / 2 + 4, str(count), anchor="end", weight=600)
        for phase in PHASES:
            milliseconds = run.numbers.get(phase, 0.0) * 1000
            long = milliseconds / longest * across
            svg.rect(x, y, long, thick, PHASE[phase], f"{NAMES[phase]}: {words.number(milliseconds)} ms")
            x += long
