"""The two places where everything that torch does passes by: calls of its functions, and the operations they come down to."""

from __future__ import annotations

import functools

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """Shows each operation, in the forward and the backward pass, to the observers that have ``before_op`` or ``after_op``.

    It sees them below autocast and autograd: dtypes and formats are those that are computed with.
    """

    def __init__(self, log, observers):
        super().__init__()
        self.log = log
        self.before = [o.before_op for o in observers if hasattr(o, "before_op")]
        # The last one is the first to see what came of it: simulated GPUs mark where a result is before others ask.
        self.after = [o.after_op for o in reversed(observers) if hasattr(o, "after_op")]

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.log.quiet:
            return operation(*args, **kwargs)
        for look in self.before:
            look(operation, args, kwargs)
        with self.log.silence():
            result = operation(*args, **kwargs)
        for look in self.after:
            look(operation, args, kwargs, result)
        return result


class Calls(TorchFunctionMode):
    """Shows each call of a torch function to observers with ``before_call``, or with ``call_within``, which are given what makes
    the call and return its result; one with ``call`` may answer it in torch's place."""

    def __init__(self, log, observers):
        super().__init__()
        self.log = log
        self.before = [o.before_call for o in observers if hasattr(o, "before_call")]
        self.within = [o.call_within for o in observers if hasattr(o, "call_within")]
        self.answer = next((o.call for o in observers if hasattr(o, "call")), None)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.log.quiet:
            return function(*args, **kwargs)
        for look in self.before:
            look(function, args, kwargs)

        def proceed():
            return self.answer(function, args, kwargs) if self.answer else function(*args, **kwargs)

        for around in self.within:
            proceed = functools.partial(around, function, args, kwargs, proceed)
        return proceed()


def tensors(values):
    """The tensors among arguments or results, also those in lists."""
    import torch

    for value in values if isinstance(values, (tuple, list)) else (values,):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from tensors(value)
