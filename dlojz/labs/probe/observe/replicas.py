"""Replicas: whether the processes of a run train one model together, with the same numbers in each. Only with ``replicas=True``.

``replica``     an optimizer's step is over: weights and before, numbers that are the same in two processes where all parameters
                are, after and before it; gradient, the same for what the optimizer was given; alone, the same for the gradient
                of this process's own batch (the first since the step before), computed once more without the others (None on
                simulated GPUs); trained, the running means and variances of batch norm, as in ``buffers``
``given``       a forward pass begins: training, rows (a number for each sample that it is given, the same for the same sample)
``batch.loss``  the loss of a batch was computed: training, loss (mean), images, correct
``sums``        the kit tells that a step is over: sums (loss x images, correct, images)
``validated``   what this process found in a validation: loss, accuracy, images
``buffers``     the model begins to validate: statistics, a number that is the same where all buffers are; running_mean and
                running_var: the numbers of all layers, one after the other
``group``       a process group is made: backend and rank, as they were asked for
``wrapped``     DistributedDataParallel was given device_ids: devices (numbers of GPUs; None: it was not given any)
``collective.call`` ``collective.done``   a collective that the script called itself begins, and has come to its end: call

A process that waits for another one gives up after WAIT seconds, with torch's own error. Where GPUs are simulated (``gpus=N``)
NCCL is played by gloo, and SyncBatchNorm by the batch norm of each process. ``uneven=True``: the last batch that a loader gives
to rank 1 is one image short, as where images cannot be shared out evenly. ``local_ranks=[…]``: each rank's number on its node;
``[0, 0]`` makes two nodes of one process each.
``slow_save=True``: torch.save takes a second, so that whoever reads the file too early finds none. ``on_cpu=True``: a script
that takes a GPU where there is one finds none.
"""

from __future__ import annotations

import copy
import datetime
import functools
import math
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ....training import records

WAIT = 8.0  # seconds
SLOW = 1.0
CALLS = ("all_reduce", "broadcast", "reduce", "barrier", "monitored_barrier", "all_gather", "all_gather_into_tensor", "gather",
         "scatter", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "all_gather_object",
         "gather_object", "broadcast_object_list", "scatter_object_list")


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.on = bool(options.get("replicas"))
        self.pretended = bool(options.get("gpus"))
        self.on_cpu = bool(options.get("on_cpu"))
        self.slow = bool(options.get("slow_save"))
        self.local_ranks = options.get("local_ranks")
        self.short = bool(options.get("uneven")) and os.environ.get("RANK") == "1"
        self.first: tuple | None = None  # the model and the images of a step's first batch, and later its labels
        self.labels = None
        self.before = None
        self.inside = False  # a collective: it may call others

    def install(self):
        if not self.on:
            return
        nn.modules.module.register_module_forward_pre_hook(self.forward)
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)
        self.install_group()
        self.install_wrap()
        records.listeners.append(self.heard)
        if self.short:
            self.install_short()
        if self.slow:
            self.install_slow()
        if self.local_ranks:
            local = self.local_ranks[int(os.environ["RANK"])]
            os.environ |= {"LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(max(self.local_ranks) + 1)}
        if self.on_cpu:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
            torch.cuda.is_available = lambda: False
        if self.pretended:
            nn.SyncBatchNorm.forward, nn.SyncBatchNorm._check_input_dim = nn.BatchNorm2d.forward, nn.BatchNorm2d._check_input_dim

    # -------------------------------------------------------------------------------------------------------- parameters
    def forward(self, module, args):
        if self.log.quiet or module is not self.log.model:
            return
        with self.log.silence():
            found = {"statistics": checksum(module.buffers()), **running(module)}
            rows = [round(checksum([row]) or 0.0, 6) for row in args[0]] if args else []
            if module.training and self.first is None and args and not self.pretended:
                inner = module.module if isinstance(module, nn.parallel.DistributedDataParallel) else module
                self.first = copy.deepcopy(inner), args[0].detach().clone()
        self.log.note("given", training=module.training, rows=rows)
        if not module.training:
            self.log.note("buffers", **found)

    def before_step(self, optimizer, args, kwargs):
        if self.log.quiet:
            return
        with self.log.silence():
            self.before = checksum(parameters(optimizer))

    def after_step(self, optimizer, args, kwargs):
        if self.log.quiet:
            return
        with self.log.silence():
            mine = list(parameters(optimizer))
            weights, gradient = checksum(mine), checksum(p.grad for p in mine if p.grad is not None)
            alone, self.first, self.labels = self.gradient_alone(), None, None
            trained = running(self.log.model) if self.log.model is not None else {}
        self.log.note("replica", before=self.before, weights=weights, gradient=gradient, alone=alone, trained=trained)

    def gradient_alone(self) -> float | None:
        if not self.first or self.labels is None:
            return None
        net, images = self.first
        with torch.enable_grad():
            net.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(net(images), self.labels).backward()
        return checksum(p.grad for p in net.parameters() if p.grad is not None)

    # ----------------------------------------------------------------------------------------------------------- metrics
    def call_within(self, function, args, kwargs, proceed):
        """A loss over classes."""
        result = proceed()
        if not self.on or function not in (functional.cross_entropy, functional.nll_loss) or result.dim():
            return result
        with self.log.silence():
            given, labels = (args[place] if len(args) > place else kwargs[name] for place, name in enumerate(("input", "target")))
            given, classes = given.detach(), labels if labels.dim() == 1 else labels.argmax(1)
            correct = int((given.argmax(1) == classes).sum())
            loss = result.detach().item()
            training = bool(self.log.model is not None and self.log.model.training)
            if training and self.labels is None:
                self.labels = labels.clone()
        self.log.note("batch.loss", training=training, loss=loss, images=len(labels), correct=correct)
        return result

    def heard(self, event, fields):
        if event == "step" and fields.get("sums") is not None:
            sums = fields["sums"]
            with self.log.silence():
                said = sums.detach().double().tolist()
            self.log.note("sums", sums=said)
        elif event == "record.validation":
            self.log.note("validated", **{name: fields.get(name) for name in ("loss", "accuracy", "images")})

    def install_short(self):
        loader = torch.utils.data.DataLoader
        iterate = loader.__iter__

        def shorter(itself):
            waiting = None
            for batch in iterate(itself):
                if waiting is not None:
                    yield waiting
                waiting = batch
            if waiting is not None:
                yield [part[:-1] for part in waiting]

        loader.__iter__ = shorter

    def install_slow(self):
        save = torch.save

        @functools.wraps(save)
        def later(*args, **kwargs):
            time.sleep(SLOW)
            return save(*args, **kwargs)

        torch.save = later

    # -------------------------------------------------------------------------------------------------------- the others
    def install_group(self):
        make = dist.init_process_group

        @functools.wraps(make)
        def made(backend=None, *args, **kwargs):
            self.log.note("group", backend=backend, rank=kwargs.get("rank"))
            kwargs["timeout"] = datetime.timedelta(seconds=WAIT)
            if self.pretended:
                backend = "gloo"
                kwargs.pop("device_id", None)
            return make(backend, *args, **kwargs)

        replace("init_process_group", made)
        for name in CALLS:
            if hasattr(dist, name):
                replace(name, self.noting(getattr(dist, name), name))

    def install_wrap(self):
        wrap, log = nn.parallel.DistributedDataParallel.__init__, self.log

        @functools.wraps(wrap)
        def wrapped(itself, module, device_ids=None, *args, **kwargs):
            numbers = device_ids and [each if isinstance(each, int) else torch.device(each).index for each in device_ids]
            log.note("wrapped", devices=numbers)
            return wrap(itself, module, device_ids, *args, **kwargs)

        nn.parallel.DistributedDataParallel.__init__ = wrapped

    def noting(self, original, name):
        @functools.wraps(original)
        def called(*args, **kwargs):
            if self.log.quiet or self.inside:
                return original(*args, **kwargs)
            self.log.note("collective.call", call=name)
            self.inside = True
            try:
                result = original(*args, **kwargs)
            finally:
                self.inside = False
            self.log.note("collective.done", call=name)
            return result

        return called


def replace(name: str, function) -> None:
    for module in (dist, dist.distributed_c10d):
        setattr(module, name, function)


def parameters(optimizer):
    return (p for group in optimizer.param_groups for p in group["params"])


def running(model) -> dict:
    """The running means and variances of a model's batch norm, each as one list."""
    named = [(name, buffer.detach().double().flatten()) for name, buffer in model.named_buffers()]
    return {kind: [value for name, buffer in named if name.endswith(kind) for value in buffer.tolist()]
            for kind in ("running_mean", "running_var")}


def checksum(tensors) -> float | None:
    """A weighted sum of all numbers, with weights that differ from place to place; None where one is not finite.

    It is linear: the checksum of a mean is the mean of the checksums."""
    total, place = 0.0, 0
    for tensor in tensors:
        flat = tensor.detach().double().flatten().cpu()
        total += float((flat * torch.cos(torch.arange(place, place + len(flat), dtype=torch.float64))).sum())
        place += len(flat)
    return total if math.isfinite(total) else None
