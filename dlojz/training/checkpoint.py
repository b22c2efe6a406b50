"""The state of a training in one file, as train.py's --checkpoint-every writes and --resume reads it."""

from __future__ import annotations

from pathlib import Path

import torch

from ..system.errors import UsageError
from . import distributed, failures, options, records
from .records import Writer


def save(path: Path, parts: dict, sums: torch.Tensor, place: dict, procs: distributed.Processes, record: Writer) -> None:
    """All that a resumed run needs, written beside and renamed: a kill at any moment leaves the last good one.

    ``parts``: what has a ``state_dict``, by name. ``sums``: what this rank has added up and not reduced yet. ``place``: where the
    training stands (``step``, ``epoch``, ``position``), and under ``same`` what a resumed run must not change. All ranks call;
    rank 0 writes.
    """
    mine = {"random": torch.get_rng_state(), "random_cuda": torch.cuda.get_rng_state() if sums.is_cuda else None,
            "sums": sums.tolist()}
    ranks = distributed.from_everyone(mine)
    if procs.is_main:
        state = {name: part.state_dict() for name, part in parts.items()} | {"place": place, "ranks": ranks}
        failures.write_safely(path, lambda file: torch.save(state, file), record, place["step"])
    records.tell("saved", path=path, step=place["step"])


def load(path: Path, parts: dict, sums: torch.Tensor, fixed: dict, rank: int) -> dict:
    """Puts back what `save` wrote, and returns its ``place``; on the CPU first, or every process would take memory on GPU 0.

    ``fixed``: what must be the same as in the run that saved it. Raises UsageError where it is not, or the file is damaged.
    """
    state = failures.read_safely(path, lambda file: torch.load(file, map_location="cpu", weights_only=True))
    options.refuse_other(path, state["place"]["same"], fixed)
    for name, part in parts.items():
        part.load_state_dict(state[name])
    mine = state["ranks"][rank]
    sums.copy_(torch.tensor(mine["sums"]))
    torch.set_rng_state(mine["random"])
    if sums.is_cuda:
        torch.cuda.set_rng_state(mine["random_cuda"])
    return state["place"]


def nothing_left(path: Path, step: int, total_steps: int) -> bool:
    """Whether a run that goes on from this checkpoint, of this step, would have neither steps nor their last validation to do.

    Raises UsageError where it was to stop before it has come there.
    """
    if step > total_steps:
        raise UsageError(f"{path} is of step {step}, and {total_steps} are asked for: more --epochs or --test-steps, or a new "
                         "--run-dir")
    end = records.read(path.parent).end or {}
    return step == total_steps == end.get("steps") and end.get("status") == "completed"
