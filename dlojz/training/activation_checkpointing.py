"""Trading memory for time: activation checkpointing for any torchvision model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint


def checkpoint_activations(net: nn.Module) -> int:
    """Keep only the inputs of each block of ``net``, compute what is inside again in the backward pass; returns how many blocks.

    Names of parameters stay as they are. Batch norm sees each batch twice then, so its running statistics stand still the second
    time.
    """
    found = list(blocks(net))
    for block in found:
        block.forward = partial(_recomputed, block, block.forward)
    return len(found)


def blocks(module: nn.Module) -> Iterator[nn.Module]:
    """What repeats in a model of torchvision: the composite children of an ``nn.Sequential`` (ResNet's bottlenecks, a ViT's
    encoder layers)."""
    for child in module.children():
        if isinstance(module, nn.Sequential) and not isinstance(child, nn.Sequential) and any(True for _ in child.children()):
            yield child  # and not what is inside it
        else:
            yield from blocks(child)


def _recomputed(block, forward, *inputs):
    if not block.training:
        return forward(*inputs)
    if torch.compiler.is_compiling():  # it leaves the update of statistics out of what is computed again
        return checkpoint(forward, *inputs, use_reentrant=False)
    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=lambda: (nullcontext(), _still_statistics(block)))


@contextmanager
def _still_statistics(block):
    norms = [m for m in block.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    counts = [norm.num_batches_tracked for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, count in zip(norms, momenta, counts):
            norm.momentum, norm.num_batches_tracked = momentum, count
