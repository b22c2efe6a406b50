"""The runs of the first day's labs, in the size that suits the machine.

They train on random images: these labs are about what the device does with a batch, and another lab covers reading images.
"""

from __future__ import annotations

import os
import shlex

from ..jobs import Job, jobs, submit
from ..system import hardware, sites, textfile, workspace
from ..system.errors import UsageError
from . import catalogue, fences

# scale: switches of every run, batch sizes of a sweep, a batch that no such machine can hold, a small batch and a large one
# Without a GPU ResNet-50 on smaller images: small enough for a minute's run, large enough to show what the labs are about. Its
# largest batch asks for more than the 2^47 bytes that a process can address at all: it fails at once and disturbs nobody, where
# one that is just too large would push everything else on the machine out of its memory.
# A GPU that the script does not use yet: a batch that is meant for it would keep the CPU busy for many minutes.
# --tf32 on GPUs: PyTorch's own default is TF32 for convolutions. Without it the baseline would be half as fast as a plain script,
# and what mixed precision brings would look twice as large.
UNUSED = "unused"
EMULATED = "emulated"  # a laptop whose CPU has no instructions for bfloat16
_SIZES = {
    "ci": ("--batch-size 2 --test-steps 3", (2, 4, 8), 10**12, (2, 4)),
    "laptop": ("--model resnet50 --image-size 128 --test-steps 20", (8, 16, 32), 10**10, (4, 32)),
    "gpu": ("--tf32", (64, 128, 256, 512, 1024), 8192, (64, 512)),
    "cluster": ("--tf32", (64, 128, 256, 512, 1024), 8192, (64, 512)),
    UNUSED: ("--model resnet18 --image-size 64 --batch-size 16 --test-steps 10", (8, 16, 32), 10**11, (4, 32)),
    EMULATED: ("--model resnet18 --image-size 64 --batch-size 16 --test-steps 10", (4, 8, 16), 10**11, (4, 16)),
}
_SHORT = {
    "ci": "--test-steps 3",
    "laptop": "--model resnet50 --image-size 128 --test-steps 5",
    "gpu": "--tf32 --test-steps 10",
    "cluster": "--tf32 --test-steps 10",
    UNUSED: "--model resnet18 --image-size 64 --batch-size 16 --test-steps 5",
    EMULATED: "--model resnet18 --image-size 64 --batch-size 16 --test-steps 5",
}
WHY = {
    UNUSED: "Small runs for now: you have not written the lab gpu yet, so they use the CPU. Afterwards they get the size of a "
            "GPU run.",
    EMULATED: "Small runs: this CPU has no instructions for bfloat16, so a step in bf16 takes 5 to 20 times as long as in fp32.",
}


class Sized:
    """Commands for `submit`, to which a lab adds its switches. Each is computed when it is read: until the fences of the lab gpu
    are written, no run uses a GPU, and all are small."""

    def __init__(self, scale: str, in_bf16: bool = False):
        self.asked = scale
        self.in_bf16 = in_bf16

    @property
    def scale(self) -> str:
        if self.asked in ("gpu", "cluster") and _gpu_is_unwritten():
            return UNUSED
        return EMULATED if self.asked == "laptop" and self.in_bf16 and hardware.bf16_is_emulated() else self.asked

    @property
    def run(self) -> str:
        return _command(_SIZES[self.scale][0])

    @property
    def on_cpu(self) -> str:
        """A short run on the CPU, for comparison: the same batch, except a GPU's, which would take a CPU many minutes."""
        batch = "" if self.scale in ("ci", "laptop", EMULATED) else " --batch-size 16"
        return f"{self.run.replace(' --tf32', '')} --device cpu{batch} --test-steps 6"  # a CPU has none

    @property
    def short(self) -> str:
        """For a sweep over ``batches``."""
        return _command(_SHORT[self.scale])

    @property
    def batches(self) -> tuple[int, ...]:
        return _SIZES[self.scale][1]

    @property
    def too_large(self) -> int:
        """A batch that does not fit."""
        return _SIZES[self.scale][2]

    @property
    def apart(self) -> tuple[int, int]:
        """A small batch and a large one, to compare."""
        return _SIZES[self.scale][3]

    def __repr__(self) -> str:
        sweep = f"{self.short} --batch-size {' | '.join(map(str, self.batches))}"
        why = [WHY[self.scale]] if self.scale in WHY else []
        return "\n".join([f"a run here:   {self.run}", f"a sweep:      {sweep}", *why])


def earlier(name: str, command: str) -> Job:
    """The latest run of that name and command that completed or still may. If there is none, submit it."""
    runs = [job for job in jobs if job.name == name and list(job.request.command) == shlex.split(command)
            and job.state in ("COMPLETED", "RUNNING", "PENDING")]
    return runs[-1] if runs else submit(command, name=name, again=True)


def _command(switches: str) -> str:
    return " ".join(f"train.py --test --data random {switches}".split())


def _gpu_is_unwritten() -> bool:
    """Whether a fence of the lab gpu still holds its stub. False where that is unknown: a run then says what is wrong."""
    lab = catalogue.lab("gpu")
    try:
        text = textfile.read(workspace.find() / lab.file).text
    except (UsageError, OSError):
        return False
    found = fences.find(text, lab.file, lab.stubs).fences
    return any(fences.same(fence.body, lab.stubs[name]) for name, fence in found.items())


def sized(scale: str = "", in_bf16: bool = False) -> Sized:
    """The runs for jobs of the site in use; ``in_bf16``: of a lab some of whose runs compute in bfloat16. Raises UsageError."""
    return Sized(sites.resolve_scale(scale or os.environ.get("DLOJZ_SCALE") or sites.current().scale), in_bf16)
