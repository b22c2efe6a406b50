"""The memory that a training step takes, counted before it runs: parameters, gradients, optimizer states, activations.

    footprint("resnet50", image_size=224, batch_size=256, amp="bf16")

Nothing is computed and no memory taken: torch's fake tensors know shapes, strides and formats only. What autograd keeps for the
backward pass is asked of autograd itself, so that a layer that keeps its output once for two neighbours is counted once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..system.errors import UsageError

STATES = {"sgd": 1, "adam": 2, "adamw": 2}  # numbers that an optimizer keeps for each parameter; SGD: with momentum


@dataclass(frozen=True)
class Footprint:
    """Bytes. ``weight_copies`` are those that autocast makes in half precision and autograd keeps until the backward pass;
    ``activations`` everything else that is kept, the images themselves included."""

    parameters: int
    gradients: int
    optimizer: int
    buffers: int
    weight_copies: int
    activations: int

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))

    @property
    def fixed(self) -> int:
        """What does not depend on the batch size."""
        return self.total - self.activations

    def items(self) -> list[tuple[str, int]]:
        return [(field.name.replace("_", " "), getattr(self, field.name)) for field in fields(self)]


def footprint(
    model: str, image_size: int, batch_size: int, amp: str = "off", optimizer: str = "sgd", classes: int = 1000
) -> Footprint:
    """Count what one training step of a torchvision model holds at the end of its forward pass, gradients and states counted in.

    What a kernel borrows while it works (cuDNN's workspaces, gradients of activations) comes on top: see what a run measures.
    ``amp`` is off, bf16 or fp16. Raises UsageError for an optimizer whose states are not known here.
    """
    import torch
    import torchvision
    from torch._subclasses.fake_tensor import FakeTensorMode

    if optimizer not in STATES:
        raise UsageError(f"footprint does not know what {optimizer!r} keeps: use one of {', '.join(STATES)}")
    dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[amp]
    with FakeTensorMode():
        net = torchvision.models.get_model(model, weights=None, num_classes=classes).train()
        own = {tensor.untyped_storage()._cdata for tensor in (*net.parameters(), *net.buffers())}
        weights = {tuple(parameter.shape) for parameter in net.parameters() if parameter.dim() > 1}
        kept: dict[int, torch.Tensor] = {}

        def keep(tensor):
            kept[tensor.untyped_storage()._cdata] = tensor
            return tensor

        images = torch.zeros(batch_size, 3, image_size, image_size)
        labels = torch.zeros(batch_size, dtype=torch.long)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                loss = torch.nn.functional.cross_entropy(net(images), labels)
        parameters = sum(parameter.numel() for parameter in net.parameters())
        sizes = [(tensor.untyped_storage().nbytes(), tuple(tensor.shape)) for key, tensor in kept.items() if key not in own]
        copies = sum(size for size, shape in sizes if dtype is not None and shape in weights)
        buffers = sum(buffer.numel() * buffer.element_size() for buffer in net.buffers())
        del loss
    return Footprint(
        parameters=4 * parameters,
        gradients=4 * parameters,
        optimizer=4 * parameters * STATES[optimizer],
        buffers=buffers,
        weight_copies=copies,
        activations=sum(size for size, _ in sizes) - copies,
    )
