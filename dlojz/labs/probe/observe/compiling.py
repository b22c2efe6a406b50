"""Compiling: what torch.compile was given. Nothing is compiled, which would take longer than a check may.

``compiled``       torch.compile, or a module's `compile`, was given a module or a function: kind (its class), mode, formats
                   ({memory format: how many} of its weights with 4 dimensions), number (from 1)
``compiled.used``  what was compiled is called in training: number. Noted once a step
"""

from __future__ import annotations

import contextlib
from collections import Counter

import torch
from torch import nn

from .layers import memory_format

COMPARED = {"compiled": ("kind", "mode", "formats"), "compiled.used": ("number",)}


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.number = 0
        self.said: set[tuple] = set()

    def install(self):
        observer = self

        def compile(model=None, *, mode=None, **options):
            if model is None:
                return lambda given: compile(given, mode=mode, **options)
            number = observer.note(model, mode)
            if not isinstance(model, nn.Module):
                return model
            stand_in = Compiled(model)
            stand_in.register_forward_pre_hook(lambda *_: observer.use(model, number))
            return stand_in

        def compile_in_place(module, *args, mode=None, **options):
            number = observer.note(module, mode)
            module.register_forward_pre_hook(lambda *_: observer.use(module, number))

        torch.compile = compile
        nn.Module.compile = compile_in_place
        torch.compiler.set_stance = lambda *_, **__: contextlib.nullcontext()

    def note(self, model, mode) -> int:
        self.number += 1
        weights = [p for p in model.parameters() if p.dim() == 4] if isinstance(model, nn.Module) else []
        with self.log.silence():
            formats = dict(Counter(memory_format(weight) for weight in weights))
        self.log.note("compiled", kind=type(model).__name__, mode=mode or "default", formats=formats, number=self.number)
        return self.number

    def use(self, model, number) -> None:
        if model.training and (number, self.log.step) not in self.said:
            self.said.add((number, self.log.step))
            self.log.note("compiled.used", number=number)


class Compiled(nn.Module):
    """In the place of torch's OptimizedModule: the same names, and nothing compiled."""

    def __init__(self, model):
        super().__init__()
        self._orig_mod = model

    def __getattr__(self, name):
        own = self._modules["_orig_mod"]
        return own if name == "_orig_mod" else getattr(own, name)

    @property
    def training(self):
        return self._modules["_orig_mod"].training

    @training.setter
    def training(self, mode):
        own = self.__dict__.get("_modules", {}).get("_orig_mod")  # nn.Module.__init__ sets it before there is one
        if own is not None:
            own.training = mode

    def forward(self, *args, **kwargs):
        return self._orig_mod(*args, **kwargs)
