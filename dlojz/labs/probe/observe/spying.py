"""Spying: calls of any function, by its name, such as ``spy=["torch.compile", "torch.nn.utils.clip_grad_norm_"]``.

``call``  it was called: name, args (each as a short text; a tensor by dtype, shape and device), number (from 1, of all of these),
          inside (the step)
``used``  in this step a torch function, a module's forward pass or an optimizer was given what a call returned, or it was called
          itself: name, number of the call. Noted once a step
"""

from __future__ import annotations

import functools
import importlib
import sys

import torch

from ..modes import tensors

LONGEST = 80


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.names = list(options.get("spy") or ())
        self.number = 0
        self.results: dict[int, tuple] = {}  # id -> (the result, which must live as long, name, number)
        self.said: set[tuple] = set()

    def install(self):
        for name in self.names:
            self.replace(name)
        if self.names:
            torch.nn.modules.module.register_module_forward_pre_hook(self.forward)

    def replace(self, name: str):
        place, _, attribute = name.rpartition(".")
        owner = found(place)
        original = getattr(owner, attribute)
        spied = self.noting(original, name)
        if hasattr(owner, "__dict__") and isinstance(owner, type):
            setattr(owner, attribute, spied)
            return
        for module in list(sys.modules.values()):  # torch gives many of its functions in more than one place
            if getattr(module, "__name__", "").split(".")[0] == name.split(".")[0]:
                for key, value in list(vars(module).items()):
                    if value is original:
                        setattr(module, key, spied)

    def noting(self, original, name):
        @functools.wraps(original)
        def called(*args, **kwargs):
            if self.log.quiet:
                return original(*args, **kwargs)
            self.number += 1
            number = self.number
            said = [shortly(value) for value in args] + [f"{key}={shortly(value)}" for key, value in kwargs.items()]
            self.log.note("call", name=name, args=said, number=number, inside=self.log.step)
            result = original(*args, **kwargs)
            if result is not None and not isinstance(result, (bool, int, float, str)):
                self.results[id(result)] = result, name, number
            return result

        return called

    def forward(self, module, args):
        self.look([module, *args])

    def before_call(self, function, args, kwargs):
        if self.results:
            self.look([*tensors(args), *tensors(list(kwargs.values()))])

    def look(self, values):
        if self.log.quiet:
            return
        for value in values:
            if id(value) in self.results:
                _, name, number = self.results[id(value)]
                if (number, self.log.step) not in self.said:
                    self.said.add((number, self.log.step))
                    self.log.note("used", name=name, number=number)


def found(place: str):
    """A module, or a class in one."""
    names = place.split(".")
    for count in range(len(names), 0, -1):
        try:
            owner = importlib.import_module(".".join(names[:count]))
        except ImportError:
            continue
        for name in names[count:]:
            owner = getattr(owner, name)
        return owner
    raise ImportError(f"nothing is called {place}")


def shortly(value) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} {value.device.type}"
    if isinstance(value, torch.nn.Module):
        return type(value).__name__
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    text = repr(value)
    text = type(value).__name__ if " at 0x" in text else text
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]} …"
