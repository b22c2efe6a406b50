"""``dlojz doctor``: what this machine, its software and its surroundings mean for a run, in plain lines.

    from dlojz import doctor
    report = doctor()          # prints as text, shows as a table in a notebook
    report.broken              # the findings that need mending; .notes, .findings

Every look is taken apart from the others, with a time limit; torch is imported in a child process. Nothing is changed on the
machine: a few small files are written to try disks, and removed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

from .. import __version__
from ..system import inductor, shown
from ..system.hardware import loader_needs, look_cores, look_cpu, look_memory, look_shm, usable
from ..system.look import CouldNotLook, Facts, System, count, one_line
from . import environment, gpu, hardware, jupyter, network, packages, pytorch, stack
from .report import Finding, Report, note

__all__ = ["Finding", "Report", "doctor"]


def doctor(warm: bool = False) -> Report:
    """Look at everything and say what is fine, what is worth knowing, and what is broken and how to mend it. Takes some 5 s.

    ``warm``: let torch.compile do its slow first use now, which takes a minute or so.
    """
    if warm:
        shown.say(inductor.warm(), file=sys.stderr)
    started = time.monotonic()
    facts = look(System())
    findings = list(findings_of(facts, dict(os.environ)))
    return Report(findings, time.monotonic() - started, __version__)


def look(system: System) -> Facts:
    """Start all looks at once; the slowest, torch, first."""
    looks = {
        "torch": lambda: pytorch.look_torch(system),
        "cpu": lambda: look_cpu(system),
        "cores": lambda: look_cores(system),
        "memory": lambda: look_memory(system),
        "shm": lambda: look_shm(system),
        "limits": lambda: hardware.look_limits(system),
        "gpu": lambda: gpu.look_gpus(system),
        "packages": packages.look_packages,
        "optuna": packages.look_optuna,
        "compiler": lambda: packages.look_compiler(system),
        "jupyter": lambda: jupyter.look_jupyter(system),
        "kernel": lambda: jupyter.look_kernel(system),
        "network": lambda: network.look_network(system),
        "slurm": lambda: stack.look_slurm(system),
        "queue": lambda: stack.look_queue(system),
        "own queue": stack.look_own_queue,
        "accounts": lambda: stack.look_accounts(system),
        "workspace": stack.look_workspace,
        "data": stack.look_data,
        "ports": lambda: stack.look_ports(system),
        "site": stack.look_site,
    }
    for use, path in stack.disk_folders().items():
        looks[f"disk {use}"] = lambda path=path: hardware.look_disk(system, path)
    return Facts(looks, {"torch": pytorch.TORCH_LIMIT + 2})


def findings_of(facts: Facts, env: dict[str, str]) -> Iterator[Finding]:
    """All findings, in the order they are shown."""
    gpus = facts.get("gpu") or {}
    cores = usable(facts["cores"]) if facts.get("cores") else None
    slurm = facts.get("slurm")
    has_slurm = bool(slurm)
    answers = has_slurm and not slurm["error"]
    launcher = (facts.get("site") or {}).get("launcher")
    is_local, uses_slurm = launcher == "local", launcher not in ("local", "replay")
    topics: dict[str, list[tuple[str, Callable[[], Iterator[Finding]]]]] = {
        "Your system": [
            ("CPU", lambda: hardware.say_cpu(facts["cpu"])),
            ("Cores", lambda: hardware.say_cores(facts["cores"], facts.get("site"))),
            ("Memory", lambda: hardware.say_memory(facts["memory"])),
            ("/dev/shm", lambda: say_shm(facts, cores, len(gpus.get("gpus", [])))),
            ("Disk", lambda: hardware.say_disks(stack.disk_folders(), lambda use: facts[f"disk {use}"])),
            ("Limits", lambda: hardware.say_limits(facts["limits"])),
            ("GPU", lambda: gpu.say_gpus(facts["gpu"], has_slurm and uses_slurm)),
        ],
        "Your software": [
            ("Python", lambda: packages.say_python(conda=env.get("CONDA_DEFAULT_ENV"))),
            ("Packages", lambda: packages.say_packages(facts["packages"])),
            ("torch", lambda: pytorch.say_torch(facts["torch"], facts.get("gpu"), cores, env)),
            ("torch.compile", lambda: packages.say_compiler(facts["compiler"], bool(gpus.get("gpus")))),
            ("Optuna", lambda: packages.say_optuna(facts["optuna"])),
            ("Widgets", lambda: jupyter.say_jupyter(facts["jupyter"])),
            ("Kernel", lambda: jupyter.say_kernel(facts["kernel"])),
        ],
        "Your stack": [
            ("Site", lambda: stack.say_site(facts["site"], has_slurm)),
            ("Slurm", lambda: stack.say_slurm(facts["slurm"], uses_slurm)),
            ("Queue", lambda: stack.say_own_queue(facts["own queue"]) if is_local else ()),
            ("Your jobs", lambda: stack.say_queue(facts["queue"] if slurm and not slurm["error"] else None)),
            (
                "Accounts",
                lambda: stack.say_accounts(facts["accounts"] if answers else None, answers),
            ),
            ("Workspace", lambda: stack.say_workspace(facts["workspace"])),
            ("Photos", lambda: stack.say_data(facts["data"])),
            ("Ports", lambda: stack.say_ports(facts["ports"])),
            ("Network", lambda: network.say_network(facts["network"], has_slurm and uses_slurm)),
            ("Environment", lambda: environment.say_environment(env, cores, len(gpus.get("gpus", [])))),
        ],
    }
    for topic, lines in topics.items():
        for name, say in lines:
            for finding in guarded(name, say):
                finding.topic = topic
                yield finding


def guarded(name: str, say: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What ``say`` yields; a look that failed, or an error of our own, becomes a line like the others."""
    found = []
    try:
        for finding in say():
            found.append(finding)
    except CouldNotLook as error:
        found.append(note(name, f"could not look: {error}"))
    except Exception as error:
        found.append(note(name, f"could not look: {one_line(error)}"))
    return found


def say_shm(facts: Facts, cores: int | None, gpus: int) -> Iterator[Finding]:
    """The default loader's need: the site's sizes; the training processes of one machine share its cores for their workers."""
    site, ranks = facts["site"], max(1, gpus)
    if site["error"]:
        raise CouldNotLook("the site's sizes are not known")
    workers = min(site["workers"] * ranks, max(cores or 1, ranks)) if site["workers"] else 0
    loader = f"{count(workers, 'worker')} x 2 batches of {site['batch_size']} images of {site['image_size']} px"
    yield from hardware.say_shm(
        facts["shm"], loader_needs(workers, 2, site["batch_size"], site["image_size"]), loader
    )
