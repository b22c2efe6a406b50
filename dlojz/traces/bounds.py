"""What the roofline allows for a step: the sum over its operators of the larger of FLOPs / peak and bytes / bandwidth.

    step = bounds.step_of(facts)                     what each operator of one step has to do, from a trace of a CPU or a GPU
    found = bounds.bound(step, roofs.of("H200"))     by class of operator, on that device
    found.least, found.expected                      seconds

An operator of a class reaches a part of its roof that hardly depends on the network (`roofs.Roof.rates`, measured): with it, the
bound becomes what to expect of eager PyTorch on a device that is not here. A step at another batch size follows from the steps at
two sizes: operations and bytes of each operator grow in proportion to the batch, except those of its weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..system.errors import UsageError
from . import work
from .facts import Facts
from .intervals import Spans
from .loop import called
from .reading import Call
from .roofs import Roof
from .work import CLASSES, PRODUCT_CLASSES, Work

LARGE = 10e-6  # seconds by the roofline: operators below are mostly start


@dataclass(frozen=True)
class Step:
    """The operators of one step, and what they took: seconds of the step, and of each class as far as it was seen."""

    works: Sequence[Work]
    seconds: float | None = None
    took: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A class of operators in a step. ``least``: seconds by the roofline; ``expected``: by what such operators reach; ``took``:
    as measured in the trace, None where nothing was."""

    kind: str
    count: int
    flops: float
    bytes: float
    least: float
    expected: float
    took: float | None

    @property
    def intensity(self) -> float:
        """FLOP per byte."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Measured:
    """What the operators of one class took in a step on a GPU, those that memory limits and those that arithmetic does apart."""

    kind: str
    by_memory: bool
    dtype: str
    flops: float
    bytes: float
    seconds: float


@dataclass(frozen=True)
class Bound:
    roof: Roof
    rows: Sequence[Row]
    seconds: float | None
    dtype: str

    @property
    def flops(self) -> float:
        """Of convolutions, matrix products and attention."""
        return sum(row.flops for row in self.rows if row.kind in PRODUCT_CLASSES)

    @property
    def least(self) -> float:
        return sum(row.least for row in self.rows)

    @property
    def expected(self) -> float:
        """Seconds of a step of eager PyTorch: those of the device, or those in which the host launches its operators."""
        launched = sum(row.count for row in self.rows if row.kind != "optimizer")  # which has one kernel for many parameters
        return max(sum(row.expected for row in self.rows), self.roof.host * launched)

    def of_peak(self, seconds: float) -> float:
        """What fraction of the roof's peak the products of a step of so many seconds reach."""
        return self.flops / seconds / self.roof.peak(self.dtype) if seconds else 0.0


def step_of(facts: Facts) -> Step:
    """The operators of a trace's last step, and what those of a step took in the mean of its steps; all of it where no step is
    marked. Raises UsageError where the trace has no sizes."""
    marked = [(step.begin, step.end) for step in facts.trace.steps]
    every = (marked if facts.on_gpu else facts.spans) or [(facts.trace.begin, facts.trace.end)]
    found, seconds = _with_seconds(facts, every)
    last = [one for call, one in found if call.begin >= every[-1][0]]
    if not last:
        raise UsageError("the trace has no sizes of operators, or they are compiled into others: profile a run without "
                         "--compile, with record_shapes=True (train.py --profile has it)")
    took: dict[str, float] = defaultdict(float)
    for call, one in found:
        took[one.kind] += seconds.get(id(call), 0.0) / len(every)
    return Step(last, facts.seconds, dict(took))


def at_batch(small: Step, large: Step, sizes: tuple[int, int], batch: int) -> Step:
    """A step at ``batch``, from steps at two sizes. Raises UsageError where they are not the same network."""
    pairs = list(_pairs(small.works, large.works))
    apart = sum(None in pair for pair in pairs)
    if sizes[0] == sizes[1] or apart > len(pairs) / 50:
        raise UsageError("for another batch size, give two runs with the same network and switches that differ in theirs")
    part = (batch - sizes[0]) / (sizes[1] - sizes[0])

    def at(one: Work | None, two: Work | None, what: str) -> float:
        if one is None or two is None:
            return getattr(one or two, what) * batch / sizes[one is None]
        return max(0.0, getattr(one, what) + part * (getattr(two, what) - getattr(one, what)))

    return Step([Work((one or two).kind, at(one, two, "flops"), at(one, two, "bytes"), (one or two).dtype) for one, two in pairs])


def _pairs(small: Sequence[Work], large: Sequence[Work]) -> Iterator[tuple[Work | None, Work | None]]:
    """The same operators of two steps. A copy may be in one of them alone: a slice of a batch of one row needs none."""
    small, large = list(small)[::-1], list(large)[::-1]
    while small or large:
        one, two = small[-1] if small else None, large[-1] if large else None
        if one and two and (one.kind, one.dtype) == (two.kind, two.dtype):
            yield small.pop(), large.pop()
        elif two and (two.kind == "copy" or not one or one.kind != "copy"):
            yield None, large.pop()
        else:
            yield small.pop(), None


def bound(step: Step, roof: Roof) -> Bound:
    """What ``roof`` allows for this step. Measured seconds are kept only where the step says some."""
    groups: dict[str, list[Work]] = defaultdict(list)
    by_type: dict[str, float] = defaultdict(float)
    for one in step.works:
        groups[one.kind].append(one)
        by_type[one.dtype] += one.flops * (one.kind in PRODUCT_CLASSES)
    rows = []
    for kind in CLASSES:
        if not (some := groups.get(kind)):
            continue
        least = [_least(one, roof) for one in some]
        expected = sum(roof.expected(seconds, by_memory, kind) for seconds, by_memory in least)
        rows.append(Row(kind, len(some), sum(one.flops for one in some), sum(one.bytes for one in some),
                        sum(seconds for seconds, _ in least), expected, step.took.get(kind)))
    return Bound(roof, rows, step.seconds, max(by_type, key=by_type.get, default="float"))


def _least(one: Work, roof: Roof) -> tuple[float, bool]:
    """Seconds, and whether memory sets them. What is no product computes on the plain cores, and always waits for memory."""
    arithmetic = one.flops / roof.peak(one.dtype) if one.kind in PRODUCT_CLASSES else 0.0
    memory = one.bytes / roof.memory
    return max(arithmetic, memory), memory >= arithmetic


def rates(steps: Sequence[Measured], roof: Roof) -> dict[str, tuple[float, float]]:
    """By class of operator, what fraction of the peak and of the bandwidth the operators of these steps reach, without those that
    are mostly start."""
    least, took = defaultdict(lambda: [0.0, 0.0]), defaultdict(lambda: [0.0, 0.0])
    for row in steps:
        least[row.kind][row.by_memory] += row.bytes / roof.memory if row.by_memory else row.flops / roof.peak(row.dtype)
        took[row.kind][row.by_memory] += row.seconds
    found = {}
    for kind in least:
        pair = [one / other if other else 0.0 for one, other in zip(least[kind], took[kind])]
        found[kind] = (pair[0] or pair[1], pair[1] or pair[0])
    return found


def measured(facts: Facts, roof: Roof) -> list[Measured]:
    """What the large operators of the last step of a GPU's trace took, by class and by what limits them."""
    groups: dict[tuple, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    last = facts.trace.steps[-1] if facts.trace.steps else facts.trace
    found, seconds = _with_seconds(facts, [(last.begin, last.end)])
    for call, one in found:
        least, by_memory = _least(one, roof)
        if least >= LARGE and id(call) in seconds:
            group = groups[one.kind, by_memory, one.dtype]
            for at, value in enumerate((one.flops, one.bytes, seconds[id(call)])):
                group[at] += value
    return [Measured(*key, *group) for key, group in groups.items()]


def _with_seconds(facts: Facts, spans: Spans) -> tuple[list[tuple[Call, Work]], dict[int, float]]:
    """The work of some stretches of a trace, and the seconds of each of its calls on the device."""
    trace = facts.trace
    found = work.of(called(trace, spans))
    if not facts.on_gpu:
        return found, {id(call): call.seconds for call, _ in found}
    known, seconds = {id(call) for call, _ in found}, defaultdict(float)
    for item in trace.work:
        if item.call is not None and (call := next((id(call) for call in item.call.around() if id(call) in known), None)):
            seconds[call] += item.seconds
    return found, seconds
