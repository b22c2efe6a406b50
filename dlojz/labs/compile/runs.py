"""The runs of the lab, what was recorded on a GPU (docs/day3.md), and whether this machine is ready to compile."""

from __future__ import annotations

import importlib.util
import json

from ...system import inductor, paths
from .. import device_runs

SMALL = "train.py --test --data random --model resnet18 --image-size 64 --batch-size 16 --test-steps 12"
LATE = "This machine does not compile here"


class Sized:
    """``off``: the command of a run that is not compiled, to which the switches of the others are added. ``ready``: whether runs
    and cells compile. ``why``: if not, why not, in a sentence."""

    def __init__(self, scale: str = ""):
        here = device_runs.sized(scale)
        self.scale = here.scale
        on_gpu = self.scale in ("gpu", "cluster")
        self.off = f"{here.run} --amp bf16 --channels-last --fused" if on_gpu else SMALL
        self.why = _why(self.scale)
        self.ready = not self.why

    def __repr__(self) -> str:
        return f"a run here:   {self.off}\n{self.why or 'torch.compile is ready: its cache is ' + str(inductor.folder())}"


def _why(scale: str) -> str:
    if scale == "ci":
        return f"{LATE}: a test of the kit does not wait for a compiler. You see what was recorded."
    if scale in ("gpu", "cluster"):
        triton = importlib.util.find_spec("triton") is not None
        return "" if triton else f"{LATE}: Triton is missing (pip install triton). You see what was recorded."
    if lacking := inductor.missing(bool(inductor.compiler()), inductor.headers()):
        return f"{LATE}: it lacks {' and '.join(lacking)} (`dlojz doctor` says what to do). You see what was recorded."
    if not inductor.is_warm():
        return (f"{LATE}: its first use takes a minute or more. To pay that now, run `dlojz doctor --warm` in a terminal, then "
                "this cell again. Until then you see what was recorded.")
    return ""


def sized(scale: str = "") -> Sized:
    """The runs for jobs of the site in use. Raises UsageError."""
    return Sized(scale)


def recorded(part: str) -> dict:
    """What `dlojz.benchmarks.compiling` has kept of this part: each row that was measured, by name, and all of it as ``""``.
    Empty where nothing is kept."""
    file = min(paths.share("docs", "results").glob(f"compile_{part}-1x-*.json"), default=None)
    if file is None:
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return {row["name"]: row for row in found["rows"] if "error" not in row} | {"": found}


def source(found: dict) -> str:
    """Where recorded numbers come from, for below a figure."""
    head = found[""]
    device = head["machine"].get("gpu") or head["machine"]["cpu"]
    return f"recorded on one {device}, torch {head['versions']['torch']}, {head['date']}"


def pays_after(first: float, step: float, first_off: float, step_off: float) -> float | None:
    """The number of steps after which what was compiled has caught up; None where it never does.

    ``first``: seconds of the first step, ``step``: of each later one; ``…_off``: those of the run that is not compiled.
    """
    if step >= step_off:
        return None
    return max(0.0, (first - first_off) / (step_off - step)) + 1
