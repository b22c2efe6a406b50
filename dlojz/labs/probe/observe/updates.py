"""Updates: with which gradients an optimizer stepped, and what that made of the weights; steps of a schedule.

``update``    an optimizer's step begins: optimizer (its number, in the order of first steps), gradient (fingerprint of all
              gradients; its norm is None where one is not finite), norm (the same), without (how many of its parameters have no
              gradient), lr
``updated``   it is over: change (fingerprint of what was added to the weights)
``schedule``  a learning rate schedule was stepped, but for the first time, as it is made: kind, lr

With ``updates=True`` also

``applied``  an optimizer has stepped: number (from 1), gradient and weights (each a fingerprint: two numbers that are as close
             for two runs as the tensors are), without (how many of its parameters had no gradient)
``left``     the script has ended: weights (fingerprint), pending (whether a gradient was left that no step has used)

and a process that waits for another one gives up after WAIT seconds, with torch's own error. With ``no_batch_norm=True`` batch
norm only scales and shifts, and dropout is left out: then batches taken in parts give the gradient of the whole.
"""

from __future__ import annotations

import datetime
import functools
import inspect

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..fingerprints import fingerprint

COMPARED = {
    "update": ("optimizer", "without", "~gradient", "lr"),
    "updated": ("~change",),
    "schedule": ("lr",),
}
WAIT = 12.0  # seconds


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.on = bool(options.get("updates"))
        self.no_batch_norm = bool(options.get("no_batch_norm"))
        self.number = 0
        self.gradient: tuple | None = None
        self.optimizer = None
        self.optimizers: list = []
        self.weights: list = []  # before the step
        self.stepping = 0  # schedules that we are in: one steps others

    def install(self):
        register_optimizer_step_pre_hook(self.before)
        register_optimizer_step_post_hook(self.after)
        for kind in vars(lr_scheduler).values():
            if inspect.isclass(kind) and "step" in vars(kind):
                kind.step = self.noting_schedule(kind.step)
        if self.on:
            dist.init_process_group = distributed_c10d.init_process_group = impatient(dist.init_process_group)
        if self.no_batch_norm:
            nn.BatchNorm2d.forward = lambda norm, x: x * norm.weight[:, None, None] + norm.bias[:, None, None]
            nn.Dropout.forward = lambda dropout, x: x

    def before(self, optimizer, *_):
        if self.log.quiet:
            return
        if not any(optimizer is each for each in self.optimizers):
            self.optimizers.append(optimizer)
        number = next(number for number, each in enumerate(self.optimizers) if each is optimizer)
        parameters = _parameters(optimizer)
        gradients = [parameter.grad for parameter in parameters]
        without = sum(gradient is None for gradient in gradients)
        if self.on:
            self.gradient = self.fingerprint(gradients), without
        keep = self.log.wants("updated")
        with self.log.silence():
            gradient = fingerprint(gradients)
            self.weights = [parameter.detach().clone() for parameter in parameters] if keep else []
            rates = [float(group["lr"]) for group in optimizer.param_groups]
        self.log.note("update", optimizer=number, gradient=gradient, norm=gradient["norm"], without=without, lr=rates)

    def after(self, optimizer, *_):
        if self.log.quiet:
            return
        parameters = _parameters(optimizer)
        if len(self.weights) == len(parameters):
            with self.log.silence(), torch.no_grad():
                change = fingerprint(now.detach() - before for now, before in zip(parameters, self.weights))
            self.log.note("updated", change=change)
        self.weights = []
        if not self.on:
            return
        self.number += 1
        self.optimizer = optimizer
        gradient, without = self.gradient
        self.log.note("applied", number=self.number, gradient=gradient, without=without, weights=self.fingerprint(parameters))

    def noting_schedule(self, original):
        @functools.wraps(original)
        def step(schedule, *args, **kwargs):
            self.stepping += 1
            try:
                original(schedule, *args, **kwargs)
            finally:
                self.stepping -= 1
            made = hasattr(schedule, "_dlojz_made")  # its first step is made by its __init__
            schedule._dlojz_made = True
            if made and not self.stepping and not self.log.quiet:
                groups = getattr(getattr(schedule, "optimizer", None), "param_groups", ())
                self.log.note("schedule", kind=type(schedule).__name__, lr=[float(group["lr"]) for group in groups])

        return step

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
