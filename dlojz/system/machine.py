"""What a run should say about where it ran, so that two records can be compared later."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from .. import __version__
from .hardware import cpu_model, look_cores, look_memory, usable
from .look import CouldNotLook, System


def cores_allowed() -> int:
    """CPU cores that this process can keep busy (not: that the machine has): those of its CPU set, and no more than the time that
    its control groups give it, as under a hub's limit of one core."""
    return usable(look_cores(System()))


def limit_of_cores() -> int | None:
    """The cores that a control group gives time for, as a hub does, where its CPU set has more: torch and ``nproc`` see only the
    set, and start threads that wait for each other. None where there is no such limit."""
    cores = look_cores(System())
    return usable(cores) if usable(cores) < cores["allowed"] else None


def host_memory_total() -> int | None:
    """Bytes of memory that this process may use at most: the machine's, or the limit of its job or container; None: not known."""
    try:
        memory = look_memory(System())
    except (CouldNotLook, OSError, ValueError):
        return None
    return memory["limit"] or memory["total"]


def git_state(folder: Path) -> dict | None:
    """``{"commit": …, "dirty": bool}`` of the checkout that holds ``folder``, or None."""

    def git(*words):
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=5)

    try:
        commit = git("rev-parse", "HEAD")
        if commit.returncode:
            return None
        return {"commit": commit.stdout.strip(), "dirty": bool(git("status", "--porcelain", "-uno").stdout.strip())}
    except (OSError, subprocess.TimeoutExpired):
        return None


def describe(device) -> dict:
    """``{"machine": …, "versions": …, "git": …}`` for the ``start`` event of a run on this ``torch.device``."""
    import torch

    machine = {
        "host": platform.node(),
        "device": device.type,
        "cpu": cpu_model(),
        "cores_allowed": cores_allowed(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "host_memory_total": host_memory_total(),
    }
    versions = {"dlojz": __version__, "python": platform.python_version(), "torch": torch.__version__}
    with contextlib.suppress(metadata.PackageNotFoundError):  # not imported: a language model trains without one that fits
        versions["torchvision"] = metadata.version("torchvision")
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        machine |= {"gpu": properties.name, "gpu_memory": properties.total_memory, "gpu_uuid": gpu_uuid(device)}
        versions |= {"cuda": torch.version.cuda or torch.version.hip, "cudnn": torch.backends.cudnn.version()}
        if torch.distributed.is_nccl_available():
            versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    script = Path(sys.argv[0]).resolve().parent
    return {"machine": machine, "versions": versions, "git": git_state(script)}


def memory_with_workers(proc: Path = Path("/proc")) -> dict:
    """``{"memory_with_workers": bytes}``: what this process and those that load for it hold in memory now, files that they share
    in memory included; a page that several processes hold counts in parts. Empty where the kernel does not say.
    """
    pids = [os.getpid(), *(child.pid for child in multiprocessing.active_children())]
    try:
        held = [_memory_shared_out(proc / str(pid) / "smaps_rollup") for pid in pids]
    except OSError:  # another kernel, or a worker that has just ended
        return {}
    return {} if None in held else {"memory_with_workers": sum(held)}


def _memory_shared_out(rollup: Path) -> int | None:
    return next((1024 * int(line.split()[1]) for line in rollup.read_text().splitlines() if line.startswith("Pss:")), None)


def gpu_uuid(device) -> str | None:
    """NVML's name of this ``torch.device``, whatever CUDA_VISIBLE_DEVICES says; None for the CPU."""
    if device.type != "cuda":
        return None
    import torch

    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    return str(uuid) if uuid else None


@contextlib.contextmanager
def one_thread(limited: bool = True) -> Iterator[None]:
    """torch computes on one core in this block: of small tensors several threads would mostly wait for each other, and for long
    wherever another program takes a core. ``limited`` = False: with as many as before."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if limited else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def peak_memory(device) -> dict:
    """Peak memory of this process in bytes: on the GPU what tensors took and the allocator held, on the host the resident set."""
    import resource

    import torch

    memory = {"host_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)}
    if device.type == "cuda":
        memory["memory_allocated"] = torch.cuda.max_memory_allocated(device)
        memory["memory_reserved"] = torch.cuda.max_memory_reserved(device)
    return memory
