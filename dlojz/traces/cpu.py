"""A training on a CPU: its operators are the work."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from statistics import median

from . import intervals, products
from .collectives import gloo, under_way
from .facts import INTERRUPTED, Facts, rows_of
from .intervals import Spans
from .loop import Phases, called, cpu_window, hole, loader, phases, reads, updates
from .products import is_product
from .reading import PRODUCTS, Call, Trace

# Seconds: an operator of a CPU that takes less computes next to nothing: dispatch, allocation and profiler take a few µs each.
TINY = 20e-6


def of_cpu(trace: Trace) -> Facts:
    """What a trace without a GPU tells."""
    begin, end = cpu_window(trace)
    marked = [(step.begin, step.end) for step in trace.steps] or [(begin, max(end, begin + 1e-9))]
    feeding = loader(trace)
    waits = [(call.begin, call.end) for call in trace.calls if call.kind == "op" and call.name.startswith("c10d::")]
    outer = [(call.begin, call.end) for call in trace.calls if call.kind == "op" and not call.name.startswith("c10d::")
             and (call.parent is None or call.parent.kind != "op")]
    compute = intervals.minus(intervals.union(outer), intervals.union([*feeding, *waits]))
    sending = intervals.union([*under_way(trace), *waits])
    exposed = intervals.minus(sending, intervals.union([*compute, *feeding]))
    spans = _usual(marked, intervals.union([*feeding, *exposed]))
    facts = Facts(trace, begin, end, len(spans), phases=phases(trace), spans=spans, interrupted=len(marked) - len(spans))

    def seconds(some: Spans) -> float:
        return intervals.total(intervals.common(some, spans)) / facts.steps

    facts.compute_spans, facts.loader = intervals.common(compute, spans), seconds(feeding)
    facts.sending = intervals.common(sending, spans)
    facts.busy = seconds(compute) / facts.seconds if facts.seconds else 0.0
    made = called(trace, spans)
    groups = defaultdict(list)
    for call in made:
        groups[call.name].append(max(call.own, 0.0))
    facts.operators = rows_of(groups, facts.steps)
    calls = min(_tiny(made) / facts.steps, seconds(compute))
    facts.shares = {"compute": seconds(compute) - calls, "communication": seconds(exposed), "loader": seconds(feeding),
                    "calls": calls}
    facts.shares["other"] = facts.seconds - sum(facts.shares.values())
    facts.called, facts.updates = len(made) / facts.steps, updates(trace, spans)
    facts.reads = reads(made, facts.steps, Phases(facts.phases))
    gaps = intervals.minus(spans, intervals.union([*compute, *feeding, *sending]))
    facts.hole = hole(trace, gaps, facts.steps)
    for row in facts.operators:
        what = "arithmetic" if is_product(row.name) else "memory"
        facts.kinds[what] = facts.kinds.get(what, 0.0) + row.seconds
    facts.arithmetic = facts.kinds.get("arithmetic", 0.0)
    facts.waits_for_memory = max(0.0, facts.kinds.get("memory", 0.0) - calls)  # what is short waits for nothing
    counted = [call for call in made if call.name in PRODUCTS]
    whole = {id(around) for call in counted for around in call.around() if around.name in PRODUCTS}  # a linear is an addmm inside
    flops = sum(found.flops for call in counted if id(call) not in whole and (found := products.product(call)) is not None)
    facts.half = _half(counted)
    if facts.marked:
        facts.prepared = _prepared(facts, made)
    if flops and facts.arithmetic:
        facts.achieved = {"flops": flops / facts.steps / facts.arithmetic}
    facts.collectives = gloo(facts, compute)
    facts.cpu_work = sum(facts.shares[name] for name in ("compute", "calls", "other"))
    return facts


def _usual(steps: Spans, waiting: Spans) -> Spans:
    """The steps without those that were interrupted. A step that waits for its loader or for other processes was not."""
    work = [end - begin - intervals.total(intervals.common([(begin, end)], waiting)) for begin, end in steps]
    middle = median(work)
    return [step for step, seconds in zip(steps, work) if seconds <= INTERRUPTED * middle] or steps


def _half(products_: list[Call]) -> float:
    """Which part of the time of convolutions and products is spent on numbers of two bytes."""
    types = [(call, (call.args or {}).get("Input type")) for call in products_]
    known = [(call.own, products.dtype(kinds[0])) for call, kinds in types if isinstance(kinds, list) and kinds]
    whole = sum(own for own, _ in known)
    return sum(own for own, kind in known if kind in ("half", "bfloat16")) / whole if whole else 0.0


def _prepared(facts: Facts, made: list[Call]) -> float:
    """Seconds of computing in a step before the first convolution or product in it."""
    firsts: dict[int, float] = {}
    begins = [begin for begin, _ in facts.spans]
    for call in made:
        if is_product(call.name):
            firsts.setdefault(bisect_right(begins, call.begin) - 1, call.begin)
    before = [(facts.spans[at][0], first) for at, first in firsts.items()]
    return intervals.total(intervals.common(facts.compute_spans, intervals.union(before))) / facts.steps


def _tiny(calls: list[Call]) -> float:
    """Seconds in operators that take less than `TINY`. Of those with the same sizes the one in the middle tells, so that one that
    was interrupted is not taken for a large one."""
    groups = defaultdict(list)
    for number, call in enumerate(calls):
        groups[call.name, call.shape if call.shape >= 0 else -1 - number].append(max(call.own, 0.0))
    return sum(sum(own) for own in groups.values() if median(own) < TINY)
