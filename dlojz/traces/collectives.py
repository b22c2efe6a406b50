"""Collectives: what processes send each other, by NCCL's kernels on a GPU or by gloo's threads on a CPU."""

from __future__ import annotations

import math

from . import intervals, products
from .facts import Collective, Facts
from .intervals import Spans
from .loop import Phases, step_of
from .reading import Call, Trace, Work, is_amount

SPELLED = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "broadcast": "broadcast",
           "alltoall": "all_to_all", "sendrecv": "send and receive", "barrier": "barrier", "gather": "gather",
           "scatter": "scatter", "reduce": "reduce", "send": "send", "recv": "receive"}


def collective_kind(name: str) -> str:
    """``all_reduce`` of ``allreduce``, ``ncclDevKernel_AllReduce_Sum_f32_RING_LL``, ``_allgather_base``."""
    plain = "".join(letter for letter in name.split(":")[-1].lower() if letter.isalpha())
    return next((said for word, said in SPELLED.items() if word in plain), name.split(":")[-1])


def nccl(facts: Facts, found: list[Work]) -> list[Collective]:
    phase, out = Phases(facts.phases), []
    for item in found:
        args = item.args or {}
        numbers = [args[name] for name in ("In msg nelems", "Out msg nelems") if isinstance(args.get(name), (int, float))]
        size = max(numbers) * products.BYTES.get(products.dtype(args.get("dtype")), 4) if numbers else None
        span = [(item.begin, item.end)]
        hidden = intervals.total(intervals.common(span, intervals.near(facts.compute_spans, item.begin, item.end)))
        asked = item.call.begin if item.call else item.begin
        out.append(Collective(collective_kind(str(args.get("Collective name") or item.name)), size, item.begin, item.end, hidden,
                              phase(asked), step_of(facts.trace, asked), "nccl"))
    return out


def _size(call: Call) -> float | None:
    """Bytes of the first tensors of a collective on the CPU."""
    dims, types = ((call.args or {}).get(name) for name in ("Input Dims", "Input type"))
    if not isinstance(dims, list) or not isinstance(types, list):
        return None
    total = 0.0
    for shape, kind in zip(dims, types):
        for one in shape if isinstance(shape, list) and shape and isinstance(shape[0], list) else [shape]:
            if isinstance(one, list) and one and all(map(is_amount, one)):
                total += math.prod(map(float, one)) * products.BYTES.get(products.dtype(kind), 4)
    return total if total and is_amount(total) else None


def hosted(trace: Trace) -> list[Call]:
    """The collectives that threads of the CPU do."""
    return [call for call in trace.calls if call.kind == "range" and call.name.startswith(("gloo:", "mpi:"))]


def under_way(trace: Trace) -> Spans:
    return intervals.union((call.begin, call.end) for call in hosted(trace))


def done_as(ask: Call) -> tuple[str, ...]:
    """The kinds that gloo may do what was asked for as: an all-reduce, where it is a reduce-scatter."""
    kind = collective_kind(ask.name)
    return (kind, "all_reduce") if kind == "reduce_scatter" else (kind,)


def gloo(facts: Facts, compute: Spans) -> list[Collective]:
    """Each belongs where it was asked for: its thread may begin when the backward pass is over. What was asked for is known from
    the call. Gloo's threads take calls in their order."""
    phase, out = Phases(facts.phases), []
    asks = sorted((call for call in facts.trace.calls if call.kind == "op" and call.name.startswith("c10d::")),
                  key=lambda call: call.begin)
    for call in sorted(hosted(facts.trace), key=lambda call: call.begin):
        kind = collective_kind(call.name)
        ask = next((one for one in asks if one.begin <= call.begin and kind in done_as(one)), None)
        if ask:
            asks.remove(ask)
        if intervals.holds(facts.spans, call.begin):
            hidden = intervals.total(intervals.common([(call.begin, call.end)], intervals.near(compute, call.begin, call.end)))
            asked = ask.begin if ask else call.begin
            out.append(Collective(collective_kind(ask.name) if ask else kind, _size(call), call.begin, call.end, hidden,
                                  phase(asked), step_of(facts.trace, asked), call.name.split(":")[0]))
    return out

