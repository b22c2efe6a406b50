"""Transfers: what is moved between devices or made to lie otherwise in memory, and where the host waits for the device.

``move``        a tensor was copied to another device: source, target, shape, dtype, non_blocking, pinned (on a real GPU)
``model.move``  a module was asked to move or convert: kind, how (to, cuda, cpu, half, …), to (its arguments, as text)
``sync``        the host waited for the device: how (synchronize, empty_cache, or what asked for a value, or for a size that
                depends on values), device
``set_device``  the current GPU was chosen: device
"""

from __future__ import annotations

import functools

import torch
from torch import nn

SIZED = ("nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount", "_coalesce")  # by values
SYNCS = {"_local_scalar_dense": "a value is read"} | {name: name.strip("_2") for name in SIZED}
MASKS = (torch.bool, torch.uint8)
INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_")


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.converting = False

    def install(self):
        for name in ("to", "cuda", "cpu", "half", "bfloat16", "double", "float"):
            setattr(nn.Module, name, self.noting(getattr(nn.Module, name), name))
        torch.cuda.synchronize = self.noting_wait(torch.cuda.synchronize, "synchronize")
        torch.cuda.empty_cache = self.noting_wait(torch.cuda.empty_cache, "empty_cache")  # what is given back must be out of use
        torch.cuda.set_device = self.noting_device(torch.cuda.set_device)

    def noting(self, original, name):
        @functools.wraps(original)
        def converted(module, *args, **kwargs):
            if self.log.quiet or self.converting:
                return original(module, *args, **kwargs)
            asked = [str(value) for value in [*args, *kwargs.values()] if not isinstance(value, bool)]
            self.log.note("model.move", kind=type(module).__name__, how=name, to=asked)
            self.converting = True
            try:
                return original(module, *args, **kwargs)
            finally:
                self.converting = False

        return converted

    def noting_wait(self, original, how):
        @functools.wraps(original)
        def waited(*args, **kwargs):
            self.log.note("sync", how=how, device="cuda")
            return original(*args, **kwargs)

        return waited

    def noting_device(self, original):
        def set_device(device):
            self.log.note("set_device", device=str(device))
            return original(device)

        return set_device

    def after_op(self, operation, args, kwargs, result):
        name = operation.overloadpacket.__name__
        masked = name in INDEXING and any(mask is not None and mask.dtype in MASKS for mask in args[1])
        if name in SYNCS or masked:
            with self.log.silence():
                device = self.log.place(args[0])
            if device != "cpu":
                self.log.note("sync", how="indexing with a mask" if masked else SYNCS[name], device=device)
        elif name in ("_to_copy", "copy_") and not self.converting:
            with self.log.silence():
                source = args[1] if name == "copy_" else args[0]
                found = {"source": self.log.place(source), "target": self.log.place(result), "shape": list(source.shape),
                         "dtype": str(source.dtype).removeprefix("torch."),
                         "non_blocking": bool(args[2] if len(args) > 2 else kwargs.get("non_blocking"))}
                pinned = source.is_cpu and found["target"] != "cpu" and source.is_pinned()
            if found["source"] != found["target"]:
                self.log.note("move", pinned=pinned, **found)

    def before_call(self, function, args, kwargs):
        if function in (torch.Tensor.tolist, torch.Tensor.__repr__):  # that is what `print` calls
            with self.log.silence():
                device = self.log.place(args[0])
            if device != "cpu":
                self.log.note("sync", how=function.__name__.strip("_"), device=device)
