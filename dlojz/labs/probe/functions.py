"""A function of the trainee's beside the kit's: both are called with the same inputs, and what they give is compared.

``case``   one input: name, wrong (what differs: error, kind, dtype, shape, device, value, inputs, waits, random; empty: nothing),
           mine and kits (what it is, as text), largest (of the differences, of values), at (where that is), line and file of an
           error
``speed``  mine, kits (seconds, the least of several, or operations of torch), ratio
``kits``   the kit's own function has failed: error
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .log import Log, error

WHOLE = 8  # numbers: a tensor with so many is shown whole
CLOSE = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-5, torch.float64: 1e-7}  # shares of the largest number


def run(log: Log, load: Callable, script: str, calls: str, asked: dict) -> None:
    """``load``: imports a file under a name. ``asked``: kits (the kit's file), function, inputs, by, tolerance, repeat."""
    helper = load("calls", calls)
    theirs = _function(_kits(load, asked["kits"]), helper, asked)
    ours = _function(load(os.path.splitext(os.path.basename(script))[0], script), helper, asked)
    names = [name for name, *_ in _inputs(helper, asked)]
    for number, name in enumerate(names):
        expected = _called(theirs, _inputs(helper, asked), number, log)
        if isinstance(expected.failure, BaseException):
            log.note("kits", error=f"{type(expected.failure).__name__}: {expected.failure}")
            return
        found = _called(ours, _inputs(helper, asked), number, log)
        log.note("case", name=name, **_compared(found, expected, asked["tolerance"], log))
    if asked["repeat"] or asked["operations"]:
        def last():
            return list(_inputs(helper, asked))[-1]

        mine, kits = (_times(ours, theirs, last, asked["repeat"]) if asked["repeat"]
                      else map(_operations, (ours, theirs), (last(), last())))
        log.note("speed", mine=mine, kits=kits, ratio=mine / kits)


def _kits(load: Callable, file: str):
    """The kit's module, whose siblings are the kit's, too; the trainee's of the same names are imported after it, anew."""
    before = set(sys.modules)
    sys.path.insert(0, os.path.dirname(file))
    try:
        return load(os.path.splitext(os.path.basename(file))[0], file)
    finally:
        sys.path.remove(os.path.dirname(file))
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(os.path.dirname(file)):
                del sys.modules[name]


def _function(module, helper, asked: dict) -> Callable:
    if asked["by"]:
        return getattr(helper, asked["by"])(module)
    found = module
    for name in asked["function"].split("."):
        found = getattr(found, name)
    return found


def _inputs(helper, asked: dict) -> Iterator[tuple]:
    """(name, arguments, keywords), always the same."""
    torch.manual_seed(0)
    for name, arguments, *keywords in getattr(helper, asked["inputs"])():
        yield name, arguments, keywords[0] if keywords else {}


class _called:
    def __init__(self, function: Callable, inputs: Iterator[tuple], number: int, log: Log):
        _, self.arguments, keywords = list(inputs)[number]
        before = _copied(self.arguments)
        torch.manual_seed(1)
        self.result, self.failure, waits = None, None, log.noted("sync")
        try:
            self.result = function(*self.arguments, **keywords)
        except Exception as failure:
            self.failure = failure
        self.waits = log.noted("sync") - waits
        self.random = torch.get_rng_state().numpy().tobytes()
        self.changed = [number for number, (one, other) in enumerate(zip(before, self.arguments)) if not _equal(one, other)]


def _compared(found: _called, expected: _called, tolerance: float | None, log: Log) -> dict:
    if found.failure is not None:
        failed = error(found.failure, log)
        return {"wrong": "error", "mine": f"{failed['kind']}: {failed['message']}", "kits": "",
                "line": failed["line"], "file": failed["file"]}
    for place, one, other in _pairs("the result", found.result, expected.result):
        for wrong, of in (("kind", _kind), ("dtype", lambda v: str(v.dtype)), ("shape", lambda v: str(list(v.shape))),
                          ("device", lambda v: log.place(v))):
            if wrong != "kind" and not isinstance(other, torch.Tensor):
                continue
            if of(one) != of(other):
                mine, kits = (of(value).removeprefix("torch.") for value in (one, other))
                return {"wrong": wrong, "mine": mine, "kits": kits, "part": place}
        if (apart := _apart(one, other, tolerance)) is not None:
            return {"wrong": "value", "part": place, **apart}
    if set(found.changed) - set(expected.changed):
        return {"wrong": "inputs", "mine": ", ".join(str(number + 1) for number in found.changed), "kits": ""}
    if found.waits and not expected.waits:
        return {"wrong": "waits", "mine": "once" if found.waits == 1 else f"{found.waits} times", "kits": ""}
    if found.random != expected.random:
        return {"wrong": "random", "mine": "", "kits": ""}
    return {"wrong": ""}


def _pairs(place: str, one, other) -> Iterator[tuple]:
    if isinstance(other, (tuple, list)) and isinstance(one, (tuple, list)) and len(one) == len(other):
        for number, (a, b) in enumerate(zip(one, other)):
            yield from _pairs(f"part {number + 1} of {place}" if place == "the result" else f"{place}, {number + 1}", a, b)
    elif isinstance(other, dict) and isinstance(one, dict):
        for key in other:
            yield from _pairs(key if place == "the result" else f"{key} of {place}", one.get(key), other[key])
    else:
        yield place, one, other


def _kind(value) -> str:
    if isinstance(value, (tuple, list)):
        return f"{len(value)} values"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "a number"
    return "a tensor" if isinstance(value, torch.Tensor) else "none" if value is None else type(value).__name__


def _apart(one, other, tolerance: float | None) -> dict | None:
    """The largest difference, and where the first one is; None where the two are the same, or close."""
    if not isinstance(other, torch.Tensor):
        if isinstance(other, float) and isinstance(one, (int, float)):
            return _apart(torch.tensor(float(one), dtype=torch.float64), torch.tensor(other, dtype=torch.float64), tolerance)
        return None if one == other else {"mine": _text(one), "kits": _text(other), "largest": None, "at": []}
    if not other.numel():
        return None
    a, b = one.detach().cpu().double(), other.detach().cpu().double()
    apart = torch.where(torch.isfinite(a) & torch.isfinite(b), (a - b).abs(), math.inf)
    apart[(a == b) | (a.isnan() & b.isnan())] = 0.0
    share = CLOSE.get(other.dtype, 0.0) if tolerance is None else tolerance
    finite = b[torch.isfinite(b)].abs()
    close = share * max(finite.max().item() if len(finite) else 0.0, 1e-30)
    if apart.max().item() <= close:
        return None
    if b.numel() <= WHOLE:
        return {"mine": _text(a.tolist()), "kits": _text(b.tolist()), "largest": apart.max().item(), "at": []}
    at = [int(place) for place in torch.unravel_index((apart > close).flatten().byte().argmax(), apart.shape)]
    return {"mine": f"{a[tuple(at)].item():.6g}", "kits": f"{b[tuple(at)].item():.6g}", "largest": apart.max().item(), "at": at}


def _text(value) -> str:
    """As a message says it: texts as they are, numbers with six digits."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else repr(value)[:80]


def _times(ours: Callable, theirs: Callable, inputs: Callable, repeat: int) -> tuple[float, float]:
    """The least of several times of each, taken in turn, so that what else runs here slows both."""
    best = [math.inf, math.inf]
    for round_ in range(repeat + 1):
        for place, function in enumerate((ours, theirs)):
            _, arguments, keywords = inputs()
            begun = time.perf_counter()
            function(*arguments, **keywords)
            if torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing():
                torch.cuda.synchronize()
            if round_:  # the first is the warm-up
                best[place] = min(best[place], time.perf_counter() - begun)
    return best[0], best[1]


def _operations(function: Callable, given: tuple) -> int:
    """How many operations of torch a call comes down to."""
    class Counting(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            self.count += 1
            return operation(*args, **(kwargs or {}))

    with Counting() as counting:
        function(*given[1], **given[2])
    return counting.count


def _copied(values):
    return [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in values]


def _equal(one, other) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        alike = one.shape == other.shape and one.dtype == other.dtype
        return alike and bool(((one == other) | ((one != one) & (other != other))).all())  # NaN is not equal to itself
    return one is other or bool(one == other)
