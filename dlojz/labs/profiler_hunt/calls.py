"""What is called of each script of the hunt, the trainee's beside the kit's, and with what."""

from __future__ import annotations

import itertools
import tracemalloc
from contextlib import suppress
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dlojz.labs.profiler_hunt import bench
from dlojz.training import records

STEPS = 12  # of a short training
runs = itertools.count()


def images(module):
    """Some images of an archive and their labels, and how much memory one of them takes when others were read before."""
    every = module.Shapes(module.archive(Path("shapes.npz")))

    def taken(count):
        pixels, labels = zip(*[every[index] for index in range(min(count, len(every)))])
        tracemalloc.start()  # what NumPy allocates
        with Bytes() as made:
            _ = every[count]
        allocated = tracemalloc.get_traced_memory()[1] + made.count
        tracemalloc.stop()
        return {"the image": torch.stack(pixels), "the label": torch.tensor([int(label) for label in labels]),
                "the memory that one image takes": f"{'less' if allocated < 2**15 else 'more'} than 32 KiB"}

    return taken


class Bytes(TorchDispatchMode):
    """Counts what torch allocates."""

    count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not operation.is_view:
            self.count += result.numel() * result.element_size()
        return result


def how_many_images():
    yield "24 of the images", (24,)


def table(module):
    """The table after the same batch was counted twice."""

    def counted(labels, outputs):
        confusion = torch.zeros(module.LETTERS, module.LETTERS, dtype=torch.int64, device=labels.device)
        for _ in range(2):
            module.count(confusion, labels, outputs)
        return confusion

    return counted


def batches():
    """On a GPU. All are one of the last two letters, and read as one of them: several belong to the same place of the table."""
    for size in (8, 64):
        outputs = torch.randn(size, 26)
        outputs[:, -2:] += 10
        yield f"a batch of {size} letters", (torch.randint(24, 26, (size,)).to("cuda"), outputs.to("cuda"))


def losses(module):
    """Of a short training, and how many answers were right."""

    def trained():
        run = Run()
        module.train(run)
        torch.manual_seed(1)  # what it has drawn is free: weights that are zeroed may be made in any number of tensors
        return {"the loss": torch.stack(run.losses).cpu(), "the number of right answers": torch.stack(run.corrects).sum().cpu()}

    return trained


def a_training():
    yield f"{STEPS} steps", ()


def many(module):
    """For operations to be counted; some can't do it with other than 40."""

    def trained(answers):
        module.ANSWERS = answers
        with suppress(Exception):
            module.train(Run())
        torch.manual_seed(1)

    return trained


def many_answers():
    yield "with ANSWERS = 320", (320,)


class Run(bench.Run):
    """A short one, which keeps the loss of each step and what was right."""

    def __init__(self):
        small = f"--batch-size 8 --steps {STEPS} --device cuda --run-dir run{next(runs)}"
        super().__init__(bench.arguments("-", small.split()), records.Writer())
        self.losses, self.corrects, self.say = [], [], lambda *text: None

    def add(self, loss, correct, count):
        super().add(loss, correct, count)
        self.losses.append(loss.detach())
        self.corrects.append(correct)
