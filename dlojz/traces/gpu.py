"""A training on a GPU: when it worked, why it did not, and what its kernels were."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from statistics import median

from . import intervals, kernels, products
from .collectives import gloo, nccl, under_way
from .facts import ODD_SIZES, Copies, Facts, Launches, Missed, Sync, rows_of
from .intervals import Spans, near
from .loop import Phases, called, cpu_window, hole, innermost, line_of, loader, outermost, phases, reads, updates
from .products import Product
from .reading import Call, Trace, Work

# Large products reach about this part of a card's peak, while plain copies reach nearly all of its bandwidth: so below this part
# of the ratio of the two, memory decides.
REACHED = 0.7
BATCH = 1e6  # bytes: what is sent to the GPU at once and is larger is a batch, what is smaller a value
HELD = 1e-3  # seconds after a synchronisation in which the CPU still queues nothing, from which on something else holds it
CLOCKS = 20e-6  # seconds by which the clocks of CPU and GPU in a trace may differ, and a returning call may be late
HALF = re.compile(r"bf16|f16f16|bfloat16|__half|c10::Half|fp16|nvjet_[ht]")  # kernels whose names tell of two bytes a number
SYNCS = frozenset(("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cudaMemcpy2D",
                   "cudaFree", "cuStreamSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "hipStreamSynchronize",
                   "hipDeviceSynchronize", "hipEventSynchronize", "hipMemcpyWithStream", "hipMemcpy"))
CALLED = {"cudaDeviceSynchronize": "torch.cuda.synchronize()", "cudaStreamSynchronize": "stream.synchronize()",
          "cudaEventSynchronize": "event.synchronize()", "cudaFree": "cudaFree (memory given back to the card)"}


def of_gpu(trace: Trace) -> Facts:
    """What a trace with a GPU tells."""
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
    sent = intervals.common(copies, under_way(trace))  # gloo takes its way through the host
    facts.shares = {"compute": intervals.total(compute), "communication": intervals.total(communication) + intervals.total(sent),
                    "copy": intervals.total(copies) - intervals.total(sent)}
    idle = intervals.minus([(begin, end)], intervals.union([*compute, *communication, *copies]))
    syncs = waits(trace)
    blame = _blame(trace, work, idle, syncs, Phases(facts.phases))
    facts.shares["communication"] += blame["communication"]
    facts.shares["copy"] += blame["copy"]
    facts.shares |= {name: blame[name] for name in ("loader", "synchronisation", "launch", "between")}
    first, last = cpu_window(trace)
    facts.loader = intervals.total(intervals.within(loader(trace), first, last)) / max(1, len(trace.steps))
    waiting = intervals.union([*loader(trace), *((call.begin, call.end) for call in syncs)])
    facts.cpu_work = (last - first - intervals.total(intervals.within(waiting, first, last))) / max(1, len(trace.steps))
    facts.shares = {name: seconds / steps for name, seconds in facts.shares.items()}
    if not facts.keeps_up:  # without waiting, the CPU would not have queued this any earlier
        for name, where, spans, gaps in blame["held"]:
            seconds = intervals.total(spans)
            facts.shares[name] -= seconds / steps
            facts.shares["launch"] += seconds / steps
            blame["in"][where] += seconds
            blame["gaps"] += gaps
    facts.starved = {name: seconds / steps for name, seconds in blame["in"].items()}
    facts.hole = hole(trace, intervals.union(blame["gaps"]), steps)
    facts.syncs = _sync_rows(trace, syncs, blame["by"], steps, Phases(facts.phases))
    _kernel_rows(facts, [item for item in work if item.kind == "kernel"], told)
    _copy_rows(facts, [item for item in work if item.kind == "memcpy"])
    facts.launches = _launches(trace, facts)
    facts.collectives = sorted([*nccl(facts, collective), *gloo(facts, compute)], key=lambda one: one.begin)
    facts.sending = intervals.within(intervals.union([*_spans(collective, begin, end), *under_way(trace)]), begin, end)
    made = called(trace, [(first, last)])
    facts.called, facts.updates = len(made) / max(1, len(trace.steps)), updates(trace, [(first, last)])
    facts.reads = reads(made, max(1, len(trace.steps)), Phases(facts.phases))
    return facts


def _gpu_window(trace: Trace) -> tuple[float, float, int]:
    """From the end of the first step's work to the end of the last one's, on the GPU: whole steps with their waits, of which
    there is one less than were traced. Of a single step: all of it."""
    ends = step_ends(trace)
    if len(ends) > 1:
        first, last = min(ends), max(ends)
        if ends[last] > ends[first]:
            return ends[first], ends[last], last - first
    begin, end = cpu_window(trace)
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


# --- why it had nothing to do --------------------------------------------------------------------------------------------


def waits(trace: Trace) -> list[Call]:
    """Calls in which the CPU waits for the GPU: synchronisations, and copies from or to pageable memory."""
    slow = {id(item.call) for item in trace.work if item.call is not None and _pageable(item)}
    return [call for call in trace.calls if call.kind == "cuda" and (call.name in SYNCS or id(call) in slow)]


def _blame(trace: Trace, work: list[Work], idle: Spans, syncs: list[Call], phase: Phases) -> dict:
    """Why the GPU had nothing to do, for each gap; ``by``: seconds for each synchronisation, ``in``: for launches by phase,
    ``gaps``: where a launch was missing and the CPU was in no operator either; ``held``: what is long after a synchronisation, as
    name, phase, spans, gaps."""
    out = dict.fromkeys(("loader", "synchronisation", "launch", "between", "communication", "copy"), 0.0)
    out["by"], out["in"], out["gaps"], out["held"] = defaultdict(float), defaultdict(float), [], []
    working = intervals.union((call.begin, call.end) for call in trace.calls if call.kind in ("op", "cuda"))
    batches = _batches(trace)
    feeding = loader(trace)
    begins = [call.begin for call in syncs]
    starts = [item.begin for item in work]
    sending = under_way(trace)
    for begin, end in idle:
        waited = intervals.common([(begin, end)], near(feeding, begin, end))
        sent = intervals.minus(intervals.common([(begin, end)], near(sending, begin, end)), waited)
        out["loader"] += intervals.total(waited)
        out["communication"] += intervals.total(sent)
        rest = end - begin - intervals.total(waited) - intervals.total(sent)
        at = bisect_right(starts, end - 1e-9)
        following = work[at] if at < len(work) else None
        queued = following.call if following is not None else None
        if queued is not None and queued.end <= begin + 1e-9:
            out["between"] += rest
            continue
        free = intervals.minus([(begin, end)], intervals.union([*waited, *sent]))
        where = phase(queued.begin) if queued is not None else ""
        sync = _holding(syncs, begins, begin)
        if sync is not None:
            asked = outermost(sync)
            of_batch = id(sync) in batches or id(asked) in batches
            name = "copy" if of_batch else "synchronisation"
            out[name] += rest
            out["by"][id(sync)] += rest
            after = intervals.within(free, sync.end, end)
            if intervals.total(after) >= HELD:
                out["held"].append((name, where, after, intervals.minus(after, near(working, begin, end))))
        else:
            out["launch"] += rest
            out["in"][where] += rest
            out["gaps"] += intervals.minus(free, near(working, begin, end))
    return out


def _batches(trace: Trace) -> set[int]:
    """The calls, and the operators around them, that send a batch to the GPU."""
    found: set[int] = set()
    for item in trace.work:
        size = (item.args or {}).get("bytes")
        if item.kind == "memcpy" and "HtoD" in item.name and item.call and isinstance(size, (int, float)) and size >= BATCH:
            found |= {id(item.call), id(outermost(item.call) or item.call)}
    return found


def _holding(syncs: list[Call], begins: list[float], moment: float) -> Call | None:
    """The synchronisation that the CPU was in when the GPU ran dry."""
    at = bisect_right(begins, moment + CLOCKS)
    for call in syncs[max(0, at - 4) : at][::-1]:
        if call.end >= moment - CLOCKS:
            return call
    return None


def _sync_rows(trace: Trace, syncs: list[Call], by: dict, steps: int, phase: Phases) -> list[Sync]:
    begin, end = cpu_window(trace)
    marked = max(1, len(trace.steps))
    groups: dict[tuple, list] = {}
    for call in syncs:
        if not begin <= call.begin < end:
            continue
        asked = outermost(call)
        said = asked.name if asked is not None else CALLED.get(call.name, call.name)
        where = phase(call.begin)
        group = groups.setdefault((said, where, line_of(call)), [set(), 0.0, 0.0])
        group[0].add(id(asked) if asked is not None else id(call))
        group[1] += call.seconds
        group[2] += by.get(id(call), 0.0)
    rows = [Sync(*key, len(asked) / marked, seconds / marked, idle / steps) for key, (asked, seconds, idle) in groups.items()]
    return sorted(rows, key=lambda row: (-row.idle, -row.seconds))


# --- what it did ---------------------------------------------------------------------------------------------------------


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
        operator = innermost(item.call)
        by_operator[operator.name if operator is not None else "(no operator)"].append(item.seconds)
        if kind.arithmetic and operator is not None:
            calls[id(operator)] = operator
            of_product[id(operator)].append(item)
    facts.kernels = rows_of(by_name, steps, lambda name: {"kind": told[name].name, "tensor_cores": told[name].tensor_cores})
    facts.operators = rows_of(by_operator, steps)
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
            return name, f"{ODD_SIZES} ({', '.join(map(str, odd[:3]))})"
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
    depth = [max(0, number - bisect_right(ends, item.call.begin)) for number, item in enumerate(queued)]
    gaps = [after.call.begin - item.call.begin for item, after in pairwise(queued) if after.call is not item.call]
    return Launches(len(queued) / facts.steps, median(gaps) if gaps else 0.0, median(item.seconds for item in queued),
                    median(item.begin - item.call.begin for item in queued), sum(depth) / len(depth),
                    sum(1 for waiting in depth if waiting <= 0) / len(depth))
