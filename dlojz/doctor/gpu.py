"""The GPUs as the driver sees them (NVML), and what each architecture can compute."""

from __future__ import annotations

from collections.abc import Iterator

from ..system.look import CouldNotLook, System, count, one_line, size
from .report import Finding, broken, fine, note

# compute capability (the last one not above the card's counts): architecture, what its tensor cores multiply
ARCHITECTURES = {
    (3, 0): ("Kepler", ()),
    (5, 0): ("Maxwell", ()),
    (6, 0): ("Pascal", ()),
    (7, 0): ("Volta", ("fp16",)),
    (7, 5): ("Turing", ("fp16", "int8", "int4")),
    (8, 0): ("Ampere", ("tf32", "bf16", "fp16", "int8", "int4", "fp64")),
    (8, 6): ("Ampere", ("tf32", "bf16", "fp16", "int8", "int4")),
    (8, 9): ("Ada", ("tf32", "bf16", "fp16", "fp8", "int8", "int4")),
    (9, 0): ("Hopper", ("tf32", "bf16", "fp16", "fp8", "int8", "fp64")),
    (10, 0): ("Blackwell", ("tf32", "bf16", "fp16", "fp8", "fp4", "int8", "fp64")),
    (12, 0): ("Blackwell", ("tf32", "bf16", "fp16", "fp8", "fp4", "int8")),
}


def architecture(capability: tuple[int, int]) -> tuple[str, tuple[str, ...]]:
    """Name and tensor-core precisions of a compute capability; a newer card than we know has at least those of the newest."""
    known = [key for key in ARCHITECTURES if key <= tuple(capability)]
    return ARCHITECTURES[max(known)] if known else ("older than Kepler", ())


def precisions(capability: tuple[int, int]) -> str:
    """One clause for a trainee: which precisions pay on this card."""
    kinds = architecture(capability)[1]
    if not kinds:
        return "no tensor cores: half precision saves memory, hardly time"
    if "bf16" not in kinds:
        return f"tensor cores for {', '.join(kinds)}: use fp16 with a gradient scaler; no tf32, and bf16 is only emulated"
    return f"tensor cores for {', '.join(kinds)}"


def look_gpus(system: System, nvml=None) -> dict:
    """``{"driver": "580.1", "cuda": (13, 0), "gpus": […], "nvlink": pairs of indices that NVLink joins}``

    Without library or driver ``gpus`` is empty and ``why`` says so. Raises CouldNotLook where a driver that is there answers
    with an error.
    """
    nothing = {"driver": None, "cuda": None, "gpus": [], "nvlink": [], "cards": pci_cards(system)}
    if nvml is None:
        try:
            import pynvml as nvml  # the package nvidia-ml-py
        except ImportError:
            return {**nothing, "why": "nvidia-ml-py is not installed", "mend": "pip install nvidia-ml-py"}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        # 12: no library, 9: no driver loaded; anything else is a driver that is there and does not work
        known = {12: "no NVIDIA driver on this machine", 9: "the NVIDIA driver is not loaded"}.get(
            getattr(error, "value", None)
        )
        if known:
            return {**nothing, "why": known}
        return {
            **nothing,
            "why": one_line(error).partition(": ")[2] or one_line(error),
            "driver_error": getattr(error, "value", -1),
        }
    try:
        cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        return {
            **nothing,
            "driver": _text(nvml.nvmlSystemGetDriverVersion()),
            "cuda": (cuda // 1000, cuda % 1000 // 10),
            "gpus": [_gpu(nvml, handle) for handle in handles],
            "nvlink": _pairs(nvml, handles),
        }
    except nvml.NVMLError as error:
        raise CouldNotLook(f"NVIDIA's driver: {one_line(error)}") from None
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml, handle) -> dict:
    def ask(function, *args):
        try:
            return getattr(nvml, function)(handle, *args)
        except (nvml.NVMLError, AttributeError):  # not supported on this card, or by this version of the library
            return None

    memory = ask("nvmlDeviceGetMemoryInfo")
    mig = ask("nvmlDeviceGetMigMode")
    links = [ask("nvmlDeviceGetNvLinkState", link) for link in range(getattr(nvml, "NVML_NVLINK_MAX_LINKS", 18))]
    return {
        "name": _text(ask("nvmlDeviceGetName")) or "GPU",
        "memory": memory.total if memory else None,
        "used": memory.used if memory else None,
        "capability": tuple(ask("nvmlDeviceGetCudaComputeCapability") or (0, 0)),
        "mig": bool(mig and mig[0]),
        "links": sum(1 for state in links if state),
        "mode": ask("nvmlDeviceGetComputeMode"),
        "processes": len(ask("nvmlDeviceGetComputeRunningProcesses") or []),
        "power_limit": ask("nvmlDeviceGetPowerManagementLimit"),
        "power_default": ask("nvmlDeviceGetPowerManagementDefaultLimit"),
        "ecc_errors": ask("nvmlDeviceGetTotalEccErrors", 1, 0),  # uncorrected, since the driver was loaded
    }


def _pairs(nvml, handles) -> list[tuple[int, int]]:
    """The pairs that reach each other's memory over NVLink, directly or through a switch."""
    pairs = []
    for i, one in enumerate(handles):
        for j in range(i + 1, len(handles)):
            try:
                if nvml.nvmlDeviceGetP2PStatus(one, handles[j], nvml.NVML_P2P_CAPS_INDEX_NVLINK) == 0:
                    pairs.append((i, j))
            except (nvml.NVMLError, AttributeError):
                continue
    return pairs


def _text(value) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def pci_cards(system: System) -> int:
    """NVIDIA's graphics and compute cards on the PCI bus, with or without a driver."""
    cards = 0
    for device in sorted(system.path("sys/bus/pci/devices").glob("*")):
        vendor, kind = (
            system.read(device.relative_to(system.root) / "vendor"),
            system.read(device.relative_to(system.root) / "class"),
        )
        cards += (vendor or "").strip() == "0x10de" and (kind or "").startswith("0x03")
    return cards


def say_gpus(facts: dict, slurm: bool) -> Iterator[Finding]:
    """``slurm``: there is a Slurm here, so that this may be a login node."""
    gpus = facts["gpus"]
    if not gpus:
        yield _none(facts, slurm)
        return
    kinds: dict[tuple, list[int]] = {}
    for index, gpu in enumerate(gpus):
        kinds.setdefault((gpu["name"], gpu["memory"], gpu["capability"]), []).append(index)
    for (name, memory, capability), members in kinds.items():
        major, minor = capability
        which = f"{len(members)} x " if len(members) > 1 else ""
        amount = f", {size(memory)}" if memory else ""
        yield fine(
            "GPU",
            f"{which}{name}{amount}, {architecture(capability)[0]} (capability {major}.{minor}); {precisions(capability)}",
            gpus=[gpus[i] for i in members],
            precisions=list(architecture(capability)[1]),
        )
    if len(kinds) > 1:
        yield note(
            "GPU",
            f"{len(kinds)} kinds of GPU in one machine: a run over all waits for the slowest",
            "Choose with CUDA_VISIBLE_DEVICES.",
        )
    yield from _nvlink(facts)
    for index, gpu in enumerate(gpus):
        yield from _state(index, gpu)


def _none(facts: dict, slurm: bool) -> Finding:
    why, cards = facts.get("why", "the driver works but gives you no GPU"), facts["cards"]
    data = {"gpus": [], "cards": cards}
    if facts.get("driver_error") == 18:
        return broken(
            "GPU",
            "the driver was updated under the running system: library and kernel module differ",
            "Restart the machine (or ask for it).",
            **data,
        )
    if "driver_error" in facts:
        return broken(
            "GPU",
            f"NVIDIA's driver does not answer: {why}",
            "Restart the machine, or ask whoever runs it; `nvidia-smi` shows the same error.",
            **data,
        )
    if facts.get("mend"):
        return note("GPU", f"could not look: {why}", facts["mend"], **data)
    if cards:
        return note(
            "GPU",
            f"{count(cards, 'NVIDIA card')} in the machine, but {why}: torch can't use it",
            "In a container, start it with --gpus all; else install NVIDIA's driver. Without it everything runs on the CPU.",
            **data,
        )
    if slurm:
        return fine("GPU", "none here: your jobs use the GPUs of the nodes that Slurm allocates", **data)
    return fine("GPU", f"none ({why}): runs use the CPU, with small models and images", **data)


def _nvlink(facts: dict) -> Iterator[Finding]:
    gpus, pairs = facts["gpus"], facts["nvlink"]
    if len(gpus) < 2:
        return
    wanted = len(gpus) * (len(gpus) - 1) // 2
    links = max(gpu["links"] for gpu in gpus)
    data = {"pairs": pairs, "links": [gpu["links"] for gpu in gpus]}
    if len(pairs) == wanted:
        which = "both GPUs" if len(gpus) == 2 else f"all {len(gpus)} GPUs"
        many = f" ({links} links a GPU)" if links else ""
        yield fine("NVLink", f"{which} reach each other over NVLink{many}", **data)
    elif pairs:
        yield note(
            "NVLink",
            f"joins {', '.join(f'{i}-{j}' for i, j in pairs)} only: the other pairs exchange over PCIe and set the pace",
            **data,
        )
    else:
        yield note(
            "NVLink", "none between these GPUs: gradients travel over PCIe, so exchanges cost more of each step", **data
        )


def _state(index: int, gpu: dict) -> Iterator[Finding]:
    name = f"GPU {index}"
    if gpu["mig"]:
        yield note(
            name,
            "cut into slices (MIG): you see a part of the card; slices cannot exchange over NCCL",
            "Ask for a whole GPU for the days on several GPUs.",
        )
    if gpu["mode"] == 2:
        yield broken(
            name, "closed for computing (compute mode Prohibited)", "Ask whoever runs the machine: nvidia-smi -c 0."
        )
    elif gpu["mode"] == 3:
        yield note(
            name,
            "takes one process at a time (compute mode Exclusive): a notebook that has used the GPU keeps jobs from it",
            "Restart that kernel before a job starts.",
        )
    if gpu["used"] and gpu["memory"] and gpu["used"] > 0.1 * gpu["memory"]:
        who = (
            f" by {count(gpu['processes'], 'process')}" + ("es" if gpu["processes"] > 1 else "") if gpu["processes"] else ""
        )
        yield note(
            name,
            f"in use: {size(gpu['used'])} of {size(gpu['memory'])} taken{who}",
            "Timings beside another job say little; see `nvidia-smi`.",
            used=gpu["used"],
        )
    if gpu["power_limit"] and gpu["power_default"] and gpu["power_limit"] < 0.95 * gpu["power_default"]:
        yield note(
            name,
            f"limited to {gpu['power_limit'] / 1000:.0f} W of its {gpu['power_default'] / 1000:.0f} W: slower than other "
            "cards of this model",
            power_limit=gpu["power_limit"],
        )
    if gpu["ecc_errors"]:
        yield note(
            name,
            f"{count(gpu['ecc_errors'], 'memory error')} that could not be corrected",
            "Tell whoever runs the machine; results may be wrong.",
            ecc_errors=gpu["ecc_errors"],
        )
