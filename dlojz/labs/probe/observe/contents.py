"""Contents: whether the model learns from what the loader gave, with the weights that it was made with. With ``contents=True``.

``fed``      a forward pass in training begins: loaded and given, numbers of images; difference, the largest of all pixels,
             between the loader's images after `data.normalize` and those that the model is given (None: another shape)
``compared`` the loss compares outputs with labels, in training: loaded and given, numbers of labels; same, whether they are equal
``began``    the first forward pass in training begins: difference, the largest of all weights and buffers, from those of the
             model as torchvision made it (None: other shapes, or another number of them); frozen, how many parameters do not
             ask for gradients

Values are compared wherever they lie, in whatever memory format. A difference that is no number is infinite.
"""

from __future__ import annotations

import functools
import math

import torch
import torchvision
from torch import nn
from torch.utils.data import dataloader

from ....data import normalize


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.on = bool(options.get("contents"))
        self.batch: tuple | None = None  # the loader's latest images, normalised, and labels
        self.made: list | None = None
        self.begun = False

    def install(self):
        if not self.on:
            return
        torchvision.models.get_model = self.keeping_weights(torchvision.models.get_model)
        iterator = dataloader._BaseDataLoaderIter
        iterator.__next__ = self.keeping_batch(iterator.__next__)
        nn.modules.module.register_module_forward_pre_hook(self.forward)

    def keeping_weights(self, original):
        @functools.wraps(original)
        def made(*args, **kwargs):
            net = original(*args, **kwargs)
            if self.made is None:
                self.made = self.values(net)
            return net

        return made

    def keeping_batch(self, original):
        @functools.wraps(original)
        def given(iterator):
            batch = original(iterator)
            if torch.is_grad_enabled() and self.log.wants("fed"):
                images, labels = batch
                with self.log.silence():
                    self.batch = normalize(images.cpu()), labels.cpu().clone()
            return batch

        return given

    def values(self, net) -> list:
        with self.log.silence(), torch.no_grad():
            return [tensor.detach().double().cpu().clone() for tensor in [*net.parameters(), *net.buffers()]]

    def forward(self, module, args):
        if self.log.quiet or module is not self.log.model or not module.training or not args:
            return
        if not self.begun:
            self.begun = True
            pairs = zip(self.made or (), values := self.values(module))
            apart = [difference(one, other) for one, other in pairs] if len(self.made or ()) == len(values) else [None]
            self.log.note("began", difference=None if None in apart else max(apart),
                          frozen=sum(not parameter.requires_grad for parameter in module.parameters()))
        if self.batch is not None:
            with self.log.silence():
                loaded, given = self.batch[0], args[0].detach().cpu()
                found = {"loaded": len(loaded), "given": len(given), "difference": difference(loaded, given)}
            self.log.note("fed", **found)

    def before_op(self, operation, args, kwargs):
        if self.batch is None or operation.overloadpacket.__name__ != "nll_loss_forward" or not self.log.model.training:
            return
        with self.log.silence():
            loaded, given = self.batch[1], args[1].detach().cpu()
            found = {"loaded": len(loaded), "given": len(given), "same": torch.equal(loaded, given.to(loaded.dtype))}
        self.log.note("compared", **found)


def difference(one, other) -> float | None:
    if one.shape != other.shape:
        return None
    largest = (one.double() - other.double()).abs().max().item() if one.numel() else 0.0
    return largest if math.isfinite(largest) else math.inf
