"""What this machine lets a process use: processor, cores, memory, shared memory; limits of control groups and of Slurm count."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

from .look import CouldNotLook, System

BF16 = {"AVX512-BF16", "AMX-BF16", "BF16"}  # instructions that multiply bfloat16
# /proc/cpuinfo's word -> what people call it; only those that change what torch does
INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512f": "AVX512",
    "avx512_vnni": "AVX512-VNNI",
    "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16",
    "amx_tile": "AMX",
    "amx_bf16": "AMX-BF16",
    "asimd": "NEON",
    "sve": "SVE",
    "sve2": "SVE2",
    "bf16": "BF16",
}
# Arm's cpuinfo has no name, only numbers
ARM = {
    ("0x41", "0xd0c"): "Arm Neoverse N1",
    ("0x41", "0xd40"): "Arm Neoverse V1",
    ("0x41", "0xd4f"): "Arm Neoverse V2 (Grace)",
}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    try:
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def look_cpu(system: System) -> dict:
    """``{"model": …, "instructions": [names]}``"""
    if system.platform == "darwin":
        model = system.run(["sysctl", "-n", "machdep.cpu.brand_string"], 3).stdout.strip()
        return {"model": model or cpu_model(), "instructions": []}
    text = system.read("proc/cpuinfo")
    if text is None:
        raise CouldNotLook("/proc/cpuinfo cannot be read")
    values = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        values.setdefault(key.strip(), value.strip())
    flags = set((values.get("flags") or values.get("Features") or "").split())
    model = (
        values.get("model name")
        or ARM.get((values.get("CPU implementer"), values.get("CPU part")))
        or cpu_model(system.path("proc/cpuinfo"))
    )
    return {"model": model, "instructions": [name for flag, name in INSTRUCTIONS.items() if flag in flags]}


def bf16_is_emulated(system: System | None = None) -> bool:
    """Whether this processor, as far as it says, has no instructions for bfloat16: a training step then takes 5 to 20 times as
    long as in float32 (ResNets, AVX2)."""
    try:
        has = look_cpu(system or System())["instructions"]
    except CouldNotLook:
        return False
    return bool(has) and not BF16 & set(has)


def groups(system: System, controller: str) -> Iterator[Path]:
    """The folders of this process's control group for ``controller`` and those above it, cgroup v1 and v2, innermost first.

    In a container the path in /proc/self/cgroup may be the host's; the mounted root then holds the container's own limits.
    """
    for line in (system.read("proc/self/cgroup") or "").splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        if names == "":
            bases = ["sys/fs/cgroup", "sys/fs/cgroup/unified"]
        elif controller in names.split(","):
            bases = [f"sys/fs/cgroup/{names}", f"sys/fs/cgroup/{controller}"]
        else:
            continue
        for base in bases:
            folder = Path(path.lstrip("/"))
            for above in (folder, *folder.parents):
                yield Path(base) / above


def cpu_quota(system: System) -> float | None:
    """Cores' worth of time that the control group allows; None without a limit."""
    quotas = []
    for folder in groups(system, "cpu"):
        v2 = (system.read(folder / "cpu.max") or "").split()
        v1 = (system.read(folder / "cpu.cfs_quota_us") or "").split() + (
            system.read(folder / "cpu.cfs_period_us") or ""
        ).split()
        for words in (v2, v1):
            if len(words) == 2 and words[0].isdigit() and int(words[1]):
                quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def siblings(system: System, allowed: set[int]) -> int | None:
    """How many different physical cores the allowed processors are; None where the kernel does not say."""
    cores = set()
    for cpu in allowed:
        text = system.read(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        if text is None:
            return None
        cores.add(text.strip())
    return len(cores)


def look_cores(system: System, allowed: set[int] | None = None, present: int | None = None) -> dict:
    if allowed is None:
        allowed = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    slurm = system.env.get("SLURM_CPUS_PER_TASK") or system.env.get("SLURM_CPUS_ON_NODE") or ""
    load = re.match(r"[\d.]+", system.read("proc/loadavg") or "")
    return {
        "present": present or os.cpu_count() or len(allowed),
        "allowed": len(allowed),
        "physical": siblings(system, allowed),
        "quota": cpu_quota(system),
        "slurm": int(slurm) if slurm.isdigit() else None,
        "load": float(load.group()) if load else None,
    }


def usable(cores: dict) -> int:
    """Cores that a process here can keep busy."""
    quota = cores["quota"]
    return cores["allowed"] if quota is None else max(1, min(cores["allowed"], int(quota + 0.01)))


def memory_limit(system: System, total: int) -> tuple[int | None, int | None]:
    """The tightest limit of the control groups and what is left under it, in bytes; (None, None) where ``total`` is less."""
    best = (None, None)
    for folder in groups(system, "memory"):
        for limit_file, used_file, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            limit, used = (system.read(folder / limit_file) or "").strip(), (system.read(folder / used_file) or "").strip()
            if not (limit.isdigit() and used.isdigit()) or int(limit) >= total:
                continue
            reclaimable = re.search(rf"^{cache} (\d+)$", system.read(folder / "memory.stat") or "", re.M)
            left = int(limit) - int(used) + (int(reclaimable.group(1)) if reclaimable else 0)
            if best[1] is None or left < best[1]:
                best = (int(limit), left)
    return best


def look_memory(system: System) -> dict:
    if system.platform == "darwin":
        total = int(system.run(["sysctl", "-n", "hw.memsize"], 3).stdout)
        return {"total": total, "available": None, "limit": None}
    values = {
        key: int(number) * 1024 for key, number in re.findall(r"^(\w+):\s+(\d+) kB", system.read("proc/meminfo") or "", re.M)
    }
    if "MemTotal" not in values:
        raise CouldNotLook("/proc/meminfo cannot be read")
    total, available = values["MemTotal"], values.get("MemAvailable", values.get("MemFree", 0))
    limit, left = memory_limit(system, total)
    return {"total": total, "available": available if left is None else max(0, min(available, left)), "limit": limit}


def look_shm(system: System) -> dict:
    path = system.path("dev/shm")
    if not path.is_dir():
        return {"there": False}
    disk = os.statvfs(path)
    return {"there": True, "free": disk.f_bavail * disk.f_frsize, "total": disk.f_blocks * disk.f_frsize}


def loader_needs(workers: int, prefetch: int, batch_size: int, image_size: int) -> int:
    """Bytes in /dev/shm while ``workers`` are ``prefetch`` batches ahead: uint8 images of 3 channels, and labels."""
    return workers * prefetch * batch_size * (3 * image_size * image_size + 8)
