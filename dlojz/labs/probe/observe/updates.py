"""Updates: with which gradients an optimizer stepped, and what that made of the weights; steps of a schedule.

``update``    an optimizer's step begins: optimizer (its number, in the order of first steps), gradient (fingerprint of all
              gradients; its norm is None where one is not finite), norm (the same), without (how many of its parameters have no
              gradient), lr
``updated``   it is over: change (fingerprint of what was added to the weights)
``schedule``  a learning rate schedule was stepped, but for the first time, as it is made: kind, lr
"""

from __future__ import annotations

import functools
import inspect

import torch
from torch.optim import lr_scheduler
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..fingerprints import fingerprint

COMPARED = {
    "update": ("optimizer", "without", "~gradient", "lr"),
    "updated": ("~change",),
    "schedule": ("lr",),
}


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.optimizers: list = []
        self.weights: list = []  # before the step
        self.stepping = 0  # schedules that we are in: one steps others

    def install(self):
        register_optimizer_step_pre_hook(self.before)
        register_optimizer_step_post_hook(self.after)
        for kind in vars(lr_scheduler).values():
            if inspect.isclass(kind) and "step" in vars(kind):
                kind.step = self.noting_schedule(kind.step)

    def before(self, optimizer, *_):
        if self.log.quiet:
            return
        if not any(optimizer is each for each in self.optimizers):
            self.optimizers.append(optimizer)
        number = next(number for number, each in enumerate(self.optimizers) if each is optimizer)
        parameters = _parameters(optimizer)
        without = sum(parameter.grad is None for parameter in parameters)
        keep = self.log.wants("updated")
        with self.log.silence():
            gradient = fingerprint(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)
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


def _parameters(optimizer) -> list:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
