"""What stands for a tensor's numbers, small enough to note: two runs have the same where the tensors are the same, and close ones
where they are close."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy
import torch

DIRECTIONS = 4


def fingerprint(tensors: Iterable) -> dict:
    """``norm`` of all numbers together (None: not finite), and ``seen``, their sums with weights between -1 and 1 that depend on
    the place, once for each of a few directions. Where a tensor lies in memory, and on which device, makes no difference."""
    squares, seen, place = 0.0, numpy.zeros(DIRECTIONS), 0
    with torch.no_grad(), numpy.errstate(all="ignore"):
        for tensor in tensors:
            if tensor is None:
                place += 1
                continue
            tensor = getattr(tensor, "_local_tensor", tensor)  # of one that is spread over processes the part that this one has
            flat = tensor.detach().cpu().double().flatten().numpy()  # in the order of its indices; numpy, for torch is watched
            squares += float(flat @ flat)
            seen += weights(place + len(flat))[:, place:place + len(flat)] @ flat
            place += len(flat)
    norm = math.sqrt(squares) if math.isfinite(squares) else None
    return {"norm": norm, "seen": seen.tolist() if norm is not None else []}


_weights = numpy.zeros((DIRECTIONS, 0))


def weights(count: int) -> numpy.ndarray:
    """Those of the first ``count`` places or more, a row for each direction. They are kept: to compute them takes longest."""
    global _weights
    if _weights.shape[1] < count:
        places, directions = numpy.arange(2 * count, dtype=numpy.float64), numpy.arange(DIRECTIONS)[:, None]
        _weights = numpy.cos((directions + 1.3) * places + directions)
    return _weights
