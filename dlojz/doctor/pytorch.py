"""torch, tried in a child process: does it import, does it fit the GPUs and the driver, do processes find each other."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from ..system.look import Slow, System, count
from .gpu import architecture
from .packages import numbers, pip
from .report import Finding, broken, fine, note

TORCH_LIMIT = 20.0  # seconds; a first import from a shared disk can take that long


CHILD = Path(__file__).with_name("torch_child.py")


def look_torch(system: System, limit: float = TORCH_LIMIT, script: Path = CHILD) -> dict:
    """What the child said: ``{stage: its last line}``, with ``"died"`` where it ended or was ended inside a stage."""
    try:
        done = system.run([sys.executable, "-P", "-X", "faulthandler", str(script)], limit)
        out, err, how = done.stdout, done.stderr, done.returncode
    except Slow as slow:
        out, err, how = slow.out, slow.err, None
    return stages(out, err, how, limit)


def stages(out: str, err: str, returncode: int | None, limit: float) -> dict:
    """From what the child printed (``returncode`` None: it was killed at the limit) to what happened in each stage."""
    found: dict[str, dict] = {}
    for line in out.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and "stage" in said:
            found[said.pop("stage")] = said
    begun = next((name for name, said in found.items() if not said), None)
    if returncode is None:
        found.setdefault(begun or "torch", {})["slow"] = limit
    elif begun or not found:
        if returncode < 0:
            why = f"the process was killed by {signal.Signals(-returncode).name}"
        else:
            last = err.strip().splitlines()
            why = last[-1] if last else f"exit code {returncode}"
        found.setdefault(begun or "torch", {})["died"] = why
    return found


def failure(stage: dict | None) -> str | None:
    """Why a stage did not come to its end, in words; None where it did."""
    if stage is None:
        return "not reached"
    if "slow" in stage:
        return f"no answer in {stage['slow']:g} s"
    return stage.get("died") or stage.get("error")


def say_torch(facts: dict, gpu: dict | None, cores: int | None, env: dict) -> Iterator[Finding]:
    """``gpu``: what NVML said (None: unknown). ``cores``: how many this process may use."""
    torch = facts.get("torch", {})
    why = failure(torch)
    if why and "slow" in torch:
        yield note(
            "torch",
            f"importing it took more than {torch['slow']:g} s",
            "Usual for the first import of the day from a shared disk: run the doctor again.",
        )
        return
    if why and why.startswith("ModuleNotFoundError: No module named 'torch'"):
        yield broken("torch", "not installed here", f"{pip()} install torch torchvision")
        return
    if why:
        paths = env.get("LD_LIBRARY_PATH")
        first = f"LD_LIBRARY_PATH is set ({paths}): try without it. " if paths else ""
        mend = f"{first}Reinstall torch: {pip()} install --force-reinstall torch torchvision"
        yield broken("torch", f"cannot be imported: {why}", by_python_path("torch", env) or mend)
        return
    build = f"CUDA {torch['cuda']}" if torch["cuda"] else f"ROCm {torch['hip']}" if torch["hip"] else "CPU only"
    yield fine(
        "torch",
        f"{torch['version']} for {build}; {count(torch['threads'], 'thread')}, {torch['kernels']} kernels on the CPU",
        **torch,
    )
    if cores and torch["threads"] > cores:
        yield note(
            "torch",
            f"{torch['threads']} threads for {count(cores, 'core')}: they get in each other's way",
            f"Set OMP_NUM_THREADS={cores}.",
            threads=torch["threads"],
        )
    yield from say_vision(facts.get("torchvision"), env)
    yield from say_torch_gpu(torch, facts.get("gpu"), gpu, env)
    yield from say_distributed(facts.get("distributed"), facts.get("gloo"), gpu)


def by_python_path(package: str, env: dict) -> str:
    """What to do where PYTHONPATH brings this package, in place of the environment's own, which pip would mend in vain."""
    folders = [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]
    found = PathFinder.find_spec(package, folders)
    if found is None or found.origin is None:  # a folder without __init__.py gives way to a package further on
        return ""
    return f"Python takes {package} from {found.origin}, because of PYTHONPATH: unset PYTHONPATH, then restart JupyterLab."


def say_vision(vision: dict | None, env: dict) -> Iterator[Finding]:
    why = failure(vision)
    if why is None:
        yield fine("torchvision", vision["version"], version=vision["version"])
    elif vision and "slow" in vision:
        yield note("torchvision", f"importing it took more than {vision['slow']:g} s", "Run the doctor again.")
    elif why != "not reached":
        yield broken(
            "torchvision",
            f"cannot be imported: {why}",
            by_python_path("torchvision", env)
            or f"It must be of torch's release: {pip()} install --upgrade torch torchvision",
        )


# CUDA's major version -> the oldest driver that runs it
DRIVERS = {11: 450, 12: 525, 13: 580}


HIDDEN = ("", "-1", "NoDevFiles")  # values of CUDA_VISIBLE_DEVICES that show no GPU


def cuda_fits(built_with: str, driver: tuple[int, int]) -> bool:
    """Whether a driver that speaks CUDA ``driver`` runs what CUDA ``built_with`` made: within a major version it does."""
    return driver[0] >= int(built_with.split(".")[0])


def code_for(architectures: list[str], capability: tuple[int, int]) -> str:
    """How a build of torch runs on a card: ``"built"`` (machine code is in it), ``"ptx"`` (compiled when it starts), ``"none"``.

    Machine code for sm_XY runs on capability X.Z with Z >= Y, that for sm_90a only on 9.0. PTX for compute_XY runs on
    all cards from X.Y on.
    """
    ptx = False
    for name in architectures:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
        if not match:
            continue
        kind, built, special = match[1], (int(match[2]), int(match[3])), match[4]
        same_major = special != "a" and built[0] == capability[0] and built[1] <= capability[1]
        if kind == "sm" and (built == tuple(capability) or same_major):
            return "built"
        ptx |= kind == "compute" and not special and built <= tuple(capability)
    return "ptx" if ptx else "none"


def say_torch_gpu(torch: dict, tried: dict | None, gpu: dict | None, env: dict) -> Iterator[Finding]:
    """``tried``: what came of a first computation on the GPU; ``gpu``: what NVML said."""
    gpus, tried = (gpu or {}).get("gpus") or [], tried or {}
    name = "torch and GPU"
    if not gpus and not tried.get("available"):
        if torch["cuda"] is None and torch["hip"] is None:
            yield fine(name, "torch is built for the CPU, and there is no GPU here")
        return
    driver, cuda = (gpu or {}).get("driver"), (gpu or {}).get("cuda")
    data = {"torch_cuda": torch["cuda"], "driver_cuda": cuda, "driver": driver, "architectures": torch["architectures"]}
    speaks = f"driver {driver} supports CUDA {cuda[0]}.{cuda[1]}" if driver and cuda else ""
    how = {tuple(g["capability"]): code_for(torch["architectures"], g["capability"]) for g in gpus if torch["architectures"]}
    without = [c for c, code in how.items() if code == "none"]
    compiled = [c for c, code in how.items() if code == "ptx"]
    why = failure(tried)
    if torch["cuda"] is None and torch["hip"] is None:
        text = f"this torch is built for the CPU only and leaves {count(len(gpus), 'GPU')} idle"
        yield broken(name, text, "Install a build with CUDA: see pytorch.org, Get started.", **data)
    elif without:
        cards = ", ".join(f"{architecture(c)[0]} (sm_{c[0]}{c[1]})" for c in without)
        text = f"this torch has no code for {cards}; it has {', '.join(torch['architectures'])}"
        mend = "Install a torch built for that architecture: with an older CUDA for old cards, a newer torch for new ones."
        yield broken(name, text, mend, **data)
    elif tried.get("available") is False:
        yield broken(name, *unseen(torch, len(gpus), cuda, speaks, env), **data)
    elif why and "out of memory" in why:
        yield note(name, "the first GPU has no free memory for a test: another program uses it", "See `nvidia-smi`.", **data)
    elif why and "slow" in tried:
        text = f"the first computation on the GPU took more than {tried['slow']:g} s"
        yield note(name, text, "Run the doctor again; if it stays so, restart the machine.", **data)
    elif why:
        mend = f"torch is built with CUDA {torch['cuda']}, {speaks}: install a torch that fits, or restart the machine."
        yield broken(name, f"a first computation on the GPU failed: {why}", mend, **data)
    elif compiled:
        text = f"torch recompiles its kernels for sm_{compiled[0][0]}{compiled[0][1]}: the first start takes minutes"
        yield note(name, text, "Install a torch built for this card.", **data)
    else:
        fits = f"built with CUDA {torch['cuda']}, {speaks}" if torch["cuda"] and speaks else "fit"
        if torch["cuda"] and cuda and numbers(torch["cuda"]) > tuple(cuda):
            fits += " (older, but of the same major version: enough)"
        yield fine(name, f"{fits}; a first product of matrices on the GPU is right", **data)
    seen = tried.get("count")
    if seen and gpus and seen != len(gpus) and not any(g["mig"] for g in gpus):
        chosen = f" (CUDA_VISIBLE_DEVICES={env['CUDA_VISIBLE_DEVICES']})" if env.get("CUDA_VISIBLE_DEVICES") else ""
        yield note(name, f"torch sees {seen} of {count(len(gpus), 'GPU')}{chosen}", seen=seen)


def unseen(torch: dict, gpus: int, cuda: tuple[int, int] | None, speaks: str, env: dict) -> tuple[str, str]:
    """Why torch sees no GPU where the driver does, and what to do."""
    if "CUDA_VISIBLE_DEVICES" in env and env["CUDA_VISIBLE_DEVICES"].strip() in HIDDEN:
        return (
            "torch sees no GPU, because CUDA_VISIBLE_DEVICES is empty",
            "unset CUDA_VISIBLE_DEVICES (for a notebook: where its server was started).",
        )
    if torch["cuda"] and cuda and not cuda_fits(torch["cuda"], cuda):
        least = DRIVERS.get(int(torch["cuda"].split(".")[0]))
        needs = f"driver {least} or later" if least else "a newer driver"
        return (
            f"torch is built with CUDA {torch['cuda']}, which needs {needs}; {speaks}",
            f"Install a torch built with CUDA {cuda[0]}, or a newer driver.",
        )
    return (
        f"torch sees no GPU, the driver sees {gpus}",
        "Look at what this says: python -c \"import torch; torch.zeros(1, device='cuda')\"",
    )


def say_distributed(dist: dict | None, gloo: dict | None, gpu: dict | None) -> Iterator[Finding]:
    if not dist or failure(dist):
        if dist and "slow" not in dist:
            yield broken(
                "Processes",
                f"torch.distributed fails: {failure(dist)}",
                f"Reinstall torch: {pip()} install --force-reinstall torch",
            )
        return
    gpus = (gpu or {}).get("gpus") or []
    if dist.get("nccl"):
        yield fine("NCCL", f"{dist.get('nccl_version', 'there')}: exchanges between GPUs", version=dist.get("nccl_version"))
    elif gpus:
        yield broken(
            "NCCL", "this torch has none: several GPUs can't train together", "Install a torch with CUDA from pytorch.org."
        )
    why = failure(gloo)
    if not dist.get("gloo"):
        yield broken(
            "gloo",
            "this torch has none: several processes can't train together on the CPU",
            "Install torch from pytorch.org.",
        )
    elif why is None:
        yield fine("gloo", "works: exchanges between processes on the CPU")
    elif gloo and "slow" in gloo:
        yield broken("gloo", f"a group of one process did not come up in {gloo['slow']:g} s", HOSTNAME)
    else:
        yield broken("gloo", f"a group of one process fails: {why}", HOSTNAME)


HOSTNAME = (
    "Often the machine's own name doesn't resolve: add it to /etc/hosts, or set GLOO_SOCKET_IFNAME=lo for runs on this machine."
)
