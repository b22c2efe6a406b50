"""Environment variables that change how runs behave."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ..system.look import count
from .report import Finding, fine, note

# variable: what it does, values at which it does nothing
SLOW = {
    "NCCL_P2P_DISABLE": ("GPUs exchange through the host's memory", ("0",)),
    "NCCL_SHM_DISABLE": ("GPUs exchange over the network even within a machine", ("0",)),
    "NCCL_IB_DISABLE": ("machines exchange over plain Ethernet", ("0",)),
    "CUDA_LAUNCH_BLOCKING": ("every kernel is waited for: timings are wrong", ("0",)),
    "TORCH_DISTRIBUTED_DEBUG": ("every exchange is checked", ("OFF", "INFO")),
    "NVIDIA_TF32_OVERRIDE": ("it decides over TF32, whatever the script says", ()),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ("no memory is cached, so every tensor is allocated again", ("0",)),
    "TORCH_COMPILE_DISABLE": ("torch.compile does nothing", ("0",)),
    "TORCHDYNAMO_DISABLE": ("torch.compile does nothing", ("0",)),
}
HARMLESS = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_TIME_FORMAT", "NCCL_VERSION")
LIBRARIES = ("libcudart", "libnccl", "libcudnn", "libcublas", "libtorch", "libc10")
TOGETHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def say_environment(env: Mapping[str, str], cores: int | None, gpus: int, listing=os.listdir) -> Iterator[Finding]:
    """``listing(folder)`` gives file names, for the folders of LD_LIBRARY_PATH."""
    before = 0
    for finding in _environment(env, cores, gpus, listing):
        before += 1
        yield finding
    if not before:
        yield fine("Environment", "no variable that changes how runs behave")


def _environment(env, cores, gpus, listing):
    yield from _threads(env, cores)
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles") and gpus:
        yield note(
            "CUDA_VISIBLE_DEVICES",
            f"is {visible.strip() or 'empty'}: every program here sees no GPU",
            "unset CUDA_VISIBLE_DEVICES.",
            value=visible,
        )
    for folder in filter(None, env.get("LD_LIBRARY_PATH", "").split(":")):
        try:
            found = sorted(
                {name.split(".so")[0] for name in listing(folder) if name.startswith(LIBRARIES) and ".so" in name}
            )
        except OSError:
            continue
        if found:
            yield note(
                "LD_LIBRARY_PATH",
                f"{folder} contains {', '.join(found)}, which are loaded instead of torch's own",
                "Unset it unless torch here is built for them (a cluster's module is).",
                folder=folder,
                libraries=found,
            )
    for name in ("PYTHONPATH", "PYTHONHOME"):
        if env.get(name):
            yield note(
                name,
                f"is set ({env[name]}): python looks there before this environment's packages",
                f"unset {name} if imports surprise you.",
                value=env[name],
            )
    for name, (means, harmless) in SLOW.items():
        value = env.get(name, "").strip()
        if value and value not in harmless:
            yield note(name, f"is {value}: {means}", f"unset {name} unless you mean it.", value=value)
    chosen = {name: value for name, value in sorted(env.items()) if name.startswith("NCCL_") and name not in (*SLOW, *HARMLESS)}
    if chosen:
        loud = ", and NCCL_DEBUG makes logs long" if chosen.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE") else ""
        yield note(
            "NCCL_*",
            "set: " + ", ".join(f"{name}={value}" for name, value in chosen.items()) + loud,
            "Keep what your site sets; unset what you don't know.",
            **chosen,
        )
    ranks = {name: env[name] for name in TOGETHER if name in env}
    if ranks:
        yield note(
            "RANK, …",
            "set: "
            + ", ".join(f"{name}={value}" for name, value in ranks.items())
            + ": a script started here takes itself for one of several processes",
            f"unset {' '.join(ranks)}. `submit` gives jobs a clean environment.",
            **ranks,
        )
    slurm = sorted(name for name in env if name.startswith(("SLURM_", "SBATCH_", "SRUN_")) and name not in HARMLESS)
    if slurm:
        names = ", ".join(slurm) if len(slurm) <= 3 else count(len(slurm), "variable")
        yield note(
            "SLURM_*",
            f"{names} set, by the job that this session runs in or by your shell: sbatch and srun typed here obey",
            "`submit` leaves them out of its jobs.",
            names=slurm,
        )


def _threads(env, cores):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        value = env.get(name)
        if value is None:
            continue
        first = value.split(",")[0].strip()
        if not first.isdigit() or int(first) == 0:
            yield note(name, f"is {value!r}, which is not a number of threads", f"unset {name}.", value=value)
        elif cores and int(first) > cores:
            yield note(
                name,
                f"is {first}, for {count(cores, 'core')}: threads get in each other's way",
                f"unset {name}, or set it to {cores}.",
                value=value,
            )
        elif cores and cores > 1 and int(first) == 1:
            yield note(
                name,
                f"is 1: torch computes on one of your {cores} cores",
                f"unset {name} for runs without a GPU.",
                value=value,
            )
