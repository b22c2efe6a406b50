"""The machine: processor, cores, memory, shared memory, disks, limits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from ..system.hardware import BF16, usable
from ..system.look import CouldNotLook, System, count, size
from .report import Finding, broken, fine, note

GiB = 2**30

# ---------------------------------------------------------------- processor

def say_cpu(cpu: dict) -> Iterator[Finding]:
    has = cpu["instructions"]
    text = f"{cpu['model']}; {', '.join(has) or 'no instruction sets known'}"
    if not has:
        yield fine("CPU", f"{cpu['model']}", **cpu)
    elif BF16 & set(has):
        yield fine("CPU", f"{text}: bf16 is fast here even without a GPU", **cpu)
    elif "AVX2" in has or "NEON" in has:
        yield fine("CPU", f"{text}; bf16 is emulated: a step on the CPU takes 5 to 20 times as long as in fp32", **cpu)
    else:
        yield note(
            "CPU",
            f"{text}: neither AVX2 nor AVX512, so torch uses its slowest kernels",
            "Use another machine for timings.",
            **cpu,
        )


# ---------------------------------------------------------------- cores


def say_cores(cores: dict, site: dict | None = None) -> Iterator[Finding]:
    """``site``: what stack.look_site found, for the number of workers."""
    allowed, present, quota, physical = cores["allowed"], cores["present"], cores["quota"], cores["physical"]
    workers = (
        f"the loader's default is {count(site['workers'], 'worker')}"
        if site and not site["error"]
        else "more loader workers than that don't help"
    )
    threads = f" ({physical} physical, {allowed // physical} threads each)" if physical and physical < allowed else ""
    if quota is not None and quota < allowed:
        yield note(
            "Cores",
            f"{count(allowed, 'core')}, but a CPU quota limits this session to {quota:g}: torch starts too many threads",
            f"Set OMP_NUM_THREADS={usable(cores)} and ask for that many workers (--workers {usable(cores)}).",
            **cores,
        )
    elif cores["slurm"] and cores["slurm"] > allowed:
        yield note(
            "Cores",
            f"{allowed} of {present} cores, though Slurm reports {cores['slurm']} per task: {workers}",
            "Export SRUN_CPUS_PER_TASK in the job script, as the kit's scripts do: srun does not take it from sbatch.",
            **cores,
        )
    elif allowed < present:
        why = "your Slurm job" if cores["slurm"] else "your session or container"
        yield note("Cores", f"{allowed} of this machine's {present}{threads}: {why} may not use more; {workers}", **cores)
    elif allowed == 1:
        yield note("Cores", f"1 core{threads}: loading and training take turns, so a loading lab shows little here", **cores)
    else:
        yield fine("Cores", f"{count(allowed, 'core')}{threads}: {workers}", **cores)
    if cores["load"] is not None and cores["load"] > 0.5 + present * 0.75:
        yield note(
            "Load",
            f"{cores['load']:.1f} processes compete for {count(present, 'core')}: other programs are running, timings will vary",
            "See who with `top`; measure when it is quiet.",
            load=cores["load"],
        )


# ---------------------------------------------------------------- memory


def say_memory(memory: dict) -> Iterator[Finding]:
    total, available, limit = memory["total"], memory["available"], memory["limit"]
    if available is None:
        yield fine("Memory", size(total), **memory)
        return
    whole = f"{size(limit)} (this session's limit, of the machine's {size(total)})" if limit else size(total)
    text = f"{size(available)} free of {whole}"
    if available < GiB:
        yield broken(
            "Memory",
            f"{text}: a training run will be killed",
            "Shut down other kernels (the stop signs on JupyterLab's left) or ask for more memory.",
            **memory,
        )
    elif available < 3 * GiB:
        yield note(
            "Memory", f"{text}: enough for one small run at a time", "Shut down kernels that you don't use.", **memory
        )
    else:
        yield fine("Memory", text, **memory)


# ---------------------------------------------------------------- shared memory


def say_shm(shm: dict, need: int, loader: str) -> Iterator[Finding]:
    """``loader`` says which loader needs so much: "2 workers x 2 batches of 16 images of 64 px"."""
    if not shm["there"]:
        yield fine("/dev/shm", "none on this system; loaders use files instead", **shm)
        return
    data = {**shm, "needed": need}
    text = f"{size(shm['free'])} free; the default loader ({loader}) fills {size(need)}"
    advice = "Fewer workers or a smaller batch; in a container, start it with --shm-size=8g or --ipc=host."
    if shm["free"] < need:
        yield broken("/dev/shm", f'{text}: workers will die with "Bus error"', advice, **data)
    elif shm["free"] < 4 * need:
        yield note("/dev/shm", f"{text}: too little for images as floats, which take four times that", advice, **data)
    else:
        yield fine("/dev/shm", text, **data)


# ---------------------------------------------------------------- disks

KINDS = {
    "local": ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "apfs", "bcachefs"),
    "NFS": ("nfs", "nfs4"),
    "Lustre": ("lustre",),
    "GPFS": ("gpfs", "mmfs"),
    "BeeGFS": ("beegfs", "beegfs_nodev"),
    "CephFS": ("ceph", "fuse.ceph", "fuse.ceph-fuse"),
    "network": ("cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "virtiofs"),
    "memory": ("tmpfs", "ramfs"),
    "overlay": ("overlay", "fuse-overlayfs", "fuse.fuse-overlayfs", "aufs"),
}
SHARED = {"NFS", "Lustre", "GPFS", "BeeGFS", "CephFS", "network"}


def filesystem(system: System, path: Path) -> str | None:
    """The type of the file system that holds ``path``, from the mount table; of mounts on one point the last counts."""
    best, found = -1, None
    for line in (system.read("proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 5 or not kind:
            continue
        point = re.sub(r"\\(\d{3})", lambda code: chr(int(code.group(1), 8)), fields[4])  # a space is \040
        if (path == Path(point) or Path(point) in path.parents) and len(point) >= best:
            best, found = len(point), kind[0]
    return found


def disk_kind(filesystem: str | None) -> str:
    for kind, names in KINDS.items():
        if filesystem in names:
            return kind
    return filesystem or "unknown kind"


def quota(text: str) -> dict | None:
    """What `quota -w` or `lfs quota` say of one file system: ``{"used": bytes, "limit": bytes, "files": n, "files_limit": n}``.

    The columns are blocks (KiB), soft and hard limit, grace, then the same for files; an exceeded number carries a star, and
    0 is no limit.
    """
    rows = re.split(r"grace\s*\n", text, maxsplit=1)
    if len(rows) < 2:
        return None
    numbers = [int(word.rstrip("*")) for word in rows[1].split()[1:] if re.fullmatch(r"\d+\*?", word)]
    if len(numbers) < 3:
        return None
    space, files = numbers[:3], [*numbers[3:6], 0, 0, 0][:3]
    return {
        "used": space[0] * 1024,
        "limit": (space[1] or space[2]) * 1024,
        "files": files[0],
        "files_limit": files[1] or files[2],
    }


def look_disk(system: System, path: Path) -> dict:
    real = path.expanduser().resolve()
    while not real.exists():  # a cache that isn't there yet: what would hold it
        real = real.parent
    disk = os.statvfs(real)
    found = filesystem(system, real)
    facts = {
        "path": str(path),
        "filesystem": found,
        "kind": disk_kind(found),
        "free": disk.f_bavail * disk.f_frsize,
        "device": os.stat(real).st_dev,
        "inodes": disk.f_favail if disk.f_files else None,
        "read_only": bool(disk.f_flag & os.ST_RDONLY),
        "quota": None,
    }
    command = None
    if facts["kind"] == "Lustre" and system.which("lfs"):
        command = ["lfs", "quota", "-u", str(os.getuid()), str(real)]
    elif facts["kind"] in ("NFS", "local") and system.which("quota"):
        command = ["quota", "-w", "-f", str(real)]
    if command:
        facts["quota"] = quota(system.run(command, 3).stdout)
    return facts


MEANS = {
    "memory": "in memory: it takes from the memory and is empty after a restart",
    "overlay": "a container's own layer: slower, and gone with the container",
    "Lustre": "Lustre, shared: good for large files, slow for many small ones",
    "GPFS": "GPFS, shared: good for large files, slow for many small ones",
    "BeeGFS": "BeeGFS, shared: good for large files, slow for many small ones",
    "CephFS": "CephFS, shared: good for large files, slow for many small ones",
    "NFS": "NFS, shared: slow for many small files, and two machines may see a change seconds apart",
    "network": "a network disk: slow for many small files",
}


def say_disk(folders: list[str], disk: dict) -> Iterator[Finding]:
    """``folders`` lie on this one disk: "/home/ada/course (work)"."""
    free, room = disk["free"], disk["quota"]
    local = f"local disk ({disk['filesystem']})" if disk["kind"] == "local" else disk["kind"]
    where = ", ".join(folders)
    text = f"{size(free)} free for {where}; {MEANS.get(disk['kind'], local)}"
    clean = "Delete old runs and checkpoints (`du -sh runs/*` shows which are large), or use another disk."
    if disk["read_only"]:
        yield broken(
            "Disk", f"read-only: {where}", "Use another folder: `dlojz workspace DIR`, DLOJZ_CACHE, TMPDIR.", **disk
        )
    elif disk["inodes"] == 0:
        yield broken("Disk", f"no room for another file (no inodes left): {where}", clean, **disk)
    elif free < GiB // 2:
        yield broken("Disk", text, clean, **disk)
    elif room and room["limit"] and room["used"] > 0.95 * room["limit"]:
        yield broken("Disk", f"{text}; your quota is used up: {size(room['used'])} of {size(room['limit'])}", clean, **disk)
    elif room and room["files_limit"] and room["files"] > 0.95 * room["files_limit"]:
        yield broken(
            "Disk", f"{text}; your quota of files is used up: {room['files']:,} of {room['files_limit']:,}", clean, **disk
        )
    elif free < 5 * GiB:
        yield note("Disk", text, "A checkpoint of resnet50 takes 0.2 GiB, of a large model many times that.", **disk)
    elif disk["kind"] in ("memory", "overlay"):
        yield note("Disk", text, **disk)
    else:
        said = f"; quota {size(room['used'])} of {size(room['limit'])}" if room and room["limit"] else ""
        yield fine("Disk", text + said, **disk)


def say_disks(folders: dict[str, Path], look: Callable[[str], dict]) -> Iterator[Finding]:
    """``folders`` by use; ``look(use)`` gives what look_disk found. Folders on one disk share a line."""
    disks: dict[tuple, tuple[dict, list[str]]] = {}
    for use, path in folders.items():
        try:
            disk = look(use)
        except CouldNotLook as error:
            yield note("Disk", f"{path} ({use}): could not look: {error}", "A network disk may hang: try `ls` there.")
            continue
        disks.setdefault((disk["device"], disk["filesystem"], disk["read_only"]), (disk, []))[1].append(f"{path} ({use})")
    for disk, names in disks.values():
        yield from say_disk(names, disk)


# ---------------------------------------------------------------- limits


def look_limits(system: System) -> dict:
    """Soft limits of this process; None is no limit."""
    import resource

    def soft(name):
        value = resource.getrlimit(getattr(resource, name))[0]
        return None if value == resource.RLIM_INFINITY else value

    return {
        "files": soft("RLIMIT_NOFILE"),
        "memory": soft("RLIMIT_AS"),
        "processes": soft("RLIMIT_NPROC") if hasattr(resource, "RLIMIT_NPROC") else None,
    }


def say_limits(limits: dict) -> Iterator[Finding]:
    bad = False
    if limits["files"] is not None and limits["files"] < 1024:
        bad = True
        yield note(
            "Open files",
            f'at most {limits["files"]}: loaders with many workers stop with "Too many open files"',
            "`ulimit -n 4096` before starting Jupyter.",
            **limits,
        )
    if limits["memory"] is not None and limits["memory"] < 64 * GiB:
        bad = True
        yield note(
            "Address space",
            f"limited to {size(limits['memory'])} (ulimit -v): CUDA reserves far more and fails to start under it",
            "Usual on login nodes: run training as a job, or `ulimit -v unlimited`.",
            **limits,
        )
    if limits["processes"] is not None and limits["processes"] < 256:
        bad = True
        yield note(
            "Processes",
            f"at most {limits['processes']} processes and threads: torch and loader workers need some hundred",
            "Run training as a job, or ask for a higher `ulimit -u`.",
            **limits,
        )
    if not bad:
        files = "any number of" if limits["files"] is None else format(limits["files"], ",")
        yield fine(
            "Limits",
            f"{files} open files; no tight limit on memory or processes",
            **limits,
        )
