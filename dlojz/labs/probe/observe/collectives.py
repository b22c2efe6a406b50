"""Collectives: what processes send each other, also what DistributedDataParallel sends by itself in the backward pass.

``group.asked``      init_process_group is called: backend as asked for (None: torch chooses), rank
``group.made``       it has returned: backend, world_size, rank
``group.destroyed``  destroy_process_group was called
``collective``       kind (all_reduce, broadcast, all_gather, …), bytes (what this process puts in), dtype, inside (backward,
                     forward: that of a module, other), in_no_sync, aside (the kit's own, of pickled objects: not compared)
``collective.call`` ``collective.done``   a collective that the script called itself begins, and has come to its end: call
``no_sync`` ``no_sync.end``   a region in which DistributedDataParallel keeps gradients to itself begins, ends

Each rank has facts of its own. Facts are noted in the order in which things happen: what lies between a ``no_sync`` and its end
is inside of it. A process that waits for another one gives up after WAIT seconds, with torch's own error; with the option
``wait=False`` when torch does. Where GPUs are simulated (``gpus=N``) gloo plays NCCL.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import inspect
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

from ....training.sent import kind_of
from ..modes import tensors

COMPARED = {
    "group.asked": ("rank",),
    "group.made": ("backend", "world_size", "rank"),
    "collective": ("kind", "bytes", "dtype", "inside"),
}
RESULT_FIRST = ("all_gather", "gather", "scatter", "reduce_scatter", "all_to_all")  # what is put in comes second
WAIT = 10.0  # seconds
CALLS = ("all_reduce", "broadcast", "reduce", "barrier", "monitored_barrier", "all_gather", "all_gather_into_tensor", "gather",
         "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "all_gather_object",
         "gather_object", "broadcast_object_list", "scatter_object_list", "all_gather_single", "reduce_scatter_single")  # two
# newer names of those with tensor
FORWARD = nn.Module._call_impl.__code__


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.pretended = bool(options.get("gpus"))
        self.bounded = options.get("wait", True)
        self.keeping = 0  # how many no_sync regions we are in
        self.calling = False  # a collective: it may call others

    def install(self):
        make, destroy = dist.init_process_group, dist.destroy_process_group
        replace("init_process_group", self.noting_made(make))
        replace("destroy_process_group", self.noting_destroyed(destroy))
        for name in filter(functools.partial(hasattr, dist), CALLS):
            replace(name, self.noting_call(getattr(dist, name), name))
        DistributedDataParallel.no_sync = self.noting_no_sync(DistributedDataParallel.no_sync)

    def noting_made(self, original):
        signature = inspect.signature(original)

        @functools.wraps(original)
        def made(*args, **kwargs):
            given = signature.bind(*args, **kwargs).arguments
            asked, rank = given.get("backend"), given.get("rank", -1)
            rank = rank if rank >= 0 else int(os.environ.get("RANK", -1))
            self.log.note("group.asked", backend=asked and str(asked), rank=rank)
            if self.bounded:
                given["timeout"] = datetime.timedelta(seconds=WAIT)
            if self.pretended:
                given["backend"] = "gloo"
                given.pop("device_id", None)
            original(**given)
            self.log.note("group.made", backend=dist.get_backend(), world_size=dist.get_world_size(), rank=dist.get_rank())

        return made

    def noting_destroyed(self, original):
        @functools.wraps(original)
        def destroyed(*args, **kwargs):
            self.log.note("group.destroyed")
            return original(*args, **kwargs)

        return destroyed

    def noting_call(self, original, name):
        @functools.wraps(original)
        def called(*args, **kwargs):
            if self.log.quiet or self.calling:
                return original(*args, **kwargs)
            self.log.note("collective.call", call=name)
            self.calling = True
            try:
                result = original(*args, **kwargs)
            finally:
                self.calling = False
            self.log.note("collective.done", call=name)
            return result

        return called

    def noting_no_sync(self, original):
        @contextlib.contextmanager
        @functools.wraps(original)
        def region(model):
            self.log.note("no_sync")
            self.keeping += 1
            try:
                with original(model):
                    yield
            finally:
                self.keeping -= 1
                self.log.note("no_sync.end")

        return region

    def before_op(self, operation, args, kwargs):
        if (kind := kind_of(operation)) and self.log.wants("collective"):
            given = list(tensors(args[kind in RESULT_FIRST and operation.namespace == "c10d"]))
            self.log.note("collective", kind=kind, bytes=sum(tensor.nbytes for tensor in given),
                          dtype=str(given[0].dtype).removeprefix("torch.") if given else None, inside=self.inside(),
                          in_no_sync=self.keeping > 0, aside=self.log.caller()["by"] == "kit")

    def inside(self) -> str:
        if torch._C._current_graph_task_id() != -1:
            return "backward"
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code is FORWARD:
                return "forward"
            frame = frame.f_back
        return "other"


def replace(name: str, function) -> None:
    for module in (dist, distributed_c10d):
        setattr(module, name, function)
