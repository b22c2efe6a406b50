"""Why a step is not faster: one of six patterns, by rules that are written down here, with the numbers that they used.

1. What keeps the device from working is looked at first: the loader, launches, synchronisations, communication. Of those that
   take `WORTH` of a step or more, the one that takes most is the diagnosis.
2. Where both synchronisations and launches leave a GPU idle, the question is whether the CPU would keep up if it never waited:
   it would where its own work for a step takes less time than the GPU's. Then the synchronisations are the cause. Where it would
   not, what it does for long after a synchronisation is the cause of what is late then.
3. On a CPU, launches are the calls of operators that do little, and what is between operators. Where values are read out of
   tensors many times a step (`READS`), these calls are a synchronisation's, had they been on a GPU; but not where there is more
   between two of them than reading takes (`A_READ`). Where no step is marked, the updates of optimizers are counted in its place.
4. Else the device works, and the diagnosis is what most of its work waits for: the memory of the card, or arithmetic.
5. None of them is the answer where the trace lacks what it would rest on (`untold`): the work of the GPU, the calls that queued
   it, one process alone, or what a GPU waits for that has work queued; or where many small waits take more than the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..system.errors import UsageError
from ..system.shown import shown
from ..ui import words
from .advice import MOST as MOSTLY
from .advice import tries
from .cpu import TINY, of_cpu
from .facts import Facts, Sync
from .gpu import of_gpu
from .kernels import ARITHMETIC
from .products import is_product
from .reading import Trace
from .stragglers import beyond, waiting
from .untold import PATTERN as UNKNOWN
from .untold import TITLE, Untold, of_waiting, of_what

# The part of a step from which on a wait is the diagnosis. Taking it all away makes a step 1 / (1 - 0.15) = 1.18 times as fast:
# below that, work on the kernels gains more, and a trace of a few steps is not sure enough.
WORTH = 0.15
# The same for calls and Python on a CPU. What lies between operators is also memory that is given back, and other processes' time
# on these cores: in trainings without any such cause it took up to 22 % of a step.
WORTH_OF_CALLS = 0.3
# Above this part of the device's work one resource is what limits it.
MOST = 0.5
# From here on a second pattern is worth a word beside the diagnosis.
ALSO = 0.05
# Synchronisations share the blame for idle time with launches from this part of it on (rule 2).
ENTANGLED = 0.2

# Values read in a step, from which on they are no end-of-step bookkeeping (a loss, a count, a flag).
READS = 8
# Seconds of a hole in the trace for each of them, from which on it is something else that takes the time.
A_READ = 1e-3

PATTERNS = {
    "loader": "fed too slowly: the device waits for data",
    "launch": "the CPU cannot launch fast enough",
    "synchronisation": "synchronises too often: CPU and GPU wait for each other",
    "communication": "limited by communication",
    "memory_bandwidth": "limited by memory bandwidth",
    "arithmetic": "limited by arithmetic",
}
# A CPU computes in the call itself: what would keep a GPU waiting shows in another way.
ON_A_CPU = {
    "launch": "calls and Python take the time, not the work in them",
    "synchronisation": "values are read out of tensors one by one; a GPU would be waited for each time",
}
A_HOLE = "a gap in the trace: the time is spent outside of any operator"
GOES_TO = {"loader": "loading and sending batches", "launch": "launches", "synchronisation": "synchronisations",
           "communication": "communication"}


@dataclass
class Diagnosis:
    """``pattern``: a key of `PATTERNS`, or `UNKNOWN`; ``title``: what it means; ``share``: the part of a step it takes;
    ``evidence``: sentences with numbers; ``next``: two things to try; ``also``: other patterns that take a notable part;
    ``unknown``: what this trace cannot tell; ``scores``: the part of a step that each of the waits takes."""

    pattern: str
    title: str
    share: float
    evidence: list[str]
    next: list[str]
    also: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"diagnosis: {self.pattern.replace('_', ' ')}: {self.title}", *(f"  {line}" for line in self.evidence)]
        parts += [f"  also: {line}" for line in self.also]
        parts += [f"  try {number}: {line}" for number, line in enumerate(self.next, 1)]
        return shown("\n".join(parts + [f"  not known: {line}" for line in self.unknown]))


def analyse(trace: Trace) -> Facts:
    """Everything the views and the diagnosis need. Raises UsageError where no time passes in a trace."""
    if not (trace.calls or trace.work) or trace.end <= trace.begin:
        raise UsageError(f"{trace.path} holds no operator and no kernel that takes time: profile again (--profile), and let the "
                         "run finish")
    return of_gpu(trace) if trace.on_gpu else of_cpu(trace)


def diagnose(trace: Trace | Facts, on: frozenset[str] = frozenset(), has: frozenset[str] | None = None) -> Diagnosis:
    """Which of the six patterns a trace shows, or why it does not tell. ``on``: switches that need not be tried, since the run
    had them (`advice.turned_on`); ``has``: those that its script knows (None: those of train.py)."""
    facts = trace if isinstance(trace, Facts) else analyse(trace)
    scores = waits(facts)
    if untold := of_what(facts):
        return _unknown(untold, facts)
    enough = [name for name, score in scores.items() if score >= threshold(facts, name)]
    pattern = max(enough, key=scores.get, default="")
    if untold := of_waiting(facts, pattern, scores, WORTH):
        return _unknown(untold, facts, scores)
    if not pattern:
        pattern = "memory_bandwidth" if by_memory(facts) >= MOST else "arithmetic"
    share = scores[pattern] if pattern in scores else facts.share("compute")
    goes = GOES_TO if facts.on_gpu else GOES_TO | {"launch": "calls and Python", "synchronisation": _reading(facts)}
    order = sorted(scores, key=lambda name: -scores[name])
    also = [f"{words.share(scores[name])} of {facts.whole} goes to {goes[name]}" for name in order
            if name != pattern and scores[name] >= ALSO]
    title = PATTERNS[pattern] if facts.on_gpu else ON_A_CPU.get(pattern, PATTERNS[pattern])
    if pattern == "launch" and facts.holey and not facts.on_gpu:
        title = A_HOLE
    next_ = tries(pattern, facts, on, has)
    return Diagnosis(pattern, title, share, EVIDENCE[pattern](facts), next_, also, unknown(facts), scores)


def _unknown(untold: Untold, facts: Facts, scores: dict[str, float] | None = None) -> Diagnosis:
    scores = scores or {}
    also = [f"{words.share(score)} of {facts.whole} goes to {GOES_TO[name]}" for name, score in scores.items() if score >= ALSO]
    return Diagnosis(UNKNOWN, TITLE, facts.share("between") if scores else 0.0, untold.why, untold.next, also, scores=scores)


def threshold(facts: Facts, pattern: str) -> float:
    """The part of a step from which on a wait is the diagnosis."""
    return WORTH_OF_CALLS if not facts.on_gpu and pattern in ("launch", "synchronisation") else WORTH


def waits(facts: Facts) -> dict[str, float]:
    """The part of a step that each of the four waits takes (rules 1 to 3)."""
    share = facts.share
    if not facts.on_gpu:
        calls = share("calls") + share("other")
        reading = reads_often(facts)
        return {"loader": share("loader"), "launch": 0.0 if reading else calls, "synchronisation": calls if reading else 0.0,
                "communication": share("communication")}
    inward = sum(row.seconds for row in facts.copies if row.direction == "HtoD")
    either = inward + sum(row.seconds for row in facts.copies if row.direction == "DtoH")
    fed = share("copy") * (inward / either if either else 1.0)  # copies that nothing hides: the batch on its way in
    out = {"loader": share("loader") + fed, "launch": share("launch"),
           "synchronisation": share("synchronisation") + share("copy") - fed, "communication": share("communication")}
    idle = out["launch"] + out["synchronisation"]
    if idle >= WORTH and out["synchronisation"] >= ENTANGLED * idle and facts.keeps_up:
        out["synchronisation"], out["launch"] = idle, 0.0
    return out


def reads_often(facts: Facts) -> bool:
    """On a CPU: whether the calls of a step are those of values that are read out of tensors (rule 3)."""
    if facts.reads is None or (facts.holey and facts.hole.seconds >= A_READ * facts.reads.count):
        return False
    return facts.reads.count >= READS if facts.marked else 0 < facts.updates * READS <= facts.reads.count


def by_memory(facts: Facts) -> float:
    """Which part of the device's work waits for memory."""
    known = facts.arithmetic + facts.waits_for_memory
    return facts.waits_for_memory / known if known else 0.0


# --- evidence ------------------------------------------------------------------------------------------------------------


def _ms(seconds: float) -> str:
    return words.seconds(seconds)


def _of(facts: Facts, seconds: float) -> str:
    return f"{_ms(seconds)} of the {_ms(facts.seconds)} of {facts.whole} ({words.share(seconds / facts.seconds)})"


def some(value: float, word: str) -> str:
    """``1 collective``, ``0.80 buckets``, ``1,204 operators``"""
    said = words.count(value)
    return f"{said} {word}{'' if said == '1' else 's'}"


def _times(value: float, per: str) -> str:
    said = words.count(value)
    return f"once {per}" if said == "1" else f"{said} times {per}"


def _loader(facts: Facts) -> list[str]:
    who = "the GPU has nothing to do because" if facts.on_gpu else "nothing else is done while"
    out = [f"{_of(facts, facts.shares['loader'])}: {who} the process waits for its loader"]
    if facts.on_gpu:
        compute = _ms(facts.shares["compute"])
        out.append(f"the process waits {_ms(facts.loader)} {facts.per} for its loader; the GPU computes {compute}")
        if facts.share("copy") >= 0.01:
            rows = [row for row in facts.copies if row.direction == "HtoD"]
            said = f", {words.number(rows[0].speed / 1e9)} GB/s from {rows[0].memory} memory" if rows else ""
            out.append(f"{_of(facts, facts.shares['copy'])}: only a copy runs{said}")
    else:
        out.append(f"operators of forward, backward and update take {_ms(facts.shares['compute'])} {facts.per}")
    return out


def _calls(facts: Facts) -> list[str]:
    """On a CPU."""
    count, seconds = facts.called, sum(row.seconds for row in facts.operators)
    out = [f"{_of(facts, facts.shares['calls'])}: calls of operators that take less than {_ms(TINY)} each",
           f"{_of(facts, facts.shares['other'])}: between the operators, Python and what it calls"]
    if facts.holey:
        out = [f"{_of(facts, facts.shares['other'])}: no operator runs: {NOTHING}", *_hole(facts), out[0]]
    return [*out, f"{some(count, 'operator')} {facts.per}, {_ms(seconds / count if count else 0)} each on average"]


NOTHING = "Python, or what it calls (numpy, reading and writing files)"


def _hole(facts: Facts) -> list[str]:
    """Where the hole is, as far as it is known."""
    if lines := facts.hole.lines:
        return ["most of that in " + ", ".join(f"{name} ({_ms(seconds)})" for name, seconds in lines)]
    return [f"most of that in {facts.hole.where}"] if facts.hole.where else []


def _launch(facts: Facts) -> list[str]:
    if not facts.on_gpu:
        return _calls(facts)
    out = [f"{_of(facts, facts.shares['launch'])}: the GPU has nothing to do because the next kernel is not queued yet"]
    if run := facts.launches:
        out.append(f"{some(run.kernels, 'kernel')} {facts.per}; in the middle one runs {_ms(run.runs)}, and the CPU queues one "
                   f"every {_ms(run.every)}")
        if facts.starved and (where := max(facts.starved, key=facts.starved.get)):
            out.append(f"most of that in {where}: {_ms(facts.starved[where])}")
        out.append(f"at {words.share(run.dry)} of the launches the queue is empty; {run.depth:.1f} kernels are queued on average")
    if facts.holey:
        out.append(f"{_of(facts, facts.hole.seconds)}: the CPU is in no operator: {NOTHING}")
        out += _hole(facts) if facts.hole.lines else []
    return out


def _reading(facts: Facts) -> str:
    """On a CPU."""
    count = f" ({_times(facts.reads.count, facts.per)})" if facts.reads is not None else ""
    return f"calls and Python, as values are read out of tensors one by one{count}"


def _synchronisation(facts: Facts) -> list[str]:
    if not facts.on_gpu:
        where = f", most of them in {facts.reads.where}" if facts.reads.where else ""
        said = f"values are read out of tensors {_times(facts.reads.count, facts.per)} (aten::item){where}"
        return [said + (f", in {some(facts.updates, 'update')}" if not facts.marked else ""), *_calls(facts)]
    lost = waits(facts)["synchronisation"] * facts.seconds
    out = [f"{_of(facts, lost)}: the GPU is idle because the CPU waited for it before launching more"]
    times = sum(row.count for row in facts.syncs)
    out.append(f"the CPU waits for the GPU {_times(times, facts.per)}, {_ms(sum(row.seconds for row in facts.syncs))} in all")
    out += [f"asked for by {said_sync(row, facts.per)}" for row in facts.syncs[:3]]
    out.append(f"without waiting, the CPU would need {_ms(facts.cpu_work)} for {facts.whole}, the GPU "
               f"{_ms(facts.shares['compute'])}")
    return out


def said_sync(row: Sync, per: str) -> str:
    """``aten::item in forward, 20 times per step, 3.1 ms of waiting (train.py(12): train)``"""
    where = f" in {row.where}" if row.where else ""
    line = f" ({row.line})" if row.line else ""
    return f"{row.asked}{where}, {_times(row.count, per)}, {_ms(row.seconds)} of waiting{line}"


def _communication(facts: Facts) -> list[str]:
    out = [f"{_of(facts, facts.shares['communication'])}: a collective is under way and nothing is computed beside it"]
    if found := facts.collectives:
        whole, hidden = facts.under_way
        known = [one.bytes for one in found if one.bytes is not None]
        size = f" with {megabytes(sum(known) / facts.steps)}" if known else ""
        part = words.share(hidden / whole) if whole else "0%"
        count = some(len(found) / facts.steps, "collective")
        out.append(f"{count} {facts.per}{size}; {part} of their time is hidden behind computing")
        if waiting(facts):
            slowest = max(found, key=beyond)
            said = f" of {megabytes(slowest.bytes)}" if slowest.bytes is not None else ""
            out.append(f"one{said} takes {_ms(slowest.seconds)}, which no network explains: this process waits for another one")
    return out


def _work(facts: Facts) -> list[str]:
    who = "the GPU" if facts.on_gpu else "the CPU"
    out = [f"{who} computes {_of(facts, facts.shares['compute'])}: no kind of waiting takes more"]
    part = by_memory(facts)
    products_, rest = words.share(1 - part), words.share(part)
    out.append(f"{products_} of that in convolutions and matrix products that arithmetic limits, {rest} in what waits for memory")
    return out


def _memory(facts: Facts) -> list[str]:
    out = _work(facts)
    if facts.updating >= MOSTLY * facts.seconds:
        out.append(f"{_of(facts, facts.updating)}: the update of the parameters")
    if facts.on_gpu:
        rows = [(kind, seconds) for kind, seconds in facts.kinds.items() if kind not in ARITHMETIC and kind != "collective"]
        out.append("most of it: " + ", ".join(f"{kind} {_ms(seconds)}" for kind, seconds in rows[:4]) + f" {facts.per}")
        if facts.achieved.get("thin"):
            thin = _ms(facts.achieved["thin"])
            out.append(f"{thin} of convolutions and products that do fewer operations for each byte than this card can while it "
                       "fetches one")
    else:
        rows = [row for row in facts.operators if not is_product(row.name)][:4]
        out.append("most of it: " + ", ".join(f"{row.name} {_ms(row.seconds)}" for row in rows) + f" {facts.per}")
        if facts.prepared >= MOSTLY * facts.seconds:
            out.append(f"{_of(facts, facts.prepared)}: before the first convolution or product, where batches are prepared")
    return out


def _arithmetic(facts: Facts) -> list[str]:
    out = _work(facts)
    if facts.achieved.get("flops"):
        out.append(f"convolutions and products reach {reached(facts)}")
    if facts.on_gpu:
        out.append(f"{words.share(facts.tensor_cores)} of the kernels' time runs on tensor cores")
        if facts.missed:
            seconds = sum(row.seconds for row in facts.missed)
            out.append(f"{_of(facts, seconds)} in operators that could use them and do not: {facts.missed[0].operator}, "
                       f"{facts.missed[0].why}")
    return out


def reached(facts: Facts) -> str:
    """``297 TFLOP/s, 30% of what this card can in these formats``"""
    flops, peak = facts.achieved["flops"], facts.achieved.get("peak")
    return _flops(flops) + (f", {words.share(flops / peak)} of what this card can in these formats" if peak else "")


def _flops(value: float) -> str:
    return f"{words.number(value / 1e12)} TFLOP/s" if value >= 1e12 else f"{words.number(value / 1e9)} GFLOP/s"


def megabytes(value: float) -> str:
    """``16 B``, ``38.4 kB``, ``26.5 MB``, ``1.20 GB``."""
    if value >= 1e9:
        return words.gigabytes(value)
    if value >= 1e5:
        return f"{words.number(value / 1e6)} MB"
    return f"{words.number(value / 1e3)} kB" if value >= 1e3 else f"{value:.0f} B"


EVIDENCE = {"loader": _loader, "launch": _launch, "synchronisation": _synchronisation, "communication": _communication,
            "memory_bandwidth": _memory, "arithmetic": _arithmetic}


def unknown(facts: Facts) -> list[str]:
    """What this trace cannot tell."""
    out = []
    if not facts.on_gpu:
        out.append("how long a GPU would be idle for launches and synchronisations: a CPU computes inside the call, so only a "
                   "GPU's trace shows it")
        out.append("memory or arithmetic is told by the kind of operator here, not measured")
    elif facts.arithmetic and not facts.achieved:
        out.append("whether convolutions and products wait for memory: their sizes are not recorded (record_shapes=True)")
    elif facts.achieved and not facts.achieved.get("peak"):
        out.append(f"whether convolutions and products wait for memory: the peak of {facts.trace.device} is not known here")
    if facts.trace.world_size > 1:
        what = "which process comes late" if waiting(facts) else "whether a collective is slow or waits for another process"
        out.append(f"{what}: this trace is of rank {facts.trace.rank} alone")
    if not facts.marked and facts.reads is not None and not facts.updates and not facts.on_gpu:
        out.append("how often values are read in a step: no step is marked")
    if any(one.bytes is None and one.kind != "barrier" for one in facts.collectives):
        out.append("the bytes of some collectives (record_shapes=True)")
    return out
