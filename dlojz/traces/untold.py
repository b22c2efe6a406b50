"""What a trace does not tell: where none of the six patterns would be an answer, and why."""

from __future__ import annotations

from dataclasses import dataclass

from ..ui import words
from .facts import Facts

PATTERN, TITLE = "unknown", "this trace does not tell"
HALF = 0.5  # of a step, or of the kernels
ON_A_CPU = {"loader": "the loader", "communication": "other processes", "calls": "operators that do little",
            "other": "what lies between operators"}


@dataclass(frozen=True)
class Untold:
    """Why, in sentences with numbers, and what to do to know more."""

    why: list[str]
    next: list[str]


AGAIN = "profile again with both activities, ProfilerActivity.CPU and ProfilerActivity.CUDA (leave activities= out)"
COUNTERS = "ask who runs the machine whether users may read the GPU's counters (CUPTI); Kineto's messages are in the log"
ONE = "write one file for each rank: on_trace_ready with the rank in its name"
ALONE = "look whether another process uses the same GPU: nvidia-smi lists them"
SYSTEM = "record the whole machine: nsys profile shows all streams and processes on one time axis"


def of_what(facts: Facts) -> Untold | None:
    """Where the trace is not of one device whose work is in it."""
    trace = facts.trace
    if trace.foreign:
        return Untold([f"it is of a device that is not known here ({trace.foreign}): how it is fed and waited for shows in calls "
                       "that are not read"], ["look at the kernels and operators above: they are timed as recorded",
                                              "the vendor's own profiler knows its calls"])
    if trace.hidden_gpu:
        asked = sum(1 for call in trace.calls if call.kind == "cuda")
        calls = f" ({asked:,} calls to it are)" if asked else ""
        return Untold([f"the work of the GPU is not in it{calls}: its kernels were not recorded, and the times of operators are "
                       "those of asking for them", "that happens without ProfilerActivity.CUDA, where the GPU's counters may not "
                       "be read (CUPTI: permissions, WSL, another profiler), and where its buffer was full"], [AGAIN, COUNTERS])
    if len(trace.pids) > 1:
        return Untold([f"it holds the operators of {len(trace.pids)} processes: while one waits, another works"],
                      [ONE, "or take one process out of the file: its events have the same pid"])
    if trace.repeated > 1:
        return Untold([f"{trace.repeated} of its steps are in it twice or more: it holds the events of several processes, whose "
                       "numbers are added up, or those of one process twice"],
                      [ONE, "if the file was merged from several: read one of those"])
    if trace.gpus > 1:
        return Untold([f"it holds the kernels of {trace.gpus} GPUs: while one waits, another works"],
                      [ONE, "one process for each GPU (DistributedDataParallel) has a trace of its own"])
    if not trace.work and not any(call.kind == "op" for call in trace.calls):
        return Untold(["it holds no operator and no kernel: only ranges or functions of Python"],
                      [AGAIN, "begin the profiler before the loop, and call its step() in each step"])
    return None


def of_waiting(facts: Facts, pattern: str, scores: dict[str, float], worth: float) -> Untold | None:
    """Where the device stands still and the trace does not say for what. ``pattern``: the wait that takes most, if any."""
    most = scores.get(pattern, 0.0)
    if not facts.on_gpu:
        if pattern or facts.share("compute") >= HALF:
            return None
        rest = ", ".join(f"{said} {words.share(facts.share(name))}" for name, said in ON_A_CPU.items())
        return Untold([f"operators that compute take {words.share(facts.share('compute'))} of {facts.whole}; the rest is split, "
                       f"and no part of it is large enough to be the cause: {rest}"],
                      ["trace more steps: waits that come now and then need some",
                       "look whether other programs use these cores: they lengthen whatever runs (top)"])
    known = [item for item in facts.trace.work if item.kind == "kernel"]
    lost = sum(item.call is None for item in known)
    if pattern in ("launch", "synchronisation") and lost > HALF * len(known):
        return Untold([f"the GPU has nothing to do for {words.share(most)} of {facts.whole}, and the calls that queued "
                       f"{lost:,} of its {len(known):,} kernels are not recorded: nobody knows when they came"], [AGAIN, SYSTEM])
    between = facts.share("between")
    if between >= worth and between > most:
        seconds, whole = words.seconds(facts.shares["between"]), words.seconds(facts.seconds)
        return Untold([f"{seconds} of the {whole} of {facts.whole} ({words.share(between)}): the GPU stands still between "
                       "kernels although the next one is queued", "for whom it waits is not in the trace: another stream or "
                       "process on the same GPU, or launches that were not recorded; many short kernels need some µs "
                       "between them, too"],
                      [ALONE, SYSTEM])
    if not pattern and facts.share("compute") < HALF:
        return Untold([f"the GPU computes for {words.share(facts.share('compute'))} of {facts.whole}, and no single wait takes "
                       f"{words.share(worth)}"], ["trace more steps: waits that come now and then need some", SYSTEM])
    return None
