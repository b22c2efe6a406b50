"""Layers: dtype, device and memory format of what goes into each layer and comes out, of weights and of the loss.

``model``      a forward pass begins: training, grad, autocast ({device type: dtype}), inputs, parameters ({dtype: how many}),
               devices ({device: how many}), weights ({name: memory format} of those with 4 dimensions)
``model.end``  it is over: output
``layer``      a module without children: name, kind, input, output
``conv``       the convolution itself, as it is computed: name of its layer, input, weight, output
``labels``     the loss compares with classes: input (logarithms of their shares), labels
``made``       an optimizer was made: weights ({name: memory format} of its parameters with 4 dimensions, numbered), devices
``wrap``       DistributedDataParallel was given a module: weights, kinds (names of the module classes in it), find_unused

Layers and convolutions are noted for the first passes only.
"""

from __future__ import annotations

import inspect
from collections import Counter

import torch
from torch import nn

from ..modes import tensors

TRAINING_PASSES, VALIDATION_PASSES = 2, 1


def memory_format(tensor) -> str | None:
    """Of a tensor with 4 dimensions: contiguous, channels_last, either (a 1x1 kernel lies the same in both), else other."""
    if tensor.dim() != 4:
        return None
    plain, last = tensor.is_contiguous(), tensor.is_contiguous(memory_format=torch.channels_last)
    return "either" if plain and last else "contiguous" if plain else "channels_last" if last else "other"


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.depth = 0
        self.recording = False
        self.names: dict[int, str] = {}
        self.inside: list[str] = []  # names of the layers that we are in
        self.passes = Counter()

    def install(self):
        observer, original = self, nn.Module.__call__

        def call(self, *args, **kwargs):  # torch.profiler, with_stack=True, asks the frame of nn.Module.__call__ for its `self`
            if observer.log.quiet or torch.compiler.is_compiling():
                return original(self, *args, **kwargs)
            return observer.forward(original, self, args, kwargs)

        nn.Module.__call__ = call
        torch.optim.Optimizer.__init__ = self.noting_optimizer(torch.optim.Optimizer.__init__)
        wrapper = nn.parallel.DistributedDataParallel
        wrapper.__init__ = self.noting_wrap(wrapper.__init__)

    def tensor(self, value) -> dict:
        with self.log.silence():
            return {"dtype": str(value.dtype).removeprefix("torch."), "device": self.log.place(value), "shape": list(value.shape),
                    "format": memory_format(value)}

    def weights(self, named) -> dict:
        with self.log.silence():
            return {name: memory_format(tensor) for name, tensor in named if tensor.dim() == 4}

    # ------------------------------------------------------------------------------------------------------------ modules
    def forward(self, original, module, args, kwargs):
        outermost = self.depth == 0
        if outermost and next(module.parameters(), None) is not None:
            self.begin(module, args, kwargs)
        leaf = self.recording and not outermost and next(module.children(), None) is None
        given = [self.tensor(value) for value in tensors([*args, *kwargs.values()])] if leaf else None
        self.depth += 1
        self.inside.append(self.names.get(id(module), ""))
        try:
            result = original(module, *args, **kwargs)
        finally:
            self.depth -= 1
            name = self.inside.pop()
        if leaf:
            out = next(tensors(result), None)
            self.log.note("layer", name=name, kind=type(module).__name__, input=given[0] if given else None,
                          output=None if out is None else self.tensor(out))
        if outermost and module is self.log.model:
            out = next(tensors(result), None)
            self.log.note("model.end", output=None if out is None else self.tensor(out))
            self.recording = False
        return result

    def begin(self, module, args, kwargs):
        log, training = self.log, module.training
        if training:
            log.step += 1
        self.passes[training] += 1
        self.recording = self.passes[training] <= (TRAINING_PASSES if training else VALIDATION_PASSES)
        log.model = module
        self.names = {id(child): name for name, child in module.named_modules()}
        parameters = dict(module.named_parameters())
        with log.silence():
            dtypes = Counter(str(p.dtype).removeprefix("torch.") for p in parameters.values())
            devices = Counter(log.place(p) for p in [*parameters.values(), *module.buffers()])
        log.note("model", training=training, grad=torch.is_grad_enabled(), kind=type(module).__name__, autocast=autocast(),
                 inputs=[self.tensor(value) for value in tensors([*args, *kwargs.values()])], parameters=dtypes, devices=devices,
                 weights=self.weights(parameters.items()))

    # --------------------------------------------------------------------------------------------------------- operations
    def before_op(self, operation, args, kwargs):
        name = operation.overloadpacket.__name__
        if name in ("nll_loss_forward", "nll_loss2d_forward"):
            self.log.note("labels", input=self.tensor(args[0]), labels=self.tensor(args[1]))
        elif name == "convolution" and self.recording and self.depth:
            self.log.note("conv", name=self.inside[-1], input=self.tensor(args[0]), weight=self.tensor(args[1]))

    def after_op(self, operation, args, kwargs, result):
        if operation.overloadpacket.__name__ == "nll_loss_forward" and result[0].dim() == 0:
            with self.log.silence():
                self.log.loss = result[0].detach().item()

    # ------------------------------------------------------------------------------------------------- what is made of it
    def noting_optimizer(self, original):
        def made(optimizer, params, *args, **kwargs):
            original(optimizer, params, *args, **kwargs)
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            weights = self.weights((str(number), parameter) for number, parameter in enumerate(parameters))
            with self.log.silence():
                devices = Counter(self.log.place(parameter) for parameter in parameters)
            self.log.note("made", kind=type(optimizer).__name__, weights=weights, devices=devices)

        return made

    def noting_wrap(self, original):
        signature = inspect.signature(original)

        def wrapped(wrapper, module, *args, **kwargs):
            kinds = Counter(type(child).__name__ for child in module.modules())
            weights = self.weights(module.named_parameters())
            given = signature.bind(wrapper, module, *args, **kwargs).arguments
            self.log.note("wrap", weights=weights, kinds=kinds, find_unused=bool(given.get("find_unused_parameters")))
            original(wrapper, module, *args, **kwargs)

        return wrapped


def autocast() -> dict:
    """The device types for which autocast is on, with the dtype."""
    on = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return {kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.") for kind in on}
