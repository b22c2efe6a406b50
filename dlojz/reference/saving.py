"""Techniques that save memory, each at a price in time, as train_lm.py's switches and the lab memory call them."""

import functools

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, noop_context_fn

from dlojz import todo  # noqa: F401

# What is slow to compute again: matrix products, and attention in any of its kernels.
PRODUCTS = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default,
            *(getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}").default
              for kernel in ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu"))]


def recomputed(block, *inputs, keep_products=False):
    """``block(*inputs)``, of which only the inputs are kept for the backward pass; all else is computed again there.

    ``keep_products``: the results of `PRODUCTS` are kept as well, so that only cheap operators run twice.
    """
    # >>> memory.recomputed: activation checkpointing, whole or selective
    context = noop_context_fn
    if keep_products:
        context = functools.partial(create_selective_checkpoint_contexts, PRODUCTS)
    return checkpoint(block, *inputs, use_reentrant=False, context_fn=context)
    # <<< memory.recomputed


def chunked_loss(x, head, targets, chunks):
    """The mean cross-entropy of ``head(x)`` with ``targets``, without ever holding the logits of more than a chunk of the tokens.

    ``x``: (batch, length, width). ``head``: a module, (…, width) -> (…, vocabulary), frozen with LoRA. ``targets``: int64
    (batch, length). ``chunks``: into how many about equal parts the batch x length tokens are cut. Returns float32 (), with the
    gradients of one whole loss. Logits are float32 where the loss is computed.
    """
    # >>> memory.loss: one chunk of logits at a time, forward and backward
    def of(part, wanted):
        return F.cross_entropy(head(part).float(), wanted, reduction="sum")

    parts = zip(x.flatten(0, 1).chunk(chunks), targets.flatten().chunk(chunks))
    return sum(checkpoint(of, part, wanted, use_reentrant=False) for part, wanted in parts) / targets.numel()
    # <<< memory.loss


class LoRA(nn.Module):
    """A linear layer that is frozen, and a product of two thin matrices beside it that learns (Hu et al. 2021,
    arXiv:2106.09685).

    ``linear(x) + alpha / rank * up(down(x))``, where ``down``'s weight is (rank, inputs), as nn.Linear makes it, and ``up``'s
    (outputs, rank) of zeros: at first nothing changes. Neither has a bias. On the device of ``linear``'s weight, in its format.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float):
        super().__init__()
        # >>> memory.lora: freeze, and put two thin matrices beside
        self.linear, self.scale = linear.requires_grad_(False), alpha / rank
        like = {"bias": False, "device": linear.weight.device, "dtype": linear.weight.dtype}
        self.down = nn.Linear(linear.in_features, rank, **like)
        self.up = nn.Linear(rank, linear.out_features, **like)
        nn.init.zeros_(self.up.weight)
        # <<< memory.lora

    def forward(self, x):
        # >>> memory.lora_forward: the sum of both ways
        return self.linear(x) + self.scale * self.up(self.down(x))
        # <<< memory.lora_forward


def add_lora(net: nn.Module, rank: int) -> nn.Module:
    """``net`` with each linear layer inside of its ``blocks`` as a `LoRA` of this rank, and all else frozen."""
    net.requires_grad_(False)
    for block in net.blocks:
        for module in list(block.modules()):
            for name, child in list(module.named_children()):
                if type(child) is nn.Linear:
                    setattr(module, name, LoRA(child, rank, 2 * rank))
    return net


def step_in_backward(parameters, make):
    """Each parameter is updated as soon as its gradient is complete, in the backward pass, and the gradient is freed at once.

    ``make([parameter])`` makes an optimizer. Returns them, one for each parameter. Gradients cannot be clipped by their common
    norm or accumulated: no two of them exist at the same time.
    """
    # >>> memory.step: an optimizer for each parameter, called when its gradient has arrived
    optimizers = {parameter: make([parameter]) for parameter in parameters}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad(set_to_none=True)

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(update)
    return list(optimizers.values())
    # <<< memory.step
