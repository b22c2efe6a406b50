"""What a trace says of a step: who worked, who waited, and for whom.

On a GPU each moment of the measured stretch gets one name, the first that fits:

``compute``          a kernel runs that is no collective
``communication``    a collective runs, and nothing beside it (on the CPU's threads, with gloo)
``copy``             a copy between host and device runs, and nothing beside it; or the GPU has run dry behind the copy of a batch
                     that held the CPU
and where the GPU has nothing to do
``loader``           the process waits for its loader
``synchronisation``  the CPU had waited for the GPU when the GPU ran dry: it could not queue work ahead
``launch``           the CPU had not queued the next kernel yet
``between``          the next kernel was queued already: what the GPU needs between two kernels

On a CPU the operators are the work: ``compute``, ``calls`` (operators so short that they are mostly PyTorch's work for a call),
``loader``, ``communication`` (a collective is under way and no operator runs), ``other`` (Python, and what is no operator).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from . import intervals, kernels, products
from .intervals import Spans
from .products import Product
from .reading import PRODUCTS, Call, Trace, Work

PHASES = ("idle", "copy", "forward", "backward", "update")
LOADER = "enumerate(DataLoader)"
# Large products reach about this part of a card's peak, while plain copies reach nearly all of its bandwidth: so below this part
# of the ratio of the two, memory decides.
REACHED = 0.7
BATCH = 1e6  # bytes: what is sent to the GPU at once and is larger is a batch, what is smaller a value
CLOCKS = 10e-6  # seconds by which the clocks of CPU and GPU in a trace may differ, and a returning call may be late
HALF = re.compile(r"bf16|f16f16|bfloat16|__half|c10::Half|fp16|nvjet_[ht]")  # kernels whose names tell of two bytes a number
SYNCS = frozenset(("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemcpy2D",
                   "cudaFree", "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "hipStreamSynchronize",
                   "hipDeviceSynchronize", "hipEventSynchronize", "hipMemcpyWithStream", "hipMemcpy"))
# Seconds: an operator of a CPU that takes less computes next to nothing: dispatch, allocation and profiler take a few µs each.
TINY = 20e-6
INTERRUPTED = 2  # a step of a CPU whose own work takes so many times what is usual was interrupted by something else
WRAPPERS = ("autograd::", "torch::autograd")  # what the engine puts around the operators of a backward pass
ARITHMETIC_OPERATORS = ("conv", "mm", "linear", "attention", "matmul", "gemm", "einsum")


@dataclass(frozen=True)
class Row:
    """Kernels or operators of one name: seconds and calls in a step."""

    name: str
    seconds: float
    count: float
    kind: str = ""
    tensor_cores: bool = False
    example: str = ""


@dataclass(frozen=True)
class Missed:
    """An operator that could compute on tensor cores and does not: seconds in a step, and why."""

    operator: str
    dtype: str
    seconds: float
    count: float
    why: str


@dataclass(frozen=True)
class Copies:
    """Copies of one kind in a step: ``HtoD``, ``DtoH``, …; ``memory``: pinned, pageable or device; seconds and bytes."""

    direction: str
    memory: str
    count: float
    bytes: float
    seconds: float

    @property
    def speed(self) -> float:
        """Bytes a second."""
        return self.bytes / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Sync:
    """Waits of the CPU for the GPU that have one cause: times and seconds of waiting in a step, and how long the GPU then had
    nothing to do. ``asked``: the operator or call; ``where``: the range it is in; ``line``: of the Python code, if known."""

    asked: str
    where: str
    line: str
    count: float
    seconds: float
    idle: float


@dataclass(frozen=True)
class Launches:
    """How the CPU feeds the GPU: kernels in a step, seconds between launches, seconds a kernel runs and waits for its turn
    (medians), how many are queued at a launch on average, and at which part of the launches the queue was empty."""

    kernels: float
    every: float
    runs: float
    delay: float
    depth: float
    dry: float


@dataclass(frozen=True)
class Reads:
    """On a CPU: how many values are read out of tensors in a step (``.item()``, ``if tensor:``), and in which phase most of them
    are. On a GPU each would be a wait."""

    count: float
    where: str


@dataclass(frozen=True)
class Collective:
    """One collective: kind, bytes (None: not recorded), when, for how long beside other work, in which phase it began."""

    kind: str
    bytes: float | None
    begin: float
    end: float
    hidden: float
    phase: str
    step: int | None
    backend: str

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass
class Facts:
    """What `analyse` found; seconds are those of a step, on average over ``steps`` steps between ``begin`` and ``end``."""

    trace: Trace
    begin: float
    end: float
    steps: int
    shares: dict[str, float] = field(default_factory=dict)
    busy: float = 0.0
    phases: list[tuple[str, float, float]] = field(default_factory=list)
    kinds: dict[str, float] = field(default_factory=dict)
    kernels: list[Row] = field(default_factory=list)
    operators: list[Row] = field(default_factory=list)
    tensor_cores: float = 0.0
    half: float = 0.0
    missed: list[Missed] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    syncs: list[Sync] = field(default_factory=list)
    loader: float = 0.0
    launches: Launches | None = None
    starved: dict[str, float] = field(default_factory=dict)  # seconds of ``launch`` in a step, by phase
    reads: Reads | None = None
    collectives: list[Collective] = field(default_factory=list)
    cpu_work: float = 0.0
    arithmetic: float = 0.0
    waits_for_memory: float = 0.0
    achieved: dict[str, float] = field(default_factory=dict)
    compute_spans: Spans = field(default_factory=list)
    spans: Spans = field(default_factory=list)  # what was looked at, of the time between begin and end
    interrupted: int = 0

    @property
    def seconds(self) -> float:
        """A step."""
        return intervals.total(self.spans) / self.steps

    @property
    def notes(self) -> list[str]:
        """What to know before believing the numbers."""
        left = f"{self.interrupted} of {len(self.trace.steps)} steps did their work more than {INTERRUPTED} times as slowly as " \
               "the one in the middle, as if something else had the cores: they are left out"
        return [*self.trace.notes, *([left] if self.interrupted else [])]

    @property
    def on_gpu(self) -> bool:
        return self.trace.on_gpu

    def share(self, name: str) -> float:
        """Which part of a step one of ``shares`` takes."""
        return self.shares.get(name, 0.0) / self.seconds if self.seconds else 0.0


def analyse(trace: Trace) -> Facts:
    """Everything the views and the diagnosis need."""
    return (_gpu if trace.on_gpu else _cpu)(trace)


def _cpu_window(trace: Trace) -> tuple[float, float]:
    if trace.steps:
        return trace.steps[0].begin, trace.steps[-1].end
    return (trace.calls[0].begin if trace.calls else 0.0), trace.end


# --- who did what, in the time of the CPU ---------------------------------------------------------------------------------


def loader(trace: Trace) -> Spans:
    """When the process waited for its loader: in the DataLoader's ``next``, else in the Chronometer's ``idle``."""
    waits = [call for call in trace.calls if call.kind == "range" and call.name.startswith(LOADER)]
    return intervals.union((call.begin, call.end) for call in waits or _named(trace, "dlojz.idle"))


def _named(trace: Trace, name: str) -> list[Call]:
    return [call for call in trace.calls if call.kind == "range" and call.name == name]


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


def _step_of(trace: Trace, moment: float) -> int | None:
    at = bisect_right([step.begin for step in trace.steps], moment) - 1
    return at if at >= 0 else None


def _outermost(call: Call) -> Call | None:
    """The operator that people wrote: the outermost one around a call, without the engine's wrappers in a backward pass."""
    found = None
    for around in call.around():
        if around.kind == "op" and not around.name.startswith(WRAPPERS) and "Backward" not in around.name:
            found = around
    return found


def _innermost(call: Call | None) -> Call | None:
    return next((around for around in call.around() if around.kind == "op"), None) if call is not None else None


def _line(call: Call) -> str:
    """``train.py(212): train``: the nearest line of Python that is not PyTorch's own, where stacks were recorded."""
    for around in call.around():
        if around.kind == "python" and "): " in around.name and "torch/" not in around.name and not around.name.startswith("<"):
            return around.name
    return ""


def _rows(groups: dict[str, list[float]], steps: int, more=lambda name: {}) -> list[Row]:
    rows = [Row(name, sum(seconds) / steps, len(seconds) / steps, **more(name)) for name, seconds in groups.items()]
    return sorted(rows, key=lambda row: -row.seconds)


# --- a GPU ---------------------------------------------------------------------------------------------------------------


def _gpu(trace: Trace) -> Facts:
    begin, end, steps = _gpu_window(trace)
    facts = Facts(trace, begin, end, steps, phases=phases(trace), spans=[(begin, end)])
    work = [item for item in trace.work if item.begin < end and item.end > begin]
    told = {item.name: kernels.kind(item.name) for item in work if item.kind == "kernel"}
    collective = [item for item in work if item.kind == "kernel" and told[item.name].name == "collective"]
    copying = [item for item in work if item.kind == "memcpy" and not _on_device(item)]
    others = {id(item) for item in (*collective, *copying)}
    computing = [item for item in work if id(item) not in others]
    facts.compute_spans = compute = _spans(computing, begin, end)
    communication = intervals.minus(_spans(collective, begin, end), compute)
    copies = intervals.minus(intervals.minus(_spans(copying, begin, end), compute), communication)
    facts.busy = intervals.total(_spans([item for item in work if item.kind == "kernel"], begin, end)) / (end - begin)
    sent = intervals.common(copies, _sending(trace))  # gloo takes its way through the host
    facts.shares = {"compute": intervals.total(compute), "communication": intervals.total(communication) + intervals.total(sent),
                    "copy": intervals.total(copies) - intervals.total(sent)}
    idle = intervals.minus([(begin, end)], intervals.union([*compute, *communication, *copies]))
    syncs = waits(trace)
    blame = _blame(trace, work, idle, syncs, Phases(facts.phases))
    facts.shares["communication"] += blame["communication"]
    facts.shares["copy"] += blame["copy"]
    facts.shares |= {name: blame[name] for name in ("loader", "synchronisation", "launch", "between")}
    facts.shares = {name: seconds / steps for name, seconds in facts.shares.items()}
    facts.starved = {name: seconds / steps for name, seconds in blame["in"].items()}
    facts.syncs = _sync_rows(trace, syncs, blame["by"], steps, Phases(facts.phases))
    _kernel_rows(facts, [item for item in work if item.kind == "kernel"], told)
    _copy_rows(facts, [item for item in work if item.kind == "memcpy"])
    facts.launches = _launches(trace, facts)
    facts.collectives = sorted([*_nccl(facts, collective), *_gloo(facts, compute)], key=lambda one: one.begin)
    first, last = _cpu_window(trace)
    facts.loader = intervals.total(intervals.within(loader(trace), first, last)) / max(1, len(trace.steps))
    waiting = intervals.union([*loader(trace), *((call.begin, call.end) for call in syncs)])
    facts.cpu_work = (last - first - intervals.total(intervals.within(waiting, first, last))) / max(1, len(trace.steps))
    return facts


def _gpu_window(trace: Trace) -> tuple[float, float, int]:
    """From the end of the first step's work to the end of the last one's, on the GPU: whole steps with their waits, of which
    there is one less than were traced. Of a single step: all of it."""
    ends = step_ends(trace)
    if len(ends) > 1:
        first, last = min(ends), max(ends)
        if ends[last] > ends[first]:
            return ends[first], ends[last], last - first
    begin, end = _cpu_window(trace)
    if trace.steps:
        end = max([end, *ends.values()])
    else:
        begin, end = min(begin, trace.work[0].begin), max(item.end for item in trace.work)
    return begin, max(end, begin + 1e-9), max(1, len(trace.steps))


def step_ends(trace: Trace) -> dict[int, float]:
    """When the GPU has done the work of each step (by its place in ``trace.steps``), whoever queued it when."""
    ends: dict[int, float] = {}
    begins = [step.begin for step in trace.steps]
    for item in trace.work:
        asked = item.call.begin if item.call else item.begin
        at = bisect_right(begins, asked) - 1
        if at >= 0 and (item.call is None or asked < trace.steps[at].end):
            ends[at] = max(ends.get(at, 0.0), item.end)
    return ends


def _spans(work: Iterable[Work], begin: float, end: float) -> Spans:
    return intervals.within(intervals.union((item.begin, item.end) for item in work), begin, end)


def _on_device(item: Work) -> bool:
    return "DtoD" in item.name or "PtoP" in item.name or "AtoD" in item.name


def _pageable(item: Work) -> bool:
    return item.kind == "memcpy" and "Pageable" in item.name and not _on_device(item)


def waits(trace: Trace) -> list[Call]:
    """Calls in which the CPU waits for the GPU: synchronisations, and copies from or to pageable memory."""
    slow = {id(item.call) for item in trace.work if item.call is not None and _pageable(item)}
    return [call for call in trace.calls if call.kind == "cuda" and (call.name in SYNCS or id(call) in slow)]


def _blame(trace: Trace, work: list[Work], idle: Spans, syncs: list[Call], phase: Phases) -> dict:
    """Why the GPU had nothing to do, for each gap; ``by``: seconds for each synchronisation, ``in``: for launches by phase."""
    out = dict.fromkeys(("loader", "synchronisation", "launch", "between", "communication", "copy"), 0.0)
    out["by"], out["in"] = defaultdict(float), defaultdict(float)
    batches = _batches(trace)
    feeding = loader(trace)
    begins = [call.begin for call in syncs]
    starts = [item.begin for item in work]
    sending = _sending(trace)
    for begin, end in idle:
        waited = intervals.common([(begin, end)], _near(feeding, begin, end))
        sent = intervals.minus(intervals.common([(begin, end)], _near(sending, begin, end)), waited)
        out["loader"] += intervals.total(waited)
        out["communication"] += intervals.total(sent)
        rest = end - begin - intervals.total(waited) - intervals.total(sent)
        at = bisect_right(starts, end - 1e-9)
        following = work[at] if at < len(work) else None
        queued = following.call if following is not None else None
        if queued is not None and queued.end <= begin + 1e-9:
            out["between"] += rest
            continue
        sync = _holding(syncs, begins, begin)
        if sync is not None:
            asked = _outermost(sync)
            of_batch = id(sync) in batches or id(asked) in batches
            out["copy" if of_batch else "synchronisation"] += rest
            out["by"][id(sync)] += rest
        else:
            out["launch"] += rest
            out["in"][phase(queued.begin) if queued is not None else ""] += rest
    return out


def _batches(trace: Trace) -> set[int]:
    """The calls, and the operators around them, that send a batch to the GPU."""
    found: set[int] = set()
    for item in trace.work:
        size = (item.args or {}).get("bytes")
        if item.kind == "memcpy" and "HtoD" in item.name and item.call and isinstance(size, (int, float)) and size >= BATCH:
            found |= {id(item.call), id(_outermost(item.call) or item.call)}
    return found


def _inside(spans: Spans, moment: float) -> bool:
    at = bisect_right(spans, (moment, math.inf)) - 1
    return at >= 0 and moment < spans[at][1]


def _near(spans: Spans, begin: float, end: float) -> Spans:
    at = max(0, bisect_right(spans, (begin, begin)) - 1)
    return spans[at : bisect_right(spans, (end, end))]


def _holding(syncs: list[Call], begins: list[float], moment: float) -> Call | None:
    """The synchronisation that the CPU was in when the GPU ran dry."""
    at = bisect_right(begins, moment + CLOCKS)
    for call in syncs[max(0, at - 4) : at][::-1]:
        if call.end >= moment - CLOCKS:
            return call
    return None


def _sync_rows(trace: Trace, syncs: list[Call], by: dict, steps: int, phase: Phases) -> list[Sync]:
    begin, end = _cpu_window(trace)
    marked = max(1, len(trace.steps))
    groups: dict[tuple, list] = {}
    for call in syncs:
        if not begin <= call.begin < end:
            continue
        asked = _outermost(call)
        said = asked.name if asked is not None else CALLED.get(call.name, call.name)
        where = phase(call.begin)
        group = groups.setdefault((said, where, _line(call)), [set(), 0.0, 0.0])
        group[0].add(id(asked) if asked is not None else id(call))
        group[1] += call.seconds
        group[2] += by.get(id(call), 0.0)
    rows = [Sync(*key, len(asked) / marked, seconds / marked, idle / steps) for key, (asked, seconds, idle) in groups.items()]
    return sorted(rows, key=lambda row: (-row.idle, -row.seconds))


CALLED = {"cudaDeviceSynchronize": "torch.cuda.synchronize()", "cudaStreamSynchronize": "stream.synchronize()",
          "cudaEventSynchronize": "event.synchronize()", "cudaFree": "cudaFree (memory given back to the card)"}


def _kernel_rows(facts: Facts, found: list[Work], told: dict) -> None:
    steps = facts.steps
    by_name, by_operator, by_kind = defaultdict(list), defaultdict(list), defaultdict(float)
    of_product: dict[int, list[Work]] = defaultdict(list)
    calls: dict[int, Call] = {}
    on_cores = all_compute = 0.0
    for item in found:
        kind = told[item.name]
        by_name[item.name].append(item.seconds)
        by_kind[kind.name] += item.seconds / steps
        if kind.name == "collective":
            continue
        all_compute += item.seconds
        on_cores += item.seconds if kind.tensor_cores else 0.0
        operator = _innermost(item.call)
        by_operator[operator.name if operator is not None else "(no operator)"].append(item.seconds)
        if kind.arithmetic and operator is not None:
            calls[id(operator)] = operator
            of_product[id(operator)].append(item)
    facts.kernels = _rows(by_name, steps, lambda name: {"kind": told[name].name, "tensor_cores": told[name].tensor_cores})
    facts.operators = _rows(by_operator, steps)
    facts.kinds = dict(sorted(by_kind.items(), key=lambda pair: -pair[1]))
    facts.tensor_cores = on_cores / all_compute if all_compute else 0.0
    facts.half = sum(item.seconds for item in found if HALF.search(item.name)) / all_compute if all_compute else 0.0
    facts.missed = _missed(facts.trace, calls, of_product, told, steps)
    _bound_by(facts, calls, of_product, told)


def _bound_by(facts: Facts, calls: dict[int, Call], of_product: dict[int, list[Work]], told: dict) -> None:
    """How many seconds of the kernels are set by arithmetic, and how many by the memory of the card."""
    peaks = products.card(facts.trace.device)
    arithmetic = sum(seconds for kind, seconds in facts.kinds.items() if kind in kernels.ARITHMETIC)
    rest = sum(seconds for kind, seconds in facts.kinds.items() if kind not in kernels.ARITHMETIC and kind != "collective")
    flops = timed = thin = most = 0.0
    for number, items in of_product.items():
        counted = products.product(calls[number])
        if counted is None:
            continue
        seconds = sum(item.seconds for item in items)
        flops += counted.flops
        timed += seconds
        unit = _unit(counted, items, told)
        ratio = peaks.ratio(unit) if peaks is not None else None
        most += seconds * peaks.peak[unit] * 1e12 if ratio is not None else 0.0
        if ratio is not None and counted.intensity < REACHED * ratio:
            thin += seconds / facts.steps
    facts.arithmetic, facts.waits_for_memory = arithmetic - thin, rest + thin
    if timed:
        facts.achieved = {"flops": flops / timed, "thin": thin, "peak": most / timed}


def _unit(counted: Product, items: list[Work], told: dict) -> str:
    """The peak that these kernels are held to: that of their type, or TF32's."""
    cores = any(told[item.name].tensor_cores for item in items)
    return "tf32" if counted.dtype == "float" and cores else counted.dtype


def _missed(trace: Trace, calls: dict[int, Call], of_product: dict[int, list[Work]], told: dict, steps: int) -> list[Missed]:
    if not _has_tensor_cores(trace):
        return []
    groups: dict[tuple, list[float]] = defaultdict(list)
    for number, items in of_product.items():
        if not any(told[item.name].tensor_cores for item in items):
            call = calls[number]
            groups[call.name, *_why_not(call)].append(sum(item.seconds for item in items))
    rows = [Missed(name, kind, sum(seconds) / steps, len(seconds) / steps, why) for (name, kind, why), seconds in groups.items()]
    return sorted(rows, key=lambda row: -row.seconds)


def _has_tensor_cores(trace: Trace) -> bool:
    """From Volta (7.0) on; where the trace does not say, it is assumed."""
    majors = [device.get("computeMajor") for device in trace.devices]
    majors = [major for major in majors if isinstance(major, int)]
    return not majors or max(majors) >= 7


def _why_not(call: Call) -> tuple[str, str]:
    """The type of an operator's numbers, and why it does not run on tensor cores."""
    types = (call.args or {}).get("Input type")
    kind = products.dtype(types[0]) if isinstance(types, list) and types else ""
    counted = products.product(call)
    if counted is not None:
        kind = counted.dtype
    if kind == "float":
        return "float32", "float32 without TF32: --tf32, or half precision with --amp"
    if kind == "double":
        return "float64", "float64: only a few cards have tensor cores for it"
    if kind in ("half", "bfloat16"):
        odd = [size for size in counted.sizes if size % 8] if counted is not None else []
        name = "float16" if kind == "half" else kind
        if odd:
            return name, f"sizes that are no multiple of 8 ({', '.join(map(str, odd[:3]))})"
        return name, "the library chose another kernel"
    return "not recorded", "type and sizes are not recorded (record_shapes=True)"


def _copy_rows(facts: Facts, found: list[Work]) -> None:
    groups: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for item in found:
        direction = next((word for word in ("HtoD", "DtoH", "DtoD", "PtoP", "HtoH") if word in item.name), "other")
        memory = "pageable" if "Pageable" in item.name else "pinned" if "Pinned" in item.name else "device"
        size = (item.args or {}).get("bytes")
        groups[direction, memory].append((float(size) if isinstance(size, (int, float)) else 0.0, item.seconds))
    rows = [Copies(*key, len(pairs) / facts.steps, sum(size for size, _ in pairs) / facts.steps,
                   sum(seconds for _, seconds in pairs) / facts.steps) for key, pairs in groups.items()]
    facts.copies = sorted(rows, key=lambda row: -row.seconds)


def _launches(trace: Trace, facts: Facts) -> Launches | None:
    queued = [item for item in trace.work if item.kind == "kernel" and item.call is not None
              and facts.begin <= item.begin < facts.end]
    if len(queued) < 2:
        return None
    queued.sort(key=lambda item: item.call.begin)
    ends = sorted(item.end for item in queued)
    depth = [number - bisect_right(ends, item.call.begin) for number, item in enumerate(queued)]
    gaps = [after.call.begin - item.call.begin for item, after in pairwise(queued) if after.call is not item.call]
    return Launches(len(queued) / facts.steps, median(gaps) if gaps else 0.0, median(item.seconds for item in queued),
                    median(item.begin - item.call.begin for item in queued), sum(depth) / len(depth),
                    sum(1 for waiting in depth if waiting <= 0) / len(depth))


# --- collectives ---------------------------------------------------------------------------------------------------------

SPELLED = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "broadcast": "broadcast",
           "alltoall": "all_to_all", "sendrecv": "send and receive", "barrier": "barrier", "gather": "gather",
           "scatter": "scatter", "reduce": "reduce", "send": "send", "recv": "receive"}


def collective_kind(name: str) -> str:
    """``all_reduce`` of ``allreduce``, ``ncclDevKernel_AllReduce_Sum_f32_RING_LL``, ``_allgather_base``."""
    plain = "".join(letter for letter in name.split(":")[-1].lower() if letter.isalpha())
    return next((said for word, said in SPELLED.items() if word in plain), name.split(":")[-1])


def _nccl(facts: Facts, found: list[Work]) -> list[Collective]:
    phase, out = Phases(facts.phases), []
    for item in found:
        args = item.args or {}
        numbers = [args[name] for name in ("In msg nelems", "Out msg nelems") if isinstance(args.get(name), (int, float))]
        size = max(numbers) * products.BYTES.get(products.dtype(args.get("dtype")), 4) if numbers else None
        span = [(item.begin, item.end)]
        hidden = intervals.total(intervals.common(span, _near(facts.compute_spans, item.begin, item.end)))
        asked = item.call.begin if item.call else item.begin
        out.append(Collective(collective_kind(str(args.get("Collective name") or item.name)), size, item.begin, item.end, hidden,
                              phase(asked), _step_of(facts.trace, asked), "nccl"))
    return out


def _size(call: Call) -> float | None:
    """Bytes of the first tensors of a collective on the CPU."""
    dims, types = ((call.args or {}).get(name) for name in ("Input Dims", "Input type"))
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    total = 0.0
    for shape, kind in zip(dims, types):
        for one in shape if shape and isinstance(shape[0], list) else [shape]:
            if one and all(isinstance(number, int) for number in one):
                elements = 1
                for number in one:
                    elements *= number
                total += elements * products.BYTES.get(products.dtype(kind), 4)
    return total or None


def _hosted(trace: Trace) -> list[Call]:
    """The collectives that threads of the CPU do."""
    return [call for call in trace.calls if call.kind == "range" and call.name.startswith(("gloo:", "mpi:"))]


def _sending(trace: Trace) -> Spans:
    return intervals.union((call.begin, call.end) for call in _hosted(trace))


def _gloo(facts: Facts, compute: Spans) -> list[Collective]:
    phase, out = Phases(facts.phases), []
    for call in _hosted(facts.trace):
        if _inside(facts.spans, call.begin):
            hidden = intervals.total(intervals.common([(call.begin, call.end)], _near(compute, call.begin, call.end)))
            out.append(Collective(collective_kind(call.name), _size(call), call.begin, call.end, hidden, phase(call.begin),
                                  _step_of(facts.trace, call.begin), call.name.split(":")[0]))
    return out


# --- a CPU ---------------------------------------------------------------------------------------------------------------


def _cpu(trace: Trace) -> Facts:
    begin, end = _cpu_window(trace)
    marked = [(step.begin, step.end) for step in trace.steps] or [(begin, max(end, begin + 1e-9))]
    feeding = loader(trace)
    waits = [(call.begin, call.end) for call in trace.calls if call.kind == "op" and call.name.startswith("c10d::")]
    outer = [(call.begin, call.end) for call in trace.calls if call.kind == "op" and not call.name.startswith("c10d::")
             and (call.parent is None or call.parent.kind != "op")]
    compute = intervals.minus(intervals.union(outer), intervals.union([*feeding, *waits]))
    sending = intervals.union([*_sending(trace), *waits])
    exposed = intervals.minus(sending, intervals.union([*compute, *feeding]))
    spans = _usual(marked, intervals.union([*feeding, *exposed]))
    facts = Facts(trace, begin, end, len(spans), phases=phases(trace), spans=spans, interrupted=len(marked) - len(spans))

    def seconds(some: Spans) -> float:
        return intervals.total(intervals.common(some, spans)) / facts.steps

    facts.compute_spans, facts.loader = intervals.common(compute, spans), seconds(feeding)
    facts.busy = seconds(compute) / facts.seconds if facts.seconds else 0.0
    made = [call for call in trace.calls if call.kind == "op" and _inside(spans, call.begin)
            and not call.name.startswith(("c10d::", "record_param_comms")) and not _in_range(call, LOADER)]
    groups = defaultdict(list)
    for call in made:
        groups[call.name].append(max(call.own, 0.0))
    facts.operators = _rows(groups, facts.steps)
    calls = min(_tiny(made) / facts.steps, seconds(compute))
    facts.shares = {"compute": seconds(compute) - calls, "communication": seconds(exposed), "loader": seconds(feeding),
                    "calls": calls}
    facts.shares["other"] = facts.seconds - sum(facts.shares.values())
    phase = Phases(facts.phases)
    # Optimizers read their counters, which are on the CPU in any case.
    reads = [phase(call.begin) for call in made
             if call.name == "aten::_local_scalar_dense" and not _in_range(call, "Optimizer.step")]
    if reads:
        facts.reads = Reads(len(reads) / facts.steps, max(set(reads), key=reads.count))
    for row in facts.operators:
        what = "arithmetic" if is_product(row.name) else "memory"
        facts.kinds[what] = facts.kinds.get(what, 0.0) + row.seconds
    facts.arithmetic, facts.waits_for_memory = facts.kinds.get("arithmetic", 0.0), facts.kinds.get("memory", 0.0)
    counted = [call for call in made if call.name in PRODUCTS]
    whole = {id(around) for call in counted for around in call.around() if around.name in PRODUCTS}  # a linear is an addmm inside
    flops = sum(found.flops for call in counted if id(call) not in whole and (found := products.product(call)) is not None)
    if flops and facts.arithmetic:
        facts.achieved = {"flops": flops / facts.steps / facts.arithmetic}
    facts.collectives = _gloo(facts, compute)
    facts.cpu_work = sum(facts.shares[name] for name in ("compute", "calls", "other"))
    return facts


def _usual(steps: Spans, waiting: Spans) -> Spans:
    """The steps without those that were interrupted. A step that waits for its loader or for other processes was not."""
    work = [end - begin - intervals.total(intervals.common([(begin, end)], waiting)) for begin, end in steps]
    middle = median(work)
    return [step for step, seconds in zip(steps, work) if seconds <= INTERRUPTED * middle] or steps


def _in_range(call: Call, name: str) -> bool:
    return any(around.kind == "range" and around.name.startswith(name) for around in call.around())


def _tiny(calls: list[Call]) -> float:
    """Seconds in operators that take less than `TINY`. Of those with the same sizes the one in the middle tells, so that one that
    was interrupted is not taken for a large one."""
    groups = defaultdict(list)
    for number, call in enumerate(calls):
        groups[call.name, call.shape if call.shape >= 0 else -1 - number].append(max(call.own, 0.0))
    return sum(sum(own) for own in groups.values() if median(own) < TINY)


def is_product(operator: str) -> bool:
    """Whether an operator is a matrix product or a convolution."""
    name = operator.split("::")[-1]
    return operator in PRODUCTS or (any(word in name for word in ARITHMETIC_OPERATORS) and "Backward" not in name)
