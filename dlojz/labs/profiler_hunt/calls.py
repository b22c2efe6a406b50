"""What the check does with each script of the hunt: a short training under watch, and the kit's own beside it."""

from __future__ import annotations

import importlib.util
import mmap
import struct
import tracemalloc
import zipfile
from contextlib import nullcontext, suppress
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from dlojz.labs.profiler_hunt import bench
from dlojz.system import paths
from dlojz.training import records

BATCH, STEPS = 8, 12
BATCHES = (8, 32)
# What reads values without an operation of its own; the last is what `print` calls.
ASKING = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__repr__)
PUTTING = (torch.Tensor.index_put_, torch.Tensor.index_put, torch.index_put_, torch.index_put)
SIZED = ("_unique2", "unique_dim", "unique_consecutive", "bincount", "nonzero", "masked_select", "_coalesce")  # by values


def shapes(module, note):
    """``read``: a member of the archive is unpacked. ``item``: bytes that are allocated for one image, once others
    were read, and its dtype."""
    unpacked = Unpacked(note)
    train(module, note, unpacked)
    note("reads", count=unpacked.total)
    images = module.Shapes(module.archive(Path("one.npz")))
    for index in (3, 4):
        tracemalloc.start()
        with Body() as made:
            image = images[index][0]
        note("item", bytes=tracemalloc.get_traced_memory()[1] + made.bytes,
             dtype=str(getattr(image, "dtype", type(image).__name__)).removeprefix("torch."))
        tracemalloc.stop()


def letters(module, note):
    """``table``: what the tables hold, the trainee's and the kit's. ``counting``: how many operations it takes to count a batch
    of each of these sizes."""
    mine, kits = train(module, note)
    note("table", mine=mine.tolist(), kits=kits.tolist())
    note("counting", batches=BATCHES, operations=[operations_to_count(module, size) for size in BATCHES])


def operations_to_count(module, size: int) -> int:
    """Of a batch of this size, the second time: what is made once may be kept."""
    confusion, (_, labels) = torch.zeros(module.LETTERS, module.LETTERS, dtype=torch.int64), module.letters(size, "cpu")
    for _ in range(2):
        with Body() as body:
            module.count(confusion, labels, torch.randn(size, module.LETTERS))
    return body.operations


def letters_on_a_gpu(module, note):
    """On a GPU that the probe pretends (its own fact ``move`` says what is copied): ``counted``, and on which device."""
    confusion, (_, labels) = torch.zeros(module.LETTERS, module.LETTERS, dtype=torch.int64), module.letters(BATCH, "cpu")
    confusion, labels, outputs = (given.to("cuda") for given in (confusion, labels, torch.randn(BATCH, module.LETTERS)))
    note("begin")
    with Asking(lambda: None):
        module.count(confusion, labels, outputs)
    note("counted", device=str(confusion.device))


def faces(module, note):
    """``asked``: the operations of a step with twice as many answers; None where what is written can't do with other than 40."""
    train(module, note)
    module.ANSWERS *= 2
    more = Watched("more")
    with suppress(Exception):
        module.train(more)
    note("asked", answers=module.ANSWERS, operations=more.operations[-1] if more.operations else None)


def train(module, note, around=None):
    """What both trainings return, the trainee's and the kit's. ``training``: the losses of their steps, how many answers were
    right in all of them, and how many operations each step came to. ``value``: the trainee's step asked for a value, ``sized``:
    for a tensor whose size depends on values. ``around``: a context for the trainee's training."""
    mine, kit = Watched("mine", note), Watched("kits")
    with around or nullcontext():
        found = module.train(mine)
    kits = reference(Path(module.__file__).name).train(kit)
    note("training", losses=mine.numbers(), operations=mine.operations, right=mine.right, kits_losses=kit.numbers(),
         kits_operations=kit.operations, kits_right=kit.right)
    return found, kits


def reference(name: str):
    spec = importlib.util.spec_from_file_location("kit_" + name.removesuffix(".py"), paths.PACKAGE / "reference" / "hunt" / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Watched(bench.Run):
    """A short run on the CPU that counts the operations of each step and keeps its loss."""

    def __init__(self, folder: str, note=None):
        small = f"--batch-size {BATCH} --steps {STEPS} --device cpu --run-dir {folder}"
        super().__init__(bench.arguments("-", small.split()), records.Writer())
        self.note, self.losses, self.corrects, self.operations, self.say = note, [], [], [], lambda *text: None

    def steps(self, loader):
        for batch in super().steps(loader):
            with Body(self.note) as body:
                yield batch
            self.operations.append(body.operations)

    def add(self, loss, correct, count):
        super().add(loss, correct, count)
        self.losses.append(loss.detach())
        self.corrects.append(correct)

    def numbers(self) -> list[float]:
        return [loss.item() for loss in self.losses]

    @property
    def right(self) -> float:
        return float(sum(self.corrects))


class Body(TorchDispatchMode):
    """Counts operations and the bytes that they make; with ``note``, what a process on a GPU waits for is a fact ``value``
    or ``sized``."""

    def __init__(self, note=None):
        super().__init__()
        self.operations = self.bytes = 0
        self.note = note or (lambda *_, **__: None)
        self.asked = lambda: self.note("value")
        self.calls = Asking(self.asked)

    def __enter__(self):
        self.calls.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.calls.__exit__(*error)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        name = operation.overloadpacket.__name__
        if name == "_local_scalar_dense" and self.calls.inside != "one_hot":
            self.asked()  # what one_hot asks for is a check that it makes on a CPU only
        masks = args[1] if name in ("index", "index_put_", "index_put", "_index_put_impl_") else ()
        if name in SIZED or any(mask is not None and mask.dtype in (torch.bool, torch.uint8) for mask in masks):
            self.note("sized", operation="indexing with a mask" if name not in SIZED else name.strip("_2"))
        self.operations += 1
        if isinstance(result, torch.Tensor) and not operation.is_view:
            self.bytes += result.numel() * result.element_size()
        return result


class Asking(TorchFunctionMode):
    """Hears of what reads a tensor's values without an operation of its own. ``inside``: the function of torch that we are in."""

    def __init__(self, asked):
        super().__init__()
        self.asked, self.inside = asked, ""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in ASKING:
            self.asked()
        if function in PUTTING:  # the probe's pretended GPU lets it pass, for the sake of indices, which may be elsewhere
            values = args[2] if len(args) > 2 else kwargs["values"]
            if values.dim() and values.device != args[0].device:
                raise RuntimeError(f"the values that are put into a tensor on {args[0].device} are on {values.device}")
        self.inside = function.__name__
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self.inside = ""


class Unpacked:
    """Counts how often a member of a zip archive is opened, in this process and those that it forks."""

    def __init__(self, note):
        self.note, self.shared = note, mmap.mmap(-1, 8)

    @property
    def total(self) -> int:
        return struct.unpack("q", self.shared[:8])[0]

    def __enter__(self):
        self.original = original = zipfile.ZipFile.open

        def opened(archive, name, mode="r", **options):
            if mode == "r":
                self.shared[:8] = struct.pack("q", self.total + 1)
                self.note("read", member=str(name))
            return original(archive, name, mode, **options)

        zipfile.ZipFile.open = opened
        return self

    def __exit__(self, *_):
        zipfile.ZipFile.open = self.original
