"""Mixed precision: regions of autocast, the gradient scaler, clipping, and backward passes.

``autocast``       a region begins: device_type, dtype, enabled
``scaler.made``    a gradient scaler was made: device, enabled
``scaler.scale`` ``scaler.unscale_`` ``scaler.step`` ``scaler.update``   calls of an enabled scaler: scale (before the call)
``backward``       a backward pass has run: scale (by how much the loss was multiplied before; None: cannot be told), scaled
                   (whether that is more than the loss), times (by how much the loss was multiplied beside the scale of the
                   scaler that is enabled), growth (of that scale since the first backward pass), dtype of what it began from,
                   norm of the gradients after it (None: not finite), autocast while it ran ({device type: dtype}), retains
                   (whether it keeps the graph)
``clip``           gradients were clipped to a norm: norm before, limit
``overflow``       the probe has made the gradients of this step infinite (the check asked for it: ``overflow_at=STEP``)
"""

from __future__ import annotations

import functools
import math

import torch

COMPARED = {
    "backward": ("autocast", "scaled", "growth", "~times", "retains"),
    "overflow": (),
}


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.overflow_at = options.get("overflow_at")
        self.scalers: list = []
        self.first: float | None = None  # scale
        self.going_back = False

    def install(self):
        region = torch.autocast
        region.__enter__ = self.noting(region.__enter__, "autocast", self.region)
        scaler = torch.amp.GradScaler
        scaler.__init__ = self.noting_made(scaler.__init__)
        for name in ("scale", "unscale_", "step", "update"):
            setattr(scaler, name, self.noting(getattr(scaler, name), f"scaler.{name}", self.scaler))
        clip = self.noting(torch.nn.utils.clip_grad_norm_, "clip", self.clip)
        torch.nn.utils.clip_grad_norm_ = torch.nn.utils.clip_grad.clip_grad_norm_ = clip
        torch.autograd.backward = self.noting_backward(torch.autograd.backward)

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
            self.scalers.append(scaler)
            self.log.note("scaler.made", device=scaler._device, enabled=scaler.is_enabled())

        return made

    def region(self, region, *_):
        return {"device_type": getattr(region, "asked", region.device), "enabled": region._enabled,
                "dtype": str(region.fast_dtype).removeprefix("torch.")}

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
            retains = (args[1] if len(args) > 1 else kwargs.get("retain_graph")) or kwargs.get("create_graph")
            try:
                original(roots, *args, **kwargs)
            finally:
                self.going_back = inside
            if self.log.quiet or inside:
                return
            root = roots if isinstance(roots, torch.Tensor) else next(iter(roots))
            factors = args[0] if args else kwargs.get("grad_tensors")
            factor = factors if factors is None or isinstance(factors, torch.Tensor) else next(iter(factors))
            self.log.note("backward", dtype=str(root.dtype).removeprefix("torch."), norm=self.norm(), autocast=autocast(),
                          retains=bool(retains), **self.scale(root, factor))
            if self.overflow_at is not None and self.log.step == self.overflow_at:
                self.overflow()

        return backward

    def scale(self, root, factor=None) -> dict:
        with self.log.silence():
            if self.log.loss is None or root.dim() or not math.isfinite(self.log.loss) or not self.log.loss:
                return {"scale": None, "scaled": None, "times": None, "growth": None}
            ratio = root.detach().item() * (1 if factor is None else factor.item()) / self.log.loss
            enabled = [scaler.get_scale() for scaler in self.scalers if scaler.is_enabled()]
        if not math.isfinite(ratio):
            return {"scale": None, "scaled": True, "times": None, "growth": None}
        scale = enabled[-1] if enabled else 1.0
        self.first = self.first or scale
        return {"scale": ratio, "scaled": ratio > 1.5, "times": ratio / scale, "growth": scale / self.first}

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


def autocast() -> dict:
    """The device types for which autocast is on, with the dtype."""
    on = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return {kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.") for kind in on}
