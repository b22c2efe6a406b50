"""Layers: dtype, device and memory format of what goes into each layer and comes out, what it computes in, and the weights.

``model``      a forward pass begins: training, evaluating (how many of its modules are in eval mode), grad, kind, of (which
               module), inputs (tensors, each with a mark, the fingerprint of its numbers), parameters ({dtype: how many}),
               devices ({device: how many}), weights ({name: memory format} of those with 4 dimensions), frozen (how many
               parameters have requires_grad=False), gpu (the current one). In the first pass values, the fingerprint of all
               weights and buffers, and settings ({a layer, as print(model) shows it: how many}). With the option ``marks=False``
               there are no fingerprints, which a model of any size may not have the memory for; with ``marks="inputs"`` those
               of the first thousand numbers of inputs
``model.end``  it is over: output
``layer``      a module without children: name, kind, input, output, computes (the dtype of what its operation is given: below
               autocast, so that it may be another one than that of the input)
``loss``       a loss function of torch was called: function, training, computes (the dtype of what is added up), target (a tensor
               with a mark; None: the function has none), value (of a mean or sum)
``made``       an optimizer was made: kind, settings (its defaults that are numbers), weights ({name: memory format} of its
               parameters with 4 dimensions, numbered), devices
``wrap``       DistributedDataParallel was given a module: weights, kinds (names of the module classes in it), find_unused,
               devices (where it is to run: device_ids, or where the module is)

Layers are noted for the first passes only.
"""

from __future__ import annotations

import inspect
from collections import Counter

import torch
from torch import nn
from torch.nn import functional

from ..fingerprints import fingerprint
from ..modes import tensors

COMPARED = {
    "model": ("training", "parameters", "devices", "inputs", "weights", "values", "settings", "frozen", "gpu"),
    "layer": ("computes", "input", "output"),
    "loss": ("training", "computes", "target", "~value"),
    "made": ("kind", "settings", "weights", "devices"),
    "wrap": ("weights", "kinds", "find_unused", "devices"),
}
TRAINING_PASSES, VALIDATION_PASSES = 2, 1
NOT_SO_NAMED = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
LOSSES = {function: name for name, function in vars(functional).items()
          if callable(function) and (name.endswith("_loss") or name in NOT_SO_NAMED)}


def memory_format(tensor) -> str | None:
    """Of a tensor with 4 dimensions: contiguous, channels_last, either (a 1x1 kernel lies the same in both), else other."""
    if tensor.dim() != 4:
        return None
    plain, last = tensor.is_contiguous(), tensor.is_contiguous(memory_format=torch.channels_last)
    return "either" if plain and last else "contiguous" if plain else "channels_last" if last else "other"


def plain(name: str) -> str:
    """A name in a model, whether it is compiled or not."""
    return name.removeprefix("_orig_mod").removeprefix(".")


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.depth = 0
        self.recording = False
        self.names: dict[int, str] = {}
        self.computing: list[str | None] = []  # of each layer that we are in: the dtype it computes in
        self.losing = 0  # calls of loss functions that we are in: one may call another
        self.added: str | None = None  # the dtype of what the latest operation was given, in one
        self.marks = options.get("marks", True)
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

    def tensor(self, value, mark: bool = False) -> dict:
        with self.log.silence():
            found = {"dtype": dtype_of(value), "device": self.log.place(value), "shape": list(value.shape),
                     "format": memory_format(value)}
            if mark and self.marks:
                found["mark"] = fingerprint([value.reshape(-1)[:1000] if self.marks == "inputs" else value])
            return found

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
        self.computing.append(None)
        try:
            result = original(module, *args, **kwargs)
        finally:
            self.depth -= 1
            computes = self.computing.pop()
        if leaf:
            out = next(tensors(result), None)
            self.log.note("layer", name=self.names.get(id(module), ""), kind=type(module).__name__, computes=computes,
                          input=given[0] if given else None, output=None if out is None else self.tensor(out))
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
        self.names = {id(child): plain(name) for name, child in module.named_modules()}
        parameters = {plain(name): parameter for name, parameter in module.named_parameters()}
        with log.silence():
            everything = [*parameters.values(), *module.buffers()]
            dtypes, devices = Counter(map(dtype_of, parameters.values())), Counter(map(log.place, everything))
            first = {"values": fingerprint(everything if self.marks is True else ()),
                     "settings": Counter(str(child) for child in module.modules() if next(child.children(), None) is None)
                     } if training and self.passes[True] == 1 else {}
            gpu = torch.cuda.current_device() if torch.cuda.is_available() else None
        log.note("model", training=training, evaluating=sum(not each.training for each in module.modules()),
                 grad=torch.is_grad_enabled(), kind=type(module).__name__, of=log.which(module),
                 inputs=[self.tensor(value, mark=True) for value in tensors([*args, *kwargs.values()])], parameters=dtypes,
                 devices=devices, weights=self.weights(parameters.items()), gpu=gpu, **first,
                 frozen=sum(not parameter.requires_grad for parameter in parameters.values()))

    # --------------------------------------------------------------------------------------------------------- operations
    def before_op(self, operation, args, kwargs):
        if not (self.recording and self.depth) and not self.losing:
            return
        floats = [value for value in tensors(args) if value.is_floating_point()]
        if self.losing and floats:
            self.added = dtype_of(floats[0])
        if self.depth and len(floats) > 1 and self.computing[-1] is None:  # the layer's input and its weight
            self.computing[-1] = dtype_of(floats[0])

    # ------------------------------------------------------------------------------------------------------------- losses
    def call_within(self, function, args, kwargs, proceed):
        """A loss function of torch, by whatever name it was called."""
        if function not in LOSSES or self.losing:
            return proceed()
        self.losing, self.added = self.losing + 1, None
        try:
            result = proceed()
        finally:
            self.losing -= 1
        if isinstance(result, torch.Tensor):
            target = args[1] if len(args) > 1 else kwargs.get("target")
            with self.log.silence():
                value = result.detach().item() if result.dim() == 0 else None
            training = torch.is_grad_enabled()
            if training and value is not None:
                self.log.loss = value
            self.log.note("loss", function=LOSSES[function], training=training, computes=self.added, value=value,
                          target=self.tensor(target, mark=True) if isinstance(target, torch.Tensor) else None)
        return result

    # ------------------------------------------------------------------------------------------------- what is made of it
    def noting_optimizer(self, original):
        def made(optimizer, params, *args, **kwargs):
            original(optimizer, params, *args, **kwargs)
            parameters = [p for group in optimizer.param_groups for p in group["params"]]
            weights = self.weights((str(number), parameter) for number, parameter in enumerate(parameters))
            with self.log.silence():
                devices = Counter(self.log.place(parameter) for parameter in parameters)
            settings = {name: value for name, value in optimizer.defaults.items() if isinstance(value, (int, float))}
            self.log.note("made", kind=type(optimizer).__name__, settings=settings, weights=weights, devices=devices)

        return made

    def noting_wrap(self, original):
        signature = inspect.signature(original)

        def wrapped(wrapper, module, *args, **kwargs):
            kinds = Counter(type(child).__name__ for child in module.modules())
            weights = self.weights(module.named_parameters())
            given = signature.bind(wrapper, module, *args, **kwargs).arguments
            with self.log.silence():
                places = [gpu(each) for each in given.get("device_ids") or ()] or map(self.log.place, module.parameters())
            self.log.note("wrap", weights=weights, kinds=kinds, find_unused=bool(given.get("find_unused_parameters")),
                          devices=Counter(dict.fromkeys(places, 1)))
            original(wrapper, module, *args, **kwargs)

        return wrapped


def dtype_of(tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def gpu(device) -> str:
    """One of device_ids: a number, a device or its name."""
    index = device if isinstance(device, int) else torch.device(device).index
    return f"cuda:{torch.cuda.current_device() if index is None else index}"
