"""What the notebook on DDP submits: the same run by one process and by several, sized for the machine it will run on."""

from __future__ import annotations

from dataclasses import dataclass

from ...system import sites
from .. import loading_runs

ON_THE_CPU = "train.py --test --test-steps 12 --data random --model resnet18 --image-size 64 --batch-size 16 --device cpu"


@dataclass(frozen=True)
class Together:
    """``run``: a command on random images, which measures the training and no loader. ``counts``: with how many processes."""

    scale: str
    run: str
    counts: tuple[int, ...]
    gpus: bool  # whether each process gets a GPU where there are some

    def by(self, processes: int) -> dict[str, int]:
        """The keywords of `submit` for as many processes."""
        return {"gpus": processes} if self.gpus else {"gpus": 0, "processes": processes}

    def __repr__(self) -> str:
        where = "" if self.gpus else "\n              on the CPU: this machine has fewer GPUs than processes"
        return f"a run here:   {self.run}\nprocesses:    {', '.join(map(str, self.counts))}{where}"


def together() -> Together:
    """The runs for the site in use: where a machine has a single GPU, several processes share its cores. Raises UsageError."""
    here = loading_runs.sized()
    present = len(sites.gpus()) if sites.current().launcher == "local" else None
    if present == 1:
        return Together(here.scale, ON_THE_CPU, (1, 2, 4), False)
    return Together(here.scale, here.random, tuple(count for count in (1, 2, 4) if not present or count <= present), True)
