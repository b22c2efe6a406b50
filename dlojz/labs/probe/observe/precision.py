"""Mixed precision: regions of autocast, the gradient scaler, clipping, updates; and how large the gradients are at each of these.

``autocast``       a region begins: device_type, dtype, enabled
``scaler.made``    a gradient scaler was made: device, enabled
``scaler.scale`` ``scaler.unscale_`` ``scaler.step`` ``scaler.update``   calls of an enabled scaler: scale (before the call)
``backward``       a backward pass has run: scale (by how much the loss was multiplied before; None: cannot be told), dtype of
                   what it began from, norm of the gradients after it (None: not finite), autocast while it ran ({device type:
                   dtype}), retains (whether it keeps the graph), group (what the probe made of the variable, else None)
``clip``           gradients were clipped: norm before, limit
``update``         an optimizer's step begins: norm; with ``reference=True`` reference, the norm of the gradient of the batch,
                   or of the sum over the batches of a group, which the probe computes itself in float32, and cosine, of the
                   angle between the two (else None)
``recorded``       a step is over: loss, the mean over its images that goes into the record; computed, what the loss function gave
``overflow``       the probe has made the gradients of this step infinite (the check asked for it: ``overflow_at=STEP``)

With ``group=N`` there is an update after each N batches, and N batches in a group, whatever the file has made of ``--accumulate``
so far: in each line of a function of the trainee's its variables ``group`` and ``update_now`` have the values that say so.
"""

from __future__ import annotations

import copy
import functools
import math
import sys

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ....training.chronometer import Chronometer
from .layers import autocast


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.overflow_at = options.get("overflow_at")
        self.reference = bool(options.get("reference"))
        self.images = self.labels = None  # of the latest batch
        self.gradient: list | None = None  # of the group so far
        self.group = options.get("group")
        self.grouped = False
        self.batches = 0
        self.going_back = False

    def install(self):
        if self.group:
            sys.settrace(self.entered)
        if self.reference:
            nn.modules.module.register_module_forward_pre_hook(self.forward)
        region = torch.autocast
        region.__enter__ = self.noting(region.__enter__, "autocast", self.region)
        scaler = torch.amp.GradScaler
        scaler.__init__ = self.noting_made(scaler.__init__)
        for name in ("scale", "unscale_", "step", "update"):
            setattr(scaler, name, self.noting(getattr(scaler, name), f"scaler.{name}", self.scaler))
        clip = self.noting(torch.nn.utils.clip_grad_norm_, "clip", self.clip)
        torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = clip
        torch.autograd.backward = self.noting_backward(torch.autograd.backward)
        Chronometer.next_iter = self.noting_step(Chronometer.next_iter)
        register_optimizer_step_pre_hook(lambda *_: self.log.note("update", norm=self.norm(), **self.compared()))

    def noting(self, function, what, facts):
        @functools.wraps(function)
        def noted(*args, **kwargs):
            found = None if self.log.quiet else facts(*args, **kwargs)
            if found is not None:
                self.log.note(what, **found)
            return function(*args, **kwargs)

        return noted

    def noting_made(self, original):
        @functools.wraps(original)
        def made(scaler, *args, **kwargs):
            original(scaler, *args, **kwargs)
            self.log.note("scaler.made", device=scaler._device, enabled=scaler.is_enabled())

        return made

    def region(self, region, *_):
        return {"device_type": region.device, "dtype": str(region.fast_dtype).removeprefix("torch."), "enabled": region._enabled}

    def scaler(self, scaler, *_, **__):
        if not scaler.is_enabled():
            return None
        with self.log.silence():
            return {"scale": scaler.get_scale()}

    def clip(self, parameters, max_norm, *_, **__):
        return {"norm": self.norm(), "limit": float(max_norm)}

    def noting_backward(self, original):
        @functools.wraps(original)
        def backward(roots, *args, **kwargs):
            inside, self.going_back = self.going_back, True  # torch.autograd.backward calls itself once more, by its own name
            try:
                original(roots, *args, **kwargs)
            finally:
                self.going_back = inside
            if self.log.quiet or inside:
                return
            root = roots if isinstance(roots, torch.Tensor) else next(iter(roots))
            factors = args[0] if args else kwargs.get("grad_tensors")
            factor = factors if factors is None or isinstance(factors, torch.Tensor) else next(iter(factors))
            retains = (args[1] if len(args) > 1 else kwargs.get("retain_graph")) or kwargs.get("create_graph")
            self.log.note("backward", scale=self.scale(root, factor), dtype=str(root.dtype).removeprefix("torch."),
                          norm=self.norm(), autocast=autocast(), retains=bool(retains),
                          group=self.group if self.grouped else None)
            if self.reference:
                self.add_gradient()
            if self.overflow_at is not None and self.log.step == self.overflow_at:
                self.overflow()

        return backward

    def noting_step(self, original):
        @functools.wraps(original)
        def stepped(chronometer, sums=None, **fields):
            if sums is not None:
                with self.log.silence():
                    loss, _, images = sums.tolist()[:3]
                self.log.note("recorded", loss=loss / max(1, images), computed=self.log.loss)
            return original(chronometer, sums, **fields)

        return stepped

    def scale(self, root, factor=None) -> float | None:
        with self.log.silence():
            if self.log.loss is None or root.dim() or not math.isfinite(self.log.loss) or not self.log.loss:
                return None
            ratio = root.detach().item() * (1 if factor is None else factor.item()) / self.log.loss
            return ratio if math.isfinite(ratio) else None

    def norm(self) -> float | None:
        """The norm of all gradients of the model; None where one is not finite, or where there is none."""
        with self.log.silence():
            parameters = self.log.model.parameters() if self.log.model else ()
            gradients = [parameter.grad.detach().float() for parameter in parameters if parameter.grad is not None]
            if not gradients:
                return None
            norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
            return norm if math.isfinite(norm) else None

    def overflow(self):
        with self.log.silence():
            gradient = next((p.grad for p in self.log.model.parameters() if p.grad is not None), None)
            if gradient is not None:
                gradient.view(-1)[0] = math.inf
        self.log.note("overflow")

    # ------------------------------------------------------------------------------------------------ in float32, ourselves
    def forward(self, module, args):
        if not self.log.quiet and module is self.log.model and module.training and args:
            self.images = args[0].detach()

    def before_op(self, operation, args, kwargs):
        if self.reference and operation.overloadpacket.__name__ == "nll_loss_forward" and self.log.model.training:
            self.labels = args[1].detach()

    def add_gradient(self):
        """That of the latest batch, with a copy of the model."""
        if self.images is None or self.labels is None:
            return
        with self.log.silence(), torch.enable_grad(), torch.autocast(self.images.device.type, enabled=False):
            net = copy.deepcopy(self.log.model).float()
            loss = nn.functional.cross_entropy(net(self.images.float()), self.labels)
            found = torch.autograd.grad(loss, list(net.parameters()))
            goes_on = self.grouped and self.batches % self.group
            self.gradient = [one + other for one, other in zip(self.gradient, found)] if goes_on else list(found)
        self.batches += 1

    def compared(self) -> dict:
        found = [p.grad for p in self.log.model.parameters()] if self.gradient and self.log.model else [None]
        if any(gradient is None for gradient in found):
            return {"reference": None, "cosine": None}
        with self.log.silence():
            ours, theirs = (torch.cat([g.detach().double().flatten() for g in all_of]) for all_of in (self.gradient, found))
            cosine = nn.functional.cosine_similarity(ours, theirs, dim=0).item()
            return {"reference": ours.norm().item(), "cosine": cosine if math.isfinite(cosine) else None}

    # ------------------------------------------------------------------------------------------------------- group=N
    def entered(self, frame, event, _):
        variables = {*frame.f_code.co_varnames, *frame.f_code.co_cellvars}
        return self.line if {"group", "update_now", "step"} <= variables and self.log.is_own(frame.f_code.co_filename) else None

    def line(self, frame, event, _):
        here = frame.f_locals
        if "group" in here:  # what a trace function assigns is what the function goes on with, as in a debugger
            here["group"], self.grouped = self.group, True
            here["update_now"] = here["step"] % self.group == 0
        return self.line
