"""The memory that a training takes, counted before it runs, without a GPU: by running its step on fake tensors.

    plan = of_command("train_lm.py --model 124m --amp bf16 -b 32")
    plan.peak, plan.parts                                     # bytes at the moment of the peak, and what they are

Fake tensors know shapes and formats, and no numbers: nothing is computed and no memory taken. Each storage that an operator makes
is counted from then on until it is freed, so that everything counts that is there at a moment, whoever keeps it. (Hooks on saved
tensors see only what autograd keeps, and nothing of what a selective checkpoint does.) The tensors are on a fake CPU: torch's
builds for CUDA refuse a backward pass on fake GPU tensors where there is no GPU.

What CUDA does differently is done as there: see `as_cuda`. What is not counted: what kernels borrow while they run (cuDNN's
workspaces), and the memory of the CUDA context.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import shlex
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..system import paths
from ..system.errors import UsageError
from . import options

ROUND = 512  # bytes: what CUDA's caching allocator hands out is a multiple
PARTS = ("parameters", "gradients", "optimizer", "buffers", "batch", "weights in half precision", "activations",
         "logits and loss", "backward pass", "update", "validation")


@dataclass(frozen=True)
class Plan:
    """``parts``: bytes at the moment of the peak, by the names of `PARTS`. ``peaks``: the highest sum in each phase (forward,
    backward, update, validation). ``curve``: the sum after each change, as (phase, bytes). ``title``: what was counted."""

    parts: dict[str, int]
    peaks: dict[str, int]
    curve: list[tuple[str, int]]
    title: str = ""
    batch: int = 0

    @property
    def peak(self) -> int:
        return max(self.peaks.values())

    @property
    def fixed(self) -> int:
        """What does not depend on the batch."""
        return sum(self.parts.get(name, 0) for name in ("parameters", "gradients", "optimizer", "buffers",
                                                        "weights in half precision"))


@dataclass
class _Storage:
    size: int
    phase: str
    part: str = ""


class Count(TorchDispatchMode):
    """Counts the storages that operators make while it is entered. ``phase``: what is written to each; set it as you go along."""

    def __init__(self):
        super().__init__()
        self.phase = "model"
        self.all: list[_Storage] = []
        self.events: list[tuple[str, int, int]] = []  # phase, number of the storage, 1 or -1
        self.half, self.last, self.shapes = None, 0, set()  # what a storage is for, by the tensor that it is made for
        self._live: dict[int, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor):
                self.see(tensor)
        return found

    def see(self, tensor) -> None:
        """Counts this tensor's storage, if that is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        number = self._live[key] = len(self.all)
        part = ""
        if self.phase in ("forward", "backward") and tensor.dim() > 1:
            if self.last and tensor.shape[-1] == self.last:
                part = "logits and loss"
            elif self.phase == "forward" and tensor.dtype is self.half and tuple(tensor.shape) in self.shapes:
                part = "weights in half precision"
        self.all.append(_Storage(-(-storage.nbytes() // ROUND) * ROUND, self.phase, part))
        self.events.append((self.phase, number, 1))
        weakref.finalize(storage, self._freed, key, number).atexit = False

    def _freed(self, key: int, number: int) -> None:
        if self._live.get(key) == number:
            del self._live[key]
        self.events.append((self.phase, number, -1))

    def name(self, part: str, *tensors) -> None:
        """These tensors' storages are this part, those that have no name yet."""
        for tensor in tensors:
            number = self._live.get(tensor.untyped_storage()._cdata) if isinstance(tensor, torch.Tensor) else None
            if number is not None and not self.all[number].part:
                self.all[number].part = part

    def live(self) -> dict[str, int]:
        """Bytes that are there now, by the names of `PARTS`."""
        held: Counter = Counter()
        for _, number, sign in self.events:
            held[self.part(self.all[number])] += sign * self.all[number].size
        return {name: held[name] for name in PARTS if held[name]}

    def part(self, storage: _Storage) -> str:
        return storage.part or PHASES[storage.phase]

    def plan(self, **about) -> Plan:
        now, most, held, peaks, curve = 0, -1, Counter(), {}, []
        parts: dict[str, int] = {}
        for phase, number, sign in self.events:
            storage = self.all[number]
            now += sign * storage.size
            held[self.part(storage)] += sign * storage.size
            curve.append((phase, now))
            peaks[phase] = max(peaks.get(phase, 0), now)
            if now > most:
                most, parts = now, dict(held)
        return Plan({name: parts[name] for name in PARTS if parts.get(name)}, peaks, curve, **about)


PHASES = {"model": "activations", "forward": "activations", "backward": "backward pass", "update": "update",
          "validation": "validation"}


# ------------------------------------------------------------------------------------------------- as CUDA's kernels do it
class _RMSNorm(torch.autograd.Function):
    """As CUDA's kernel does it: keeps the input and one number per row."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight, x.new_empty(x.shape[:-1], dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, grad):
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


def _rms_norm(plain, x, shape, weight=None, eps=None):
    """One kernel on a GPU, from torch 2.9 on, and a row of operators here."""
    if weight is None or weight.dtype is not x.dtype:
        return plain(x, shape, weight, eps)
    return _RMSNorm.apply(x, weight)


def _float32(plain, *args, **kwargs):
    """What CUDA's autocast computes in float32, and that of a CPU does not."""
    if not torch.is_autocast_enabled("cpu"):
        return plain(*args, **kwargs)
    with torch.autocast("cpu", enabled=False):
        return plain(*(_in_float32(arg) for arg in args), **{name: _in_float32(arg) for name, arg in kwargs.items()})


IN_FLOAT32 = ("layer_norm", "group_norm", "softmax", "log_softmax", "cross_entropy", "nll_loss")


@contextlib.contextmanager
def as_cuda() -> Iterator[None]:
    """In this block, calls that take other memory on a GPU than on a CPU take that of a GPU. Functions are replaced themselves,
    since a mode of torch's would not see what a checkpoint computes again within `backward`."""
    with contextlib.ExitStack() as replaced:
        for name in ("rms_norm", *IN_FLOAT32):
            ours = _rms_norm if name == "rms_norm" else _float32
            replaced.enter_context(mock.patch.object(F, name, functools.partial(ours, getattr(F, name))))
        yield


def _in_float32(value):
    return value.float() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


# -------------------------------------------------------------------------------------------------------------- the step
@dataclass
class Made:
    """What is trained: a model, its optimizer (None: the updates are in the backward pass), a batch (a tuple of tensors),
    ``loss(*batch)``, the format of autocast (None: off), the size of the logits' last dimension (0: not named), and how many
    batches an update is made from: two stand for more, as gradients are there while the second one is on its way."""

    net: torch.nn.Module
    optimizer: torch.optim.Optimizer | None
    batch: tuple
    loss: Callable
    half: torch.dtype | None = None
    last: int = 0
    batches: int = 1


def steps(made: Made, device: str, count: int = 2, enter: Callable[[str], None] = lambda phase: None) -> None:
    """``count`` steps of a training, then the validation of one batch. ``enter`` is told each phase; ``update`` and ``done`` have
    the gradients and the optimizer's state."""
    autocast = functools.partial(torch.autocast, device, dtype=made.half or torch.bfloat16, enabled=made.half is not None)
    made.net.train()
    for number in range(1, count * made.batches + 1):
        enter("forward")
        with autocast():
            loss = made.loss(*made.batch)
        enter("backward")
        loss.backward()
        del loss
        if number % made.batches:
            continue
        enter("update")
        if made.optimizer is not None:
            made.optimizer.step()
            enter("done")
            made.optimizer.zero_grad(set_to_none=True)
    made.net.eval()
    enter("validation")
    with torch.no_grad(), autocast():
        made.loss(*made.batch)


def count_steps(make: Callable[[], Made], **about) -> Plan:
    """Makes a model and trains it on fake tensors: two steps, as the first makes the optimizer's state; then validates."""
    with counting(make) as (made, count):
        def enter(phase: str) -> None:
            count.phase = phase if phase != "done" else "update"
            if phase in ("update", "done"):
                name_states(made, count)

        steps(made, "cpu", 2, enter)
        count.phase = "end"
    return count.plan(**about)


@contextlib.contextmanager
def counting(make: Callable[[], Made]) -> Iterator[tuple[Made, Count]]:
    """What is trained, on fake tensors, and what counts its storages: those that are there before a step are known to it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        made = make()
        with as_cuda(), Count() as count:
            for part, tensors in (("parameters", made.net.parameters()), ("buffers", made.net.buffers()), ("batch", made.batch)):
                for tensor in tensors:
                    count.see(tensor)
                    count.name(part, tensor)
            count.half, count.last = made.half, made.last
            count.shapes = {tuple(weight.shape) for weight in made.net.parameters() if weight.dim() > 1}
            yield made, count


def name_states(made: Made, count: Count) -> None:
    count.name("gradients", *(weight.grad for weight in made.net.parameters()))
    if made.optimizer is not None:
        count.name("optimizer", *(value for state in made.optimizer.state.values() for value in state.values()))


def count_held(make: Callable[[], Made]) -> dict[str, int]:
    """Bytes at the end of a forward pass by the names of `PARTS`, all gradients and the optimizer's states counted in."""
    with counting(make) as (made, count):
        count.phase = "update"
        for weight in made.net.parameters():
            weight.grad = torch.zeros_like(weight)
        made.optimizer.step()
        name_states(made, count)
        made.net.train()
        count.phase = "forward"
        with torch.autocast("cpu", dtype=made.half or torch.bfloat16, enabled=made.half is not None):
            loss = made.loss(*made.batch)
        held = count.live()
        del loss
    return held


# -------------------------------------------------------------------------------------------------- from a command's words
def of_command(command: str, folder: Path | None = None, **more) -> Plan:
    """The plan of ``train.py`` or ``train_lm.py`` with these switches, on a GPU; ``more`` replaces arguments: ``batch_size=64``.

    ``folder``: where the script is; left out, the kit's own. Raises UsageError for another script, or what its parser refuses.
    """
    with _made(command, folder, more) as (make, title, batch):
        return count_steps(make, title=title, batch=batch)


def held(command: str, **more) -> dict[str, int]:
    """What `count_held` counts, for a command as `of_command` takes it."""
    with _made(command, None, more) as (make, _, _):
        return count_held(make)


@contextlib.contextmanager
def _made(command: str, folder: Path | None, more: dict) -> Iterator[tuple[Callable[[], Made], str, int]]:
    try:
        words = shlex.split(command)
    except (ValueError, AttributeError):  # a quote that nothing closes; no text
        raise UsageError(f"{command!r} is no command: give a text such as \"train_lm.py --model 124m -b 32\"") from None
    known = {"train.py": _images, "train_lm.py": _language}
    # Behind `python`, or `torchrun` and its switches.
    at = next((at for at, word in enumerate(words) if Path(word).name in known), None)
    if at is None:
        raise UsageError(f"the memory of {words[0] if words else 'nothing'} cannot be predicted: give a command of "
                         f"{' or '.join(known)}")
    script, words = Path(words[at]).name, words[at:]
    with _modules(folder or paths.PACKAGE / "reference"):
        module = importlib.import_module(script.removesuffix(".py"))
        try:
            args = module.arguments(words[1:])
        except SystemExit:
            raise UsageError(f"{command}: its switches are refused, see above") from None
        for name, value in more.items():
            setattr(args, name, value)
        options.refuse_small(args)
        if getattr(args, "shard", None):
            raise UsageError("--shard: what a process holds of a model that is split cannot be counted. Leave the switch out "
                             "to see what a process takes that holds all of it")
        yield functools.partial(known[script], args, module), " ".join([script, *words[1:]]), args.batch_size


@contextlib.contextmanager
def _modules(folder: Path) -> Iterator[None]:
    """Scripts of ``folder`` and what they import from beside it are imported anew: a trainee edits them."""
    names = {file.stem for file in folder.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names & sys.modules.keys()}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in names & sys.modules.keys():
            del sys.modules[name]
        sys.modules.update(before)


def _optimizer(args, parameters, module) -> torch.optim.Optimizer:
    groups = [{"params": list(parameters), "weight_decay": args.wd}]
    optimizer = module.optimizers.make_optimizer(args.optimizer, groups, args.lr or 0.1, args.mom, args.fused)
    for group in optimizer.param_groups:
        group["foreach"] = not args.fused  # torch's choice on a GPU
    return optimizer


HALF = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def _images(args, module) -> Made:
    from . import activation_checkpointing

    net = module.torchvision.models.get_model(args.model, weights=None, num_classes=1000, **options.for_model(args))
    images = torch.zeros(args.batch_size, 3, args.image_size, args.image_size, dtype=torch.uint8)
    labels = torch.zeros(args.batch_size, dtype=torch.long)
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    for weight in net.parameters():  # net.to(memory_format=…) swaps fake parameters, which torch refuses
        if weight.dim() == 4:
            weight.data = weight.data.to(memory_format=layout)
    if args.checkpoint_activations:
        activation_checkpointing.checkpoint_activations(net)

    shift, scale = torch.zeros(1, 3, 1, 1), torch.ones(1, 3, 1, 1)

    def loss(images, labels):
        images = torch.addcmul(shift, images.to(memory_format=layout), scale)  # as data.normalize does
        return F.cross_entropy(net(images), labels)

    return Made(net=net, optimizer=_optimizer(args, net.parameters(), module), batch=(images, labels), loss=loss,
                half=HALF[args.amp], last=0, batches=min(2, args.accumulate))


def _language(args, module) -> Made:
    vocabulary = args.vocabulary or (256 if args.data == "random" else 320)
    net = module.network(args, module.lm.shape(args.model, vocabulary, args.length))
    rows = torch.zeros(args.batch_size, args.length + 1, dtype=torch.long)
    learned = [weight for weight in net.parameters() if weight.requires_grad]

    def loss(rows):
        mask = module.lm.documents(rows[:, :-1], 0) if args.mask_documents else None
        return net(rows[:, :-1], rows[:, 1:], mask)

    return Made(net=net, optimizer=_optimizer(args, learned, module), batch=(rows,), loss=loss,
                half=HALF[args.amp], last=vocabulary, batches=min(2, args.accumulate))
