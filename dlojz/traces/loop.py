"""What the thread that trains was doing when: loading, in which phase, in which operator, asked for by which line."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from . import intervals
from .facts import Hole, Reads
from .intervals import Spans, near
from .reading import STEP, Call, Trace

LOADER = "enumerate(DataLoader)"
OF_COLLECTIVES = ("c10d::", "record_param_comms")
RANGES = (STEP, LOADER, "Optimizer.", "DistributedDataParallel.", "gloo:", "mpi:", "nccl:")  # PyTorch's own
REDUCER = "torch.distributed.ddp.reducer::"  # what DDP does at the end of a backward pass, when its buckets have come
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
    reducer = [call for call in trace.calls if call.kind == "op" and call.name.startswith(REDUCER)]
    for step in trace.steps:
        inside = [call for call in engine if step.begin <= call.begin < step.end]
        if inside:
            begin = min(call.begin for call in inside)
            end = max(call.end for call in (*inside, *(call for call in reducer if begin <= call.begin < step.end)))
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


def has_line(call: Call) -> bool:
    """Whether this is a function of Python that is not PyTorch's own."""
    return call.kind == "python" and "): " in call.name and "torch/" not in call.name and not call.name.startswith("<")


def line_of(call: Call) -> str:
    """``train.py(212): train``: the nearest line of Python that is not PyTorch's own, where stacks were recorded."""
    return next((around.name for around in call.around() if has_line(around)), "")


def in_range(call: Call, name: str) -> bool:
    return any(around.kind == "range" and around.name.startswith(name) for around in call.around())


def called(trace: Trace, spans: Spans) -> list[Call]:
    """The operators of the training itself: without those of the loader and of collectives."""
    return [call for call in trace.calls if call.kind == "op" and intervals.holds(spans, call.begin)
            and not call.name.startswith(OF_COLLECTIVES) and not in_range(call, LOADER)]


def reads(made: Iterable[Call], steps: int, phase: Phases) -> Reads | None:
    """The values that Python asked tensors for."""
    # Optimizers read their counters, which are on the CPU in any case.
    found = [phase(call.begin) for call in made
             if call.name == "aten::_local_scalar_dense" and not in_range(call, "Optimizer.step")]
    return Reads(len(found) / steps, max(set(found), key=found.count)) if found else None


def updates(trace: Trace, spans: Spans) -> int:
    return sum(1 for call in trace.calls if call.kind == "range" and call.name.startswith("Optimizer.step")
               and intervals.holds(spans, call.begin))


def hole(trace: Trace, gaps: Spans, steps: int) -> Hole:
    """What is in the gaps between operators: by function, as far as stacks were recorded, and by what the program has named."""
    lines, named, whole = defaultdict(float), defaultdict(float), defaultdict(float)
    for call in trace.calls:
        if not has_line(call) and (call.kind != "range" or call.name.startswith(RANGES)):
            continue
        inside = intervals.total(intervals.common([(call.begin, call.end)], near(gaps, call.begin, call.end)))
        if call.kind == "range":
            named[call.name] += inside
            whole[call.name] += call.seconds
        elif inside:
            lines[call.name] += inside
            outer = next((around.name for around in call.around() if has_line(around)), None)
            if outer is not None:
                lines[outer] -= inside
    seconds = intervals.total(gaps)
    most = sorted(lines.items(), key=lambda pair: -pair[1])[:3]
    where = min((name for name, inside in named.items() if inside > 0.5 * seconds), key=whole.get, default="")
    return Hole(seconds / steps, tuple((name, own / steps) for name, own in most if own >= 0.1 * seconds),
                where.removeprefix("dlojz."))
