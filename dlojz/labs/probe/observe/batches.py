"""Batches: what a training step makes of its images and labels, beside the model.

``batch``    the kit tells that images become floats: dtype, shape, device, mark (a number that depends on each pixel and where it
             is), pixels (of each image a few of its values, spread over it)
``targets``  what cross entropy compares with: dtype, shape, device, rows (of soft labels the largest shares of each image, as
             {class: share}; else the labels)

Neither is noted in a validation.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from .... import records

COMPARED = {"batch": ("dtype", "shape", "device", "mark")}
MOST = 16  # images of a batch
SHARES = 4
PIXELS = 24  # of an image


class Observer:
    def __init__(self, log, options):
        self.log = log

    def install(self):
        records.listeners.append(self.heard)

    def heard(self, event, fields):
        if event == "batch" and torch.is_grad_enabled() and not self.log.quiet:
            self.note_batch(fields["images"])

    def note_batch(self, images):
        with self.log.silence():
            images, found = images.detach().cpu(), self.described(images)  # what is counted with here lies there
            pixels = images.double().flatten()
            mark = (pixels * (torch.arange(len(pixels), dtype=torch.float64) % 1009 + 1)).sum().item() if len(pixels) else 0.0
            flat = images[:MOST].flatten(1).float()
            few = flat[:, :: max(1, flat.shape[1] // PIXELS)][:, :PIXELS].tolist()
        self.log.note("batch", step=self.log.step + 1, **found, mark=mark, pixels=few)  # the step that they are for

    def before_call(self, function, args, kwargs):
        if function is functional.cross_entropy and torch.is_grad_enabled():
            targets = args[1] if len(args) > 1 else kwargs["target"]
            with self.log.silence():
                found, few = self.described(targets), targets.detach()[:MOST]
                rows = few.tolist() if few.dim() == 1 else [shares(row) for row in few]
            self.log.note("targets", **found, rows=rows)

    def described(self, tensor) -> dict:
        return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "device": self.log.place(tensor)}


def shares(row) -> dict:
    largest = row.flatten().topk(min(SHARES, row.numel()))
    return {label: round(share, 5) for share, label in zip(largest.values.tolist(), largest.indices.tolist()) if share}
