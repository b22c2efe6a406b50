"""Replicas: several processes that train one model, and the surroundings in which that may go wrong.

``statistics``  the model begins to validate after it was trained: trained and used, each the running means and variances of all
                layers ({"running_mean": numbers, "running_var": numbers}), after the last step and now
``given``       with ``rows=True``, a forward pass in training begins: rows, a number for each sample, the same for the same one

``uneven=True``: the last batch that a loader gives to rank 1 is one image short, as where images cannot be split evenly.
``local_ranks=[…]``: each rank's number on its node; ``[0, 0]`` makes two nodes of one process each. ``slow_save=True``:
torch.save takes a second, so that whoever reads the file too early finds none. Where GPUs are
simulated (``gpus=N``), SyncBatchNorm is played by the batch norm of each process.
"""

from __future__ import annotations

import functools
import os
import time

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

SLOW = 1.0  # seconds


class Observer:
    def __init__(self, log, options):
        self.log, self.options = log, options
        self.trained: dict | None = None

    def install(self):
        options, rank = self.options, os.environ.get("RANK")
        if rank is None:
            return
        register_optimizer_step_post_hook(self.after_step)
        nn.modules.module.register_module_forward_pre_hook(self.forward)
        if options.get("uneven") and rank == "1":
            self.install_short()
        if options.get("slow_save"):
            self.install_slow()
        if local_ranks := options.get("local_ranks"):
            os.environ |= {"LOCAL_RANK": str(local_ranks[int(rank)]), "LOCAL_WORLD_SIZE": str(max(local_ranks) + 1)}
        if options.get("gpus"):
            nn.SyncBatchNorm.forward, nn.SyncBatchNorm._check_input_dim = nn.BatchNorm2d.forward, nn.BatchNorm2d._check_input_dim

    def after_step(self, optimizer, args, kwargs):
        if not self.log.quiet and self.log.model is not None:
            with self.log.silence():
                self.trained = running(self.log.model)

    def forward(self, module, args):
        if self.log.quiet or module is not self.log.model:
            return
        if module.training and self.options.get("rows"):
            with self.log.silence():
                weights = torch.arange(1, 1 + args[0][0].numel(), dtype=torch.float64)
                rows = [round(float((row.double().flatten() * weights).sum()), 6) for row in args[0]]
            self.log.note("given", rows=rows)
        if module.training or self.trained is None:
            return
        with self.log.silence():
            used = running(module)
        self.log.note("statistics", trained=self.trained, used=used)
        self.trained = None

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
                yield [part[:-1] for part in waiting] if len(waiting[0]) > 1 else waiting

        loader.__iter__ = shorter

    def install_slow(self):
        save = torch.save

        @functools.wraps(save)
        def later(*args, **kwargs):
            time.sleep(SLOW)
            return save(*args, **kwargs)

        torch.save = later


def running(model) -> dict:
    """The running means and variances of a model's batch norm, each as one list."""
    named = [(name, buffer.detach().double().flatten()) for name, buffer in model.named_buffers()]
    return {kind: [value for name, buffer in named if name.endswith(kind) for value in buffer.tolist()]
            for kind in ("running_mean", "running_var")}
