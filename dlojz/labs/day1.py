"""The runs of the first day's labs, in the size that suits the machine they will run on.

They train on random images: these labs are about what the device does with a batch, and reading images is a lab of its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from .. import sites

# scale: switches of every run, batch sizes of a sweep, a batch that no such machine can hold, a small batch and a large one
# Without a GPU ResNet-50 on smaller images: small enough for a minute's run, large enough to show what the labs are about. Its
# largest batch asks for more than the 2^47 bytes that a process can address at all: it fails at once and disturbs nobody, where
# one that is just too large would push everything else on the machine out of its memory.
_SIZES = {
    "ci": ("--test-steps 3", (4, 8, 16), 10**12, (2, 8)),
    "laptop": ("--model resnet50 --image-size 128 --test-steps 20", (8, 16, 32), 10**10, (4, 32)),
    "gpu": ("", (64, 128, 256, 512, 1024), 8192, (64, 512)),
    "cluster": ("", (64, 128, 256, 512, 1024), 8192, (64, 512)),
}
_SHORT = {
    "ci": "--test-steps 3",
    "laptop": "--model resnet50 --image-size 128 --test-steps 5",
    "gpu": "--test-steps 10",
    "cluster": "--test-steps 10",
}


@dataclass(frozen=True)
class Sized:
    """Commands for `submit`, to which a lab adds its switches. ``short`` is for a sweep over ``batches``; ``too_large`` is a
    batch that does not fit, ``apart`` are a small batch and a large one, to compare."""

    scale: str
    run: str
    short: str
    batches: tuple[int, ...]
    too_large: int
    apart: tuple[int, int]

    def __repr__(self) -> str:
        return f"a run here:   {self.run}\na sweep:      {self.short} --batch-size {' | '.join(map(str, self.batches))}"


def sized(scale: str = "") -> Sized:
    """The runs for jobs of the site in use. Raises UsageError."""
    chosen = sites.resolve_scale(scale or os.environ.get("DLOJZ_SCALE") or sites.current().scale)
    size, batches, too_large, apart = _SIZES[chosen]
    run, short = (" ".join(f"train.py --test --data random {switches}".split()) for switches in (size, _SHORT[chosen]))
    return Sized(chosen, run, short, batches, too_large, apart)
