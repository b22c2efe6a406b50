"""What stands for a tensor's numbers, small enough to note: two runs have the same where the tensors are the same, and close ones
where they are close."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

DIRECTIONS = 4


def fingerprint(tensors: Iterable) -> dict:
    """``norm`` of all numbers together (None: not finite), and ``seen``, their sums with weights between -1 and 1 that depend on
    the place, once for each of a few directions. Where a tensor lies in memory, and on which device, makes no difference."""
    squares, seen, place = 0.0, [0.0] * DIRECTIONS, 0
    with torch.no_grad():
        for tensor in tensors:
            if tensor is None:
                place += 1
                continue
            tensor = getattr(tensor, "_local_tensor", tensor)  # of one that is spread over processes the part that this one has
            flat = tensor.detach().cpu().double().flatten()  # in the order of its indices
            squares += flat.square().sum().item()
            places = torch.arange(place, place + len(flat), dtype=torch.float64)
            for number in range(DIRECTIONS):
                seen[number] += (flat * torch.cos((number + 1.3) * places + number)).sum().item()
            place += len(flat)
    norm = math.sqrt(squares) if math.isfinite(squares) else None
    return {"norm": norm, "seen": seen if norm is not None else []}
