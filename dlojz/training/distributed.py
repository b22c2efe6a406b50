"""Who am I among the processes of this job? Started by ``torchrun``, by ``srun`` with one task per process, or alone."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass

from ..system.errors import UsageError

FIRST_PORT, PORTS = 10_000, 20_000  # below the ephemeral range, which begins at 32768 on Linux


@dataclass(frozen=True)
class Processes:
    """This process's place: ``rank`` of ``world_size``, ``local_rank`` of ``local_size`` on its node, and who started it."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_size: int = 1
    launcher: str = "alone"

    @property
    def is_main(self) -> bool:
        """Rank 0 prints, saves and writes the record."""
        return self.rank == 0


def processes(env=os.environ) -> Processes:
    """Read the place from the environment. Raises UsageError, which names the variable that is wrong.

    torchrun sets RANK, WORLD_SIZE and LOCAL_RANK. srun sets SLURM_PROCID for each task; but so does a batch script or a notebook
    server that runs inside an allocation, so only a *step* of several tasks (SLURM_STEP_NUM_TASKS) counts as ours. What torch's
    ``env://`` wants is then set from Slurm's variables.
    """
    if "RANK" in env and "WORLD_SIZE" in env:
        rank, world = _number(env, "RANK"), _number(env, "WORLD_SIZE")
        if world > 1 and not (env.get("MASTER_ADDR") and env.get("MASTER_PORT")):
            raise UsageError("RANK and WORLD_SIZE are set, but not MASTER_ADDR, MASTER_PORT: start with torchrun, or unset them")
        return _place(rank, world, _number(env, "LOCAL_RANK", 0), _number(env, "LOCAL_WORLD_SIZE", world), "torchrun")
    if _number(env, "SLURM_STEP_NUM_TASKS", 1) > 1 and "SLURM_PROCID" in env:
        rank, world = _number(env, "SLURM_PROCID"), _number(env, "SLURM_STEP_NUM_TASKS")
        nodes = max(_number(env, "SLURM_STEP_NUM_NODES", 1), 1)
        if not env.get("MASTER_ADDR"):
            env["MASTER_ADDR"] = _first_node(env) if nodes > 1 else "127.0.0.1"
        env.setdefault("MASTER_PORT", str(port(_number(env, "SLURM_JOB_ID", 0))))
        env["RANK"], env["WORLD_SIZE"] = str(rank), str(world)
        return _place(rank, world, _number(env, "SLURM_LOCALID", 0), -(-world // nodes), "srun")
    return Processes()


def leave(code: int = 0) -> None:
    """Ends this process, one of several, as Python does at the end of a script, but without taking the interpreter down.

    The threads of gloo outlive a process group that DDP has used, since torch keeps it. One that lets go of a tensor of Python's
    while the interpreter is taken down is ended by it in the midst of C++, and then a process that has done all of its work
    aborts now and then ("terminate called without an active exception").
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a full disk, a closed stream
            stream.flush()
    os._exit(code)


def same_everywhere(value):
    """Rank 0's value, on every rank of the process group; where there is none, the value itself."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return value
    values = [value]
    dist.broadcast_object_list(values, src=0)
    return values[0]


def collectives() -> int | None:
    """How many collectives this process has begun with all others of its process group; None where nobody counts."""
    dist = sys.modules.get("torch.distributed")
    try:
        return dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()
    except Exception:  # no group, or a backend that does not count: it is not torch's public API
        return None


def from_everyone(value) -> list:
    """The values of all ranks of the process group, on every rank; where there is none, the value itself alone."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def held(optimizer) -> dict[str, int]:
    """Bytes of this process's own parts of what is trained: parameters, gradients and states, as fields of a record."""
    def own(tensors) -> int:
        parts = (getattr(tensor, "_local_tensor", tensor) for tensor in tensors)  # a DTensor's, without importing it
        return sum(part.numel() * part.element_size() for part in parts if hasattr(part, "element_size"))

    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]  # never gathered, as a model's
    states = (value for state in optimizer.state.values() for value in state.values())
    return {"bytes_parameters": own(parameters), "bytes_gradients": own(parameters), "bytes_states": own(states)}


def port(job_id: int) -> int:
    """A port that two jobs on one node do not share: 10000 + job id % 20000."""
    return FIRST_PORT + job_id % PORTS


def _place(rank, world, local_rank, local_size, launcher) -> Processes:
    if not 0 <= rank < world:
        raise UsageError(f"rank {rank} of {world} processes: the variables that torchrun or srun sets do not fit together")
    return Processes(rank, world, local_rank, local_size, launcher)


def _number(env, name, default=None) -> int:
    text = env.get(name, "")
    if text == "" and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}={text!r} is not a number: it is set by torchrun or srun, not by hand") from None


def _first_node(env) -> str:
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST", "")
    try:
        listed = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, timeout=30, check=True)
        return listed.stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        raise UsageError(f"`scontrol show hostnames {nodes}` names no node to meet on: set MASTER_ADDR to the first") from None
