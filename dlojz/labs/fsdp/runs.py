"""What the notebook on FSDP submits, sized for the machine that it will run on."""

from __future__ import annotations

from dataclasses import dataclass

from ...system import sites

TINY = "train_lm.py --test --model 1m --length 64 -b 4 --device cpu"


@dataclass(frozen=True)
class Runs:
    """``run``: a command, to which switches are added. ``tiny``: one for checkpoints, on the CPU of any machine."""

    scale: str
    run: str
    tiny: str
    gpus: bool  # whether each process gets a GPU

    def by(self, processes: int, gpus: bool | None = None) -> dict[str, int]:
        """The keywords of `submit` for as many processes."""
        return {"gpus": processes} if (self.gpus if gpus is None else gpus) else {"gpus": 0, "processes": processes}

    def __repr__(self) -> str:
        where = "" if self.gpus else "\n              on the CPU: this machine has fewer GPUs than processes"
        return f"a run here:   {self.run}\na tiny one:   {self.tiny}{where}"


def spread() -> Runs:
    """The runs for the site in use. Raises UsageError."""
    site = sites.current()
    scale = sites.sizes(site.scale).scale
    present = len(sites.gpus()) if site.launcher == "local" else None
    if scale in ("gpu", "cluster") and (present is None or present >= 2):
        run = "train_lm.py --test --test-steps 30 --data random --model 350m --vocabulary 50304 -b 8 --amp bf16"
        return Runs(scale, f"{run} --compile --compile-blocks", TINY, True)
    return Runs("laptop", f"{TINY} --test-steps 6 --data random --vocabulary 512", TINY, False)
