"""Updates: with which gradients an optimizer stepped, and what the weights were after it. Only with ``updates=True``.

``applied``  an optimizer has stepped: number (from 1), gradient and weights (each a fingerprint: two numbers that are as close
             for two runs as the tensors are), without (how many of its parameters had no gradient)
``left``     the script has ended: weights (fingerprint), pending (whether a gradient was left that no step has used)

A process that waits for another one gives up after WAIT seconds, with torch's own error. With ``no_batch_norm=True`` batch norm
only scales and shifts, and dropout is left out: then batches taken in parts give the gradient of the whole.
"""

from __future__ import annotations

import datetime
import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

WAIT = 12.0  # seconds


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.on = bool(options.get("updates"))
        self.no_batch_norm = bool(options.get("no_batch_norm"))
        self.number = 0
        self.gradient: tuple | None = None
        self.optimizer = None

    def install(self):
        if self.on:
            register_optimizer_step_pre_hook(self.before)
            register_optimizer_step_post_hook(self.after)
            dist.init_process_group = distributed_c10d.init_process_group = impatient(dist.init_process_group)
        if self.no_batch_norm:
            nn.BatchNorm2d.forward = lambda norm, x: x * norm.weight[:, None, None] + norm.bias[:, None, None]
            nn.Dropout.forward = lambda dropout, x: x

    def before(self, optimizer, *_):
        gradients = [parameter.grad for parameter in _parameters(optimizer)]
        self.gradient = self.fingerprint(gradients), sum(gradient is None for gradient in gradients)

    def after(self, optimizer, *_):
        self.number += 1
        self.optimizer = optimizer
        gradient, without = self.gradient
        self.log.note("applied", number=self.number, gradient=gradient, without=without,
                      weights=self.fingerprint(_parameters(optimizer)))

    def finish(self):
        if self.optimizer is None:
            return
        parameters = _parameters(self.optimizer)
        with self.log.silence():
            pending = any(parameter.grad is not None and bool(parameter.grad.any()) for parameter in parameters)
        self.log.note("left", weights=self.fingerprint(parameters), pending=pending)

    def fingerprint(self, tensors) -> list[float]:
        """The norm of all numbers together, and their sum with signs and sizes that depend on their place."""
        squares = weighted = 0.0
        with self.log.silence(), torch.no_grad():
            for place, tensor in enumerate(tensors, 1):
                if tensor is None:
                    continue
                flat = tensor.detach().double().flatten().cpu()
                squares += flat.square().sum().item()
                weighted += (flat * torch.cos(place + torch.arange(len(flat), dtype=torch.float64))).sum().item()
        return [squares**0.5, weighted]


def impatient(make):
    @functools.wraps(make)
    def made(*args, **more):
        return make(*args, **{**more, "timeout": datetime.timedelta(seconds=WAIT)})

    return made


def _parameters(optimizer) -> list:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
