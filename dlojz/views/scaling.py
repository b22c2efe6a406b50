"""`scaling`: how speed follows the number of processes, how much of the ideal that is, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Sequence

from ..jobs import runs
from ..jobs.runs import Run
from ..training.summary import PHASES
from ..ui import charts, page, words
from ..ui.charts import Line, Mark
from ..ui.page import View
from ..ui.palette import GREY, NAMES, SPEED
from . import comparable

LONGER = 0.05  # of a step: less than that is noise
SPREAD = 1.5  # runs of the same differ by chance, but not that much
TOO_GOOD = 1.1  # an efficiency above this is no gain of DDP's
DOUBLING = 8  # from so many times as many processes on, equal steps would squeeze the fewest together


def scaling(*jobs) -> View:
    """Images/s against the number of processes, beside a line for "as many times as fast as there are processes".

    From runs that differ in it, the fewest processes being the measure. Efficiency: images/s of a process, as a share of what a
    process of that measure does. What differs in more is shown beside the curve. Raises UsageError where there is no such run.
    """
    found = runs.several(*jobs)
    known = [run for run in found if timed(run)]
    title = "speed against the number of processes"
    left_out = [f"{run.name} is left out: {_why_not(run)}." for run in found if not timed(run)]
    if not known:
        return View(title, "\n".join([title, *(f"  {line}" for line in left_out)]),
                    page.headline(title.capitalize()) + "".join(map(page.quiet, left_out)))
    own, others, notes = one_curve(known)
    head, cells = table(own, others)
    said = [*findings(own), *notes, *comparable.not_completed([*own, *others]), *left_out]

    def body() -> str:
        below = "".join(f'<div style="margin: 3px 0">{page.html.escape(line)}</div>' for line in said)
        return page.headline("Speed against the number of processes", runs.what(*own)) + _figure(own, others) \
            + page.table_html(head, cells) + below

    return View(title, "\n".join([f"{title}: {runs.what(*own)}", page.table(head, cells), *said]), body)


def one_curve(known: Sequence[Run]) -> tuple[list[Run], list[Run], list[str]]:
    """Runs with the same batch for each process, or for all of them together; the others, and what separates them."""
    curves = [comparable.curve(known, _processes, lambda run, base, same=same: comparable.differences(run, base, same))
              for same in ("batch_size", "global_batch")]
    own, others, notes = max(curves, key=lambda curve: len({_processes(run) for run in curve[0]}))
    return sorted(own, key=_processes), sorted(others, key=_processes), notes


def _processes(run: Run) -> int:
    return run.start["world_size"]


def timed(run: Run) -> bool:
    return bool(run.start.get("world_size") and run.numbers.get("images_per_second"))


def _why_not(run: Run) -> str:
    if run.unreadable:
        return run.unreadable
    if not run.start and not run.record.steps:
        yet = " yet" if run.state in ("PENDING", "RUNNING") else ""
        return f"nothing is recorded{yet} ({comparable.state(run)})"
    why = "no step of it was timed" if run.start.get("world_size") else "its record does not say how many processes it had"
    return f"{why} ({comparable.state(run)})"


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


def table(own: Sequence[Run], others: Sequence[Run] = ()) -> tuple[list[str], list[list[str]]]:
    """A row for each run; those that are not of the curve come last and have no efficiency."""
    rows = [*own, *others]
    unit = rows[0].unit
    one = unit.removesuffix("s")
    phases = [phase for phase in PHASES if any(run.numbers.get(phase) for run in rows)]
    energy = any(run.numbers.get("joules_per_image") for run in rows)
    head = ["run", "processes", f"{unit} per step", f"{unit}/s", "ideal", "efficiency", "ms per step",
            *(f"{NAMES[phase]}, ms" for phase in phases), f"{_device(rows[0])}-hours per million", *[f"J/{one}"] * energy]
    cells = []
    for place, run in enumerate(rows):
        numbers, processes = run.numbers, run.start["world_size"]
        images = run.start.get("batch_size", 0) * processes * (run.start.get("length") or 1)
        of_ideal = [words.number(ideal(own, processes)), words.share(efficiency(own, run))] if place < len(own) else ["-", "-"]
        cells.append([run.name, str(processes), f"{images:,}", words.number(numbers["images_per_second"]), *of_ideal,
                      words.number(numbers["step_seconds"] * 1000),
                      *(words.number(numbers.get(phase, 0.0) * 1000) for phase in phases), words.number(hours(run)),
                      *[words.number(numbers["joules_per_image"]) if numbers.get("joules_per_image") else "-"] * energy])
    return head, cells


def hours(run: Run) -> float:
    """GPU-hours that a million images (or tokens) cost; without GPUs hours of a process."""
    return 1e6 / run.numbers["images_per_second"] * run.start["world_size"] / 3600


def _device(run: Run) -> str:
    return "GPU" if run.on_gpu else "process"


def _cheapest(best: Sequence[Run]) -> str:
    """Which of these is the fastest, which costs least, and what the one costs more than the other."""
    fast, cheap = max(best, key=lambda run: run.numbers["images_per_second"]), min(best, key=hours)
    if fast is cheap:
        return f"Fastest and cheapest: {fast.name}."
    what = f"{_device(cheap)}-hours"
    said = (f"Fastest: {fast.name} ({words.number(fast.numbers['images_per_second'])} {fast.unit}/s). Cheapest: {cheap.name} "
            f"({words.number(hours(cheap))} {what} per million {cheap.unit}; {fast.name} takes {words.number(hours(fast))})")
    energy = [run.numbers.get("joules_per_image") for run in (cheap, fast)]
    one = cheap.unit.removesuffix("s")
    joules = f", at {words.number(energy[0])} and {words.number(energy[1])} J per {one}" if all(energy) else ""
    return f"{said}{joules}."


def findings(known: Sequence[Run]) -> list[str]:
    """What the runs say, in sentences, and what to know before believing them."""
    best = list(fastest(known).values())
    first, last = best[0], best[-1]
    out = []
    if first.start["world_size"] < last.start["world_size"]:
        times = last.numbers["images_per_second"] / first.numbers["images_per_second"]
        many, few = (words.counted(run.start["world_size"], "process", "processes") for run in (last, first))
        share = words.share(efficiency(known, last))
        out.append(f"{many}: {words.ratio(times)} the {last.unit}/s of {few}, an efficiency of {share}.")
        if max(efficiency(known, run) for run in best) > TOO_GOOD:
            out.append(f"Above ideal: {few} is not a fair baseline. Was the machine busy with something else? "
                       "Run it again (again=True).")
        out.append(_cheapest(best))
        longer = _longer(first, last)
        if longer:
            out.append(longer)
    else:
        out.append("All runs that can be compared have the same number of processes: runs with more or fewer make a curve.")
    out += _spread(known, best)
    out += _hardware(known)
    if len({run.start.get("batch_size") for run in known}) > 1:
        out.append("The global batch is constant, so each process has a smaller batch (strong scaling).")
    elif len(best) > 1:
        out.append("The batch per process is constant, so the global batch grows (weak scaling).")
    return out + [f"{run.name}: ddp is not written yet, so each process trained alone and none waited for another."
                  for run in known if "ddp" in run.unwritten]


def _spread(known: Sequence[Run], best: Sequence[Run]) -> list[str]:
    """Runs that should be as fast as each other, and are not."""
    out = []
    for run in best:
        count, speed = run.start["world_size"], run.numbers["images_per_second"]
        slowest = min(other.numbers["images_per_second"] for other in known if other.start["world_size"] == count)
        if speed > SPREAD * slowest:
            out.append(f"Runs of {words.counted(count, 'process', 'processes')} that should be equally fast ran at "
                       f"{words.number(slowest)} to {words.number(speed)} {run.unit}/s: was the machine busy with something "
                       "else? The fastest counts.")
    return out


def _longer(first: Run, last: Run) -> str:
    """Which phase of a step has become longer by most."""
    grown = {phase: last.numbers.get(phase, 0.0) - first.numbers.get(phase, 0.0) for phase in PHASES}
    phase, by = max(grown.items(), key=lambda item: item[1])
    whole = last.numbers["step_seconds"] - first.numbers["step_seconds"]
    if whole <= LONGER * first.numbers["step_seconds"] or by <= 0:
        return ""
    why = ", where gradients are all-reduced" if phase == "backward" else ""
    return (f"A step takes {words.seconds(whole)} longer; {NAMES[phase]} grew most (by {words.seconds(by)}){why}.")


def _hardware(known: Sequence[Run]) -> list[str]:
    """Whether more processes had more hardware: without a GPU each, they share the cores."""
    shared = [run for run in known if not run.on_gpu and run.start["world_size"] > 1]
    cores = known[0].machine.get("cores_allowed")
    if not shared or not isinstance(cores, int):
        return []
    return [f"No GPU: the processes of a node share its {words.counted(cores, 'core')}, and one process already uses "
            "all of them. This measures the cost of sharing; the dashed line assumes separate hardware for each process."]


def _figure(own: Sequence[Run], others: Sequence[Run]) -> str:
    best, unit = fastest(own), own[0].unit
    counts = sorted({run.start["world_size"] for run in (*own, *others)})
    most, doubling = own[-1].start["world_size"], counts[-1] >= DOUBLING * counts[0]
    # Each doubling takes as much room on both axes then: the ideal stays a straight line.
    least = own[0].start["world_size"] if doubling else 0
    curve = [(count, run.numbers["images_per_second"]) for count, run in best.items()]
    ideals = [(count, ideal(own, count) if count else 0.0) for count in (least, most)]
    lines = [Line("ideal", ideals, GREY, dash=(6, 5)), Line(f"{unit}/s, with the efficiency", curve, SPEED, width=2.5)]
    for some, colour in ((others, GREY), (own, SPEED)):
        dots = [(run, run.start["world_size"], run.numbers["images_per_second"]) for run in some]
        tips = [f"{run.name}, {words.counted(count, 'process', 'processes')}: {words.number(speed)} {unit}/s"
                for run, count, speed in dots]
        lines.append(Line("can't be compared", [dot[1:] for dot in dots], colour, marker="o", width=0, size=10, tips=tips,
                          shown=bool(others) and some is others))
    # The efficiency is written below its dot, for the dashed line is above, unless the axis is there.
    low = 1.2 * curve[0][1] if doubling else 0.12 * max(y for line in lines for _, y in line.points)
    marks = [Mark(count, speed, words.share(efficiency(own, best[count])), below=speed > low) for count, speed in curve]
    speeds = charts.lines(lines, x="processes" + (", each doubling as wide" if doubling else ""), y=f"{unit}/s", x_ticks=counts,
                          log="xy" if doubling else "", marks=marks)
    steps = [(str(count), {NAMES[phase]: run.numbers.get(phase, 0.0) * 1000 for phase in PHASES}) for count, run in best.items()]
    parts = charts.stacked(steps, title="time per step, by the number of processes", axis="ms", total=False,
                           high=min(46, 230 / len(steps)), say=lambda value: f"{words.number(value)} ms")
    return charts.grid(speeds, parts).html()
