"""What the thread that trains was doing when: loading, in which phase, in which operator, asked for by which line."""

from __future__ import annotations

from bisect import bisect_right

from . import intervals
from .intervals import Spans
from .reading import Call, Trace

LOADER = "enumerate(DataLoader)"
WRAPPERS = ("autograd::", "torch::autograd")  # what the engine puts around the operators of a backward pass


def cpu_window(trace: Trace) -> tuple[float, float]:
    """From the first marked step's begin to the last one's end; of a trace without any, all of it."""
    if trace.steps:
        return trace.steps[0].begin, trace.steps[-1].end
    return (trace.calls[0].begin if trace.calls else 0.0), trace.end


def loader(trace: Trace) -> Spans:
    """When the process waited for its loader: in the DataLoader's ``next``, else in the Chronometer's ``idle``."""
    ranges = [call for call in trace.calls if call.kind == "range"]
    waits = [call for call in ranges if call.name.startswith(LOADER)] or [call for call in ranges if call.name == "dlojz.idle"]
    return intervals.union((call.begin, call.end) for call in waits)


def phases(trace: Trace) -> list[tuple[str, float, float]]:
    """The phases of the training loop, in order: as the Chronometer named them, else as operators show them."""
    marked = [(call.name.removeprefix("dlojz."), call.begin, call.end) for call in trace.calls
              if call.kind == "range" and call.name.startswith("dlojz.")]
    if marked:
        # Before the first mark the step has begun already: it waits for its batch.
        first = marked[0][1]
        begin = trace.steps[0].begin if trace.steps else first
        return [*(("idle", *wait) for wait in intervals.within(loader(trace), begin, first)), *marked]
    found = [("idle", begin, end) for begin, end in loader(trace)]
    found += [("update", call.begin, call.end) for call in trace.calls
              if call.kind == "range" and call.name.startswith("Optimizer.step")]
    engine = [call for call in trace.calls if call.kind == "op" and call.name.startswith("autograd::engine::evaluate_function")]
    for step in trace.steps:
        inside = [call for call in engine if step.begin <= call.begin < step.end]
        if inside:
            begin, end = min(call.begin for call in inside), max(call.end for call in inside)
            found.append(("backward", begin, end))
            before = max((until for _, _, until in found if step.begin <= until <= begin), default=step.begin)
            found.append(("forward", before, begin))
    return sorted(found, key=lambda phase: phase[1])


class Phases:
    """Which phase a moment of the CPU's time is in."""

    def __init__(self, found: list[tuple[str, float, float]]):
        self.found = found
        self.begins = [begin for _, begin, _ in found]

    def __call__(self, moment: float) -> str:
        at = bisect_right(self.begins, moment) - 1
        return self.found[at][0] if at >= 0 and moment < self.found[at][2] else ""


def step_of(trace: Trace, moment: float) -> int | None:
    at = bisect_right([step.begin for step in trace.steps], moment) - 1
    return at if at >= 0 else None


def outermost(call: Call) -> Call | None:
    """The operator that people wrote: the outermost one around a call, without the engine's wrappers in a backward pass."""
    found = None
    for around in call.around():
        if around.kind == "op" and not around.name.startswith(WRAPPERS) and "Backward" not in around.name:
            found = around
    return found


def innermost(call: Call | None) -> Call | None:
    return next((around for around in call.around() if around.kind == "op"), None) if call is not None else None


def line_of(call: Call) -> str:
    """``train.py(212): train``: the nearest line of Python that is not PyTorch's own, where stacks were recorded."""
    for around in call.around():
        if around.kind == "python" and "): " in around.name and "torch/" not in around.name and not around.name.startswith("<"):
            return around.name
    return ""


def in_range(call: Call, name: str) -> bool:
    return any(around.kind == "range" and around.name.startswith(name) for around in call.around())
