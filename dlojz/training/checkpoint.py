"""The state of a training in one file, as train.py's --checkpoint-every writes and --resume reads it.

What no process has as a whole is in a folder beside it, ``shares-STEP``. ``shares`` writes and reads that: an object with
``save(folder)`` and ``load(folder)``, which all ranks call, and which may be as many as another number then. The file names its
folder, and is written when that is complete: later, where ``save`` returns a future.
"""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from ..system.errors import UsageError
from . import distributed, failures, options, records
from .records import Writer


@dataclass(frozen=True)
class Unfinished:
    """A checkpoint whose shares are still being written. ``finish()``: waits for them, and makes it the last good one."""

    shares: Future
    finish: Callable[[], None]


def save(path: Path, parts: dict, sums: torch.Tensor, place: dict, procs: distributed.Processes, record: Writer,
         shares=None) -> Unfinished | None:
    """All that a resumed run needs, written beside and renamed: a kill at any moment leaves the last good one.

    ``parts``: what has a ``state_dict``, by name. ``sums``: what this rank has added up and not reduced yet. ``place``: where the
    training stands (``step``, ``epoch``, ``position``), and under ``same`` what a resumed run must not change. All ranks call;
    rank 0 writes.
    """
    mine = {"random": torch.get_rng_state(), "random_cuda": torch.cuda.get_rng_state() if sums.is_cuda else None,
            "sums": sums.tolist()}
    begun, folder = time.perf_counter(), path.with_name(f"shares-{place['step']}") if shares else None
    writing = shares.save(folder) if shares else None
    ranks = distributed.from_everyone(mine)  # all have written, or copied
    state = {name: part.state_dict() for name, part in parts.items()} if procs.is_main else {}
    if writing:  # the training goes on meanwhile
        state = copy.deepcopy(state)
    state |= {"place": place, "ranks": ranks} | ({"shares": folder.name} if shares else {})

    def finish():
        if writing:
            writing.result()
        if procs.is_main:
            failures.write_safely(path, lambda file: torch.save(state, file), record, place["step"], begun, folder)
            for other in path.parent.glob("shares-*"):
                if shares and other != folder:
                    shutil.rmtree(other, ignore_errors=True)
        records.tell("saved", path=path, step=place["step"])

    return Unfinished(writing, finish) if writing else finish()


def load(path: Path, parts: dict, sums: torch.Tensor, fixed: dict, rank: int, shares=None) -> dict:
    """Puts back what `save` wrote, and returns its ``place``; on the CPU first, or every process would take memory on GPU 0.

    ``fixed``: what must be the same as in the run that saved it. Raises UsageError where it is not, or the file is damaged, of
    another script or of another model.
    """
    state = failures.read_safely(path, lambda file: torch.load(file, map_location="cpu", weights_only=True))
    if shares and isinstance(state, dict) and "shares" not in state:
        raise _refused(path, "is of a run in which each process had the whole model, without --shard")
    if wrong := _no_checkpoint(state, parts):
        raise _refused(path, f"is no checkpoint of this script: {wrong}")
    options.refuse_other(path, state["place"]["same"], fixed)
    if wrong := _another_model(state, parts):
        raise _refused(path, wrong)
    if len(state["ranks"]) <= (0 if shares else rank):
        many = len(state["ranks"])
        raise _refused(path, f"was written by {many or 'no'} process{'es' * (many != 1)}, and has nothing for rank {rank}")
    what = "its ranks"
    try:
        mine = _of_other_ranks(state["ranks"], rank) if shares else state["ranks"][rank]
        random, added = mine["random"], torch.tensor(mine["sums"])
        if added.shape != sums.shape:
            raise ValueError(f"{len(added)} sums, not {len(sums)}")
        for name, part in parts.items():
            what = f"its {name}"
            part.load_state_dict(state[name])
        if shares:
            what = f"its {state['shares']}"
            shares.load(path.with_name(state["shares"]))
        what = "its random numbers"
        torch.set_rng_state(random)
        if sums.is_cuda and mine["random_cuda"] is not None:  # None: saved on a CPU
            torch.cuda.set_rng_state(mine["random_cuda"])
    except Exception as error:  # what has the right names may hold anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise _refused(path, f"does not fit this script: {what} cannot be restored ({reason[:200]})") from None
    sums.copy_(added)
    return state["place"]


def _of_other_ranks(ranks: list[dict], rank: int) -> dict:
    """What this rank goes on with, where there may have been more or fewer of them: what was not reduced yet is counted once."""
    left = [one["sums"] for one in ranks[rank :: dist.get_world_size()]]
    return ranks[rank % len(ranks)] | {"sums": [sum(column) for column in zip(*left)] or [0.0] * len(ranks[0]["sums"])}


def _refused(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} {why}: move it away to start again, or use another --run-dir")


def _no_checkpoint(state, parts: dict) -> str:
    """What tells that a file was not written by `save` for these parts; empty where it was."""
    if not isinstance(state, dict):
        return f"it holds a {type(state).__name__}"
    if state and all(isinstance(value, torch.Tensor) for value in state.values()):
        return "it holds the weights of a model alone, and a resumed run needs all of its state"
    missing = [name for name in (*parts, "place", "ranks") if name not in state]
    if missing:
        return f"it has no {', no '.join(missing)}"
    place, ranks = state["place"], state["ranks"]
    numbers = [place.get(name) for name in ("step", "epoch", "position")] if isinstance(place, dict) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers) or not isinstance(place.get("same"), dict):
        return "its place does not say where the training was"
    if not isinstance(ranks, list) or not all(isinstance(one, dict) for one in ranks):
        return "its ranks are no list of what each process had"
    odd = next((name for name in parts if not isinstance(state[name], dict)), "")
    return f"its {odd} is a {type(state[odd]).__name__}" if odd else ""


def _another_model(state: dict, parts: dict) -> str:
    """What tells that a checkpoint is of another model or another optimizer; empty where it fits."""
    for name, part in parts.items():
        there, here = state[name], part.state_dict()
        if isinstance(part, torch.nn.Module):
            prefix = next((word for word in ("module.", "_orig_mod.") if any(str(key).startswith(word) for key in there)), "")
            if prefix and not any(key.startswith(prefix) for key in here):
                wrapper = "DistributedDataParallel" if prefix == "module." else "torch.compile"
                return f"holds a {name} in its wrapper, {wrapper}: names begin with {prefix} in the file, and not here"
            for key in {**here, **there}:
                then, now = (_kind(tensors.get(key)) for tensors in (there, here))
                if then != now:
                    return f"is of another {name}: {key} is {then} in the file and {now} here"
        elif isinstance(part, torch.optim.Optimizer):
            groups, mine = there.get("param_groups"), here["param_groups"]
            if not isinstance(groups, list) or len(groups) != len(mine):
                many = len(groups) if isinstance(groups, list) else "no"
                return f"is of another {name}: it has {many} groups of parameters, and {len(mine)} here"
            for theirs, ours in zip(groups, mine):
                # Versions of torch add settings; those of another optimizer lack some, too.
                if set(ours) - set(theirs) and set(theirs) - set(ours):
                    return f"is of another {name}: it has {', '.join(sorted(set(theirs) - set(ours))[:4])} in the file, and " \
                           f"{', '.join(sorted(set(ours) - set(theirs))[:4])} here"
                if len(theirs.get("params", ())) != len(ours["params"]):
                    return f"is of another {name}: it is for {len(theirs.get('params', ()))} parameters, and for " \
                           f"{len(ours['params'])} here"
    return ""


def _kind(value) -> str:
    """A tensor's shape and type of number, in words."""
    if not isinstance(value, torch.Tensor):
        return "missing" if value is None else f"a {type(value).__name__}"
    return f"{'x'.join(map(str, value.shape)) or 'a number'} {str(value.dtype).removeprefix('torch.')}"


def nothing_left(path: Path, step: int, total_steps: int) -> bool:
    """Whether a run that goes on from this checkpoint, of this step, would have neither steps nor their last validation to do.

    Raises UsageError where it was to stop before it has come there.
    """
    if step > total_steps:
        raise UsageError(f"{path} is of step {step}, and {total_steps} are asked for: more --epochs or --test-steps, or a new "
                         "--run-dir")
    end = records.read(path.parent).end or {}
    return step == total_steps == end.get("steps") and end.get("status") == "completed"
