"""The runs of the second day's labs, in the size that suits the machine they will run on.

They read real JPEG files (the photos that the kit draws) and are measured against the same run on random images: what the model
alone could do.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..system import machine, sites

# scale: switches of every run, and its steps: less than an epoch of the photos
_SIZES = {
    "ci": ("", 5),
    "laptop": ("", 40),
    "gpu": ("--amp bf16 --channels-last", 45),
    "cluster": ("--amp bf16 --channels-last", 45),
}
# A model so light that feeding it is the work. A GPU is fast enough to starve with any.
_LIGHT = {"laptop": ("--model shufflenet_v2_x0_5 --batch-size 32", 32)}
_MOST_WORKERS = 16  # for one process


@dataclass(frozen=True)
class Sized:
    """Commands for `submit`, to which a lab adds its switches.

    ``run`` reads photos, ``random`` is the same on random images.
    ``feed`` and ``feed_random``: the same two for a model that has to wait for its images, ``feed_batch`` at a time.
    ``workers``: loader processes for one training process.
    """

    scale: str
    run: str
    random: str
    feed: str
    feed_random: str
    feed_batch: int
    workers: int

    def __repr__(self) -> str:
        said = {"a run here": self.run, "on random data": self.random, "loader workers": self.workers}
        return "\n".join(f"{name + ':':<16} {value}" for name, value in said.items())


def sized(scale: str = "") -> Sized:
    """The runs for jobs of the site in use. Raises UsageError."""
    site = sites.current()
    chosen = sites.resolve_scale(scale or os.environ.get("DLOJZ_SCALE") or site.scale)
    switches, steps = _SIZES[chosen]
    light, batch = _LIGHT.get(chosen, ("", sites.sizes(chosen).batch_size))

    def command(data: str, model: str = "") -> str:
        return " ".join(f"train.py --test --test-steps {steps} --data {data} {model} {switches}".split())

    return Sized(chosen, command("photos"), command("random"), command("photos", light), command("random", light), batch,
                 _workers(chosen, site))


def _workers(scale: str, site: sites.Site) -> int:
    """As many as the cores that a job has for each of its training processes: on a cluster those of a GPU's share of a node."""
    if scale == "ci":
        return 2
    if site.launcher == "slurm":
        partition = site.known_partitions().get(site.partition)
        cores = partition.cores_per_gpu if partition and partition.cores_per_gpu else 8
    else:
        cores = machine.cores_allowed() // max(1, len(sites.gpus()))
    return max(1, min(_MOST_WORKERS, cores))
