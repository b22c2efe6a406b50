"""What is called of each script of the hunt, the trainee's beside the kit's, and with what."""

from __future__ import annotations

import itertools
from pathlib import Path

import torch

from dlojz.labs.profiler_hunt import bench
from dlojz.training import records

STEPS = 12  # of a short training
runs = itertools.count()


def images(module):
    """The first images of an archive and their labels."""
    every = module.Shapes(module.archive(Path("shapes.npz"), 8192))

    def taken(count):
        found = [every[index] for index in range(min(count, len(every)))]
        pixels, labels = zip(*found)
        return {"the image": torch.stack(pixels), "the label": torch.tensor([int(label) for label in labels])}

    return taken


def how_many_images():
    yield "24 of the images", (24,)
    yield "10 of the images", (10,)


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
