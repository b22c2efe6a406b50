"""Figures for the notebook about the profiler."""

from __future__ import annotations

import os
import time
import warnings
from dataclasses import dataclass

from ...jobs.job import Job
from ...system.errors import UsageError
from ...ui import charts, tables
from ...ui.charts import Bracket, Lane, Span
from ...ui.page import View, headline, quiet
from ...ui.palette import BLUE, CARE, COLLECTIVE, GREY, ORANGE, PHASE, SKY, VERMILLION

# Before it first runs: the library under the profiler would write lines of its own below the cell, each time it begins and ends.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")

STATES = {"NONE": ("waits", GREY), "WARMUP": ("warms up: what it sees is thrown away", ORANGE), "RECORD": ("records", BLUE),
          "RECORD_AND_SAVE": ("records", BLUE)}


@tables.numbers(wait=(0, 1000), warmup=(0, 1000), active=(1, 1000), repeat=(0, 1000), steps=(1, 1000))
def schedule(wait: int = 5, warmup: int = 3, active: int = 5, repeat: int = 1, steps: int = 20) -> View:
    """What a profiler with this schedule does in each step of a run, as torch itself answers."""
    from torch.profiler import schedule as made

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without a warm-up torch warns; the figure says so in its own words
        plan = made(wait=wait, warmup=warmup, active=active, repeat=repeat)
    actions = [plan(step).name for step in range(steps)]
    written = [step for step, action in enumerate(actions, 1) if action == "RECORD_AND_SAVE"]
    title = f"schedule(wait={wait}, warmup={warmup}, active={active}, repeat={repeat}) in a run of {steps} steps"
    states = [_state(action, bool(repeat) and len([end for end in written if end < step]) == repeat)
              for step, action in enumerate(actions, 1)]
    spans = [Span(step - 1, step - 0.06, words, colour, action == "NONE", f"step {step}: {words}", str(step))
             for step, (action, (words, colour)) in enumerate(zip(actions, states), 1)]
    tens = [(at, min(at + 10, steps), (f"steps {at + 1} to {min(at + 10, steps)}", str(at + 1)))
            for at in range(0, steps, 10)] if steps > 30 else []  # where a number does not fit into its step
    brackets = [Bracket(end - active, end, "the trace is written at its end" if end == written[-1] else "") for end in written]
    chart = charts.timeline([Lane("step", spans, 34, tens)], axis=False, begin=0, end=steps, brackets=brackets)
    runs: list[tuple[int, int, str]] = []
    for step, (words, _) in enumerate(states, 1):
        first = runs.pop()[0] if runs and runs[-1][2] == words else step
        runs.append((first, step, words))
    lines = [f"  step{f's {first} to {last}' if last > first else f' {first}'}: {words}" for first, last, words in runs]
    notes = [_written(written, actions, plan(steps).name, active)]
    if not warmup:
        notes.append("Without a warm-up, what it takes to switch the profiler on is in the first recorded step: torch warns.")
    head = headline("What the profiler does in each step", title)
    return View("schedule", "\n".join([title, *lines, *notes]), lambda: head + chart.html() + "".join(map(quiet, notes)))


def _state(action: str, done: bool) -> tuple[str, str]:
    return ("is done", GREY) if done else STATES[action]


def _written(written: list[int], actions: list[str], at_end: str, active: int) -> str:
    """When the trace is written. A profiler that is recording when it is ended writes what it has."""
    ends = f"step{'s' * (len(written) > 1)} {' and '.join(map(str, written))}"
    said = [f"The trace is written at the end of {ends}."] if written else []
    if at_end.startswith("RECORD"):
        since = next((i for i, action in enumerate(reversed(actions)) if action != "RECORD"), len(actions))
        what = f"{since} of {active} steps" if since else "no step, only of what comes after the last one"
        said.append(f"The run ends while the profiler records: a trace is written then, of {what}.")
    return " ".join(said) or "No trace is written: the run is too short for this schedule."


@dataclass(frozen=True)
class Pattern:
    """Two steps of a run as a trace shows them: (begin, end, what) in percent of the figure, and what to try."""

    name: str
    cpu: tuple[tuple[float, float, str], ...]
    gpu: tuple[tuple[float, float, str], ...]
    shows: str
    tries: str


def _twice(*blocks: tuple[float, float, str]) -> tuple[tuple[float, float, str], ...]:
    return tuple((begin + shift, end + shift, what) for shift in (0, 50) for begin, end, what in blocks)


def _many(begin: float, end: float, every: float, long: float, what: str) -> tuple[tuple[float, float, str], ...]:
    count = round((end - begin) / every)
    return tuple((begin + i * every, begin + i * every + long, what) for i in range(count))


KINDS = {"loading": ("waits for the loader", PHASE["loading"]), "python": ("Python: starts kernels", GREY),
         "sync": ("waits for the GPU", CARE), "product": ("convolution, matrix product", BLUE),
         "other": ("elementwise, norm, sum", SKY), "collective": ("collective", COLLECTIVE)}

PATTERNS = (
    Pattern("fed too slowly", _twice((0, 8, "python"), (8, 50, "loading")), _twice((2, 11, "product"), (11, 17, "other")),
            "the GPU has nothing to do while the process waits for its loader",
            "more workers (--num-workers); less work for each item, and none of it twice"),
    Pattern("launch-bound", _many(0, 99, 3, 2.6, "python"), _many(1.5, 99, 3, 0.9, "other"),
            "the CPU's row is full; many short kernels, and a gap after each",
            "a larger batch; fewer and larger kernels: batched operations, fused optimizers, --compile, CUDA graphs"),
    Pattern("synchronising too often",
            _twice(*(block for at in (0, 12.5, 25, 37.5) for block in ((at, at + 5, "python"), (at + 5, at + 12, "sync")))),
            _twice(*(block for at in (0, 12.5, 25, 37.5) for block in ((at + 4, at + 8, "product"), (at + 8, at + 12, "other")))),
            "the CPU waits for the GPU, and afterwards the GPU for the CPU",
            "no value of a tensor in the loop (.item(), .cpu(), print, if tensor > 0); keep sums on the GPU, read them seldom"),
    Pattern("limited by communication", _twice((0, 12, "python"), (12, 49, "sync")),
            _twice((2, 14, "product"), (14, 20, "other"), (20, 49, "collective")),
            "collectives run with nothing beside them",
            "send less often (larger batch, accumulation with no_sync) or less (bf16), or beside the backward pass"),
    Pattern("limited by memory bandwidth", _twice((0, 14, "python"), (14, 49.4, "sync")),
            _twice((1, 9, "product"), (9, 28, "other"), (28, 35, "product"), (35, 50.6, "other")),
            "the GPU is busy, mostly with kernels that compute little for each byte",
            "fewer bytes: half precision, channels-last; fewer passes over them: --compile, --fused"),
    Pattern("limited by arithmetic", _twice((0, 14, "python"), (14, 49.4, "sync")),
            _twice((1, 22, "product"), (22, 25, "other"), (25, 47, "product"), (47, 50.6, "other")),
            "the GPU is busy, mostly with convolutions and products",
            "tensor cores: --amp, --tf32, sizes that are multiples of 8. Is all that done, more GPUs"),
)


def patterns() -> View:
    """Six ways in which a step is slow: what a trace shows of each, and what to try."""
    drawn = [charts.timeline([Lane(name, [Span(begin, min(end, 100.4) - 0.1, *KINDS[what]) for begin, end, what in blocks], 17)
                              for name, blocks in (("CPU", pattern.cpu), ("GPU", pattern.gpu))],
                             title=pattern.name, aside=pattern.shows, axis=False, gap=4, end=100.4, legend=False)
             for pattern in PATTERNS]
    head, note = "Six patterns", "Two steps of each, drawn and not measured."
    text = [head, *(f"  {each.name}: {each.shows}. Try: {each.tries}." for each in PATTERNS)]
    return View("patterns", "\n".join(text), lambda: headline(head, note) + charts.legend(KINDS.values()) + "".join(
        chart.html() + quiet(f"Try: {pattern.tries}.") for chart, pattern in zip(drawn, PATTERNS)))


@tables.numbers(operations=(1, 100_000), repeat=(1, 1000))
def cost(operations: int = 300, repeat: int = 7) -> View:
    """Times small operations on the CPU without a profiler, and with one that records more and more."""
    import torch

    options = {"no profiler": None, "a profiler": {}, "and shapes": {"record_shapes": True},
               "and Python's stacks": {"record_shapes": True, "with_stack": True}}
    found = [_microseconds(torch, asked, operations, repeat) for asked in options.values()]
    note = f"{operations} additions of 8 numbers, the fastest of {repeat} tries. The larger an operation, the less it matters."
    return tables.bars("What it costs to be watched", ["", *options], [("one operation", "µs", found)], VERMILLION, [note])


def _microseconds(torch, asked: dict | None, operations: int, repeat: int) -> float:
    numbers, best = torch.zeros(8), float("inf")
    cpu = [torch.profiler.ProfilerActivity.CPU]
    for _ in range(repeat):
        profiler = torch.profiler.profile(activities=cpu, **asked) if asked is not None else None
        if profiler is not None:
            profiler.start()
        began = time.perf_counter()
        for _ in range(operations):
            numbers.add_(1)
        best = min(best, time.perf_counter() - began)
        if profiler is not None:
            profiler.stop()
    return best / operations * 1e6


def counted(*jobs: Job | str) -> View:
    """What a step of each profiled run comes to: operators, values that Python asked for, kernels, waits, side by side."""
    from ... import traces
    from ...jobs import runs

    names, columns, notes = [], [], []
    for run in runs.several(*jobs):
        try:
            facts = traces.analyse(traces.read(run.folder))
        except UsageError as error:
            notes.append(f"{run.name}: {error}")
            continue
        names.append(run.name)
        columns.append(_numbers(facts))
        if not facts.marked:
            notes.append(f"{run.name}: no step is marked in its trace: its numbers are for all of it")
    if not columns:
        title = "Counted in the traces: nothing"
        return View("counted", "\n".join([title, *notes]), headline(title) + "".join(map(quiet, notes)))
    rows = [(name, unit, [column.get((name, unit)) for column in columns]) for name, unit in dict.fromkeys(
        key for column in columns for key in column)]
    rows = [row for row in rows if any(row[2])]
    return tables.bars("Counted in the traces, for one step", ["", *names], rows, BLUE, notes)


def _numbers(facts) -> dict[tuple[str, str], float]:
    """As `views.trace` counts them: operators of the training itself, not the loader's."""
    found = {("per step", "ms"): facts.seconds * 1000, ("waits for the loader", "ms"): facts.loader * 1000,
             ("operators", "calls"): facts.called,
             ("values asked for", "aten::item"): facts.reads.count if facts.reads is not None else 0.0}
    if facts.on_gpu:
        found["the GPU is busy", "%"] = facts.busy * 100
    if run := facts.launches:
        found |= {("kernels", ""): run.kernels, ("a kernel runs", "µs"): run.runs * 1e6}
        found["a launch every", "µs"] = run.every * 1e6
    return found
