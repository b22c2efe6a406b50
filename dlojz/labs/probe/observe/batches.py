"""Batches: what a training step makes of its images and labels, beside the model.

``batch``    images become floats (`data.normalize`): dtype, shape, device, mark (a number that depends on each pixel and where
             it is), pixels (of each image a few of its values, spread over it)
``targets``  what the loss compares with: dtype, shape, device, rows (of soft labels the largest shares of each image, as
             {class: share}; else the labels)

Neither is noted in a validation.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from .... import data

MOST = 16  # images of a batch
SHARES = 4
PIXELS = 24  # of an image


class Observer:
    def __init__(self, log, options):
        self.log = log

    def install(self):
        normalize, note = data.normalize, self.note_batch

        def noted(images, *args, **kwargs):
            if torch.is_grad_enabled():
                note(images)
            return normalize(images, *args, **kwargs)

        data.normalize = noted

    def note_batch(self, images):
        with self.log.silence():
            images, found = images.detach().cpu(), self.described(images)  # what is counted with here lies there
            pixels = images.double().flatten()
            mark = (pixels * (torch.arange(len(pixels), dtype=torch.float64) % 1009 + 1)).sum().item() if len(pixels) else 0.0
            flat = images[:MOST].flatten(1).float()
            few = flat[:, :: max(1, flat.shape[1] // PIXELS)][:, :PIXELS].tolist()
        self.log.note("batch", **found, mark=mark, pixels=few)

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
