"""The time of an update, and the steps to a loss: what the notebook measures here and `dlojz.benchmarks.day3` on a GPU."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from ...system import paths
from .. import catalogue

MEAN_OVER = 2048  # images: the training loss is a mean over so many, or over one batch
DECAY = 5e-4
MOMENTUM = 0.9
IMPLEMENTATIONS = {"for-loop": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def reference():
    """The kit's optimizers.py."""
    return paths.module(catalogue.reference("optimizers.py"))


def makers(optimizers) -> Iterator[tuple[str, str, int, Callable]]:
    """Optimizer, implementation, bytes that it has to move per parameter at least, and a function of parameters that makes it."""
    import torch

    groups = [("sgd, no momentum", 12, lambda p, **how: torch.optim.SGD(p, 1e-6, **how)),
              ("sgd", 20, lambda p, **how: torch.optim.SGD(p, 1e-6, momentum=MOMENTUM, **how)),
              ("adamw", 28, lambda p, **how: torch.optim.AdamW(p, 1e-6, **how))]
    for name, moved, make in groups:
        for said, how in IMPLEMENTATIONS.items():
            yield name, said, moved, lambda p, make=make, how=how: make(p, **how)
    for name, moved in (("lars", 20), ("lamb", 28), ("lion", 20), ("muon", 20)):
        yield name, "by hand", moved, lambda p, name=name: optimizers.make_optimizer(
            name, [{"params": [w for w in p if w.ndim > 1], "weight_decay": 0.01},
                   {"params": [w for w in p if w.ndim <= 1], "weight_decay": 0.0}], 1e-6, MOMENTUM, False)


def update(device, parameters: int, done=lambda rows: None, names: Sequence[str] = (), side: int = 1024) -> list[dict]:
    """Times an update of square matrices, each with a vector as long as its ``side``, by each optimizer: the median of several.

    ``names``: which optimizers (all). ``done`` is given the rows that there are after each.
    """
    import torch

    count = max(1, round(parameters / (side * side + side)))
    bandwidth = copied_bytes_per_second(device)
    rows = []
    for name, said, moved, make in makers(reference()):
        if names and name not in names:
            continue
        shapes = [(side, side), (side,)] * count
        weights = [torch.nn.Parameter(torch.randn(shape, device=device)) for shape in shapes]
        total = sum(w.numel() for w in weights)
        row = {"optimizer": name, "implementation": said, "parameters": total, "at_least_ms": moved * total / bandwidth * 1000,
               "bandwidth": bandwidth}
        try:
            for w in weights:
                w.grad = torch.randn_like(w)
            optimizer = make(weights)
            seconds = timed(optimizer.step, device)
            state = [value for of in optimizer.state.values() for value in of.values() if isinstance(value, torch.Tensor)]
            row |= {"ms": seconds * 1000, "state_bytes_per_parameter": sum(each.numel() * each.element_size() for each in state
                                                                           if each.numel() > 1) / total}
        except (RuntimeError, TypeError) as error:  # an older torch, or no memory
            row |= {"ms": None, "error": str(error).split("\n")[0][:200]}
        rows.append(row)
        done(rows)
        del weights
    return rows


def copied_bytes_per_second(device) -> float:
    """What a copy within the device's memory moves: bytes read and written."""
    import torch

    numbers = 2**28 if device.type == "cuda" else 2**24
    here, there = torch.empty(numbers, device=device), torch.empty(numbers, device=device)
    return 2 * 4 * numbers / timed(lambda: there.copy_(here), device)


def timed(function: Callable, device, repeat: int = 15, most: float = 2.0) -> float:
    """Seconds of a call: the median of ``repeat``, or of as many as fit into ``most`` seconds, after three that do not count."""
    import torch

    wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    found, began = [], time.perf_counter()
    for number in range(3 + repeat):
        wait()
        at = time.perf_counter()
        function()
        wait()
        if number >= 3:
            found.append(time.perf_counter() - at)
        if found and time.perf_counter() > began + most:
            break
    return statistics.median(found)


def smoothed(losses: Sequence[float], batch: int) -> list[float]:
    """Each loss as the mean over the last MEAN_OVER images."""
    over = max(1, MEAN_OVER // batch)
    sums = list(itertools.accumulate(losses, initial=0.0))
    return [(sums[at] - sums[max(0, at - over)]) / min(at, over) for at in range(1, len(sums))]
