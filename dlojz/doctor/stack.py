"""What a run leans on beside machine and torch: site, Slurm, workspace, data, ports, environment variables."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..system import paths, sites, workspace
from ..system.errors import UsageError
from ..system.look import CouldNotLook, System, count
from .report import Finding, broken, fine, note

# ---------------------------------------------------------------- site


def look_site() -> dict:
    """The site in use and why, its sizes and its data folder; ``error`` where the choice or its file is wrong."""
    facts: dict = {"error": None, "data": None}
    try:
        chosen, facts["why"] = sites.choose()
        site, size = sites.load(chosen), sites.sizes()
    except UsageError as error:
        return {**facts, "error": str(error)}
    facts.update(
        name=site.name,
        launcher=site.launcher,
        scale=size.scale,
        model=size.model,
        image_size=size.image_size,
        batch_size=size.batch_size,
        workers=size.num_workers,
    )
    folder = site.folder("data")
    if folder is not None:
        facts["data"] = {"folder": str(folder), "there": folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)}
    elif site.data:
        facts["data"] = {"folder": site.data, "there": False}
    return facts


def say_site(site: dict, has_slurm: bool) -> Iterator[Finding]:
    if site["error"]:
        yield broken("Site", site["error"], "Fix DLOJZ_SITE, the line `site` in workspace.toml, or the site's file.")
        return
    where = {"local": "this machine's own queue", "slurm": "Slurm", "replay": "recorded runs"}[site["launcher"]]
    sizes = f"{site['model']}, {site['image_size']} px, batches of {site['batch_size']}"
    text = f"{site['name']} ({site['why']}): jobs go to {where}; by default {sizes}"
    if site["launcher"] == "slurm" and not has_slurm:
        yield broken(
            "Site",
            f"{text}; but there is no sbatch command here",
            "Log in to the cluster, or choose another site: export DLOJZ_SITE=laptop.",
            **site,
        )
    else:
        yield fine("Site", text, **site)
    if site["data"]:
        folder = site["data"]["folder"]
        if site["data"]["there"]:
            yield fine("Site's data", folder, **site["data"])
        else:
            why = "a variable in it is not set here" if "$" in folder else "not there, or not readable for you"
            yield note(
                "Site's data",
                f"{folder}: {why}",
                "Labs use the kit's own photos instead; the site file's `data` names the folder.",
                **site["data"],
            )


# ---------------------------------------------------------------- Slurm


def look_slurm(system: System) -> dict | None:
    """``{"version": …, "partitions": those that take jobs, the default first}``; None where there is no Slurm.

    ``error`` says why it did not answer, ``job`` is the one that we are in.
    """
    if not system.which("sbatch"):
        return None
    facts: dict = {"version": None, "partitions": [], "error": None, "job": system.env.get("SLURM_JOB_ID")}
    try:
        facts["version"] = system.run(["sbatch", "--version"], 4).stdout.strip().removeprefix("slurm ") or None
        answer = system.run(list(sites.SINFO), 5)
        if answer.returncode:
            facts["error"] = last_line(answer.stderr) or f"sinfo ended with {answer.returncode}"
        facts["partitions"] = [
            {"name": p.name, "gpus": p.gpus_per_node, "seconds": p.max_time}
            for p in sites.parse_sinfo(answer.stdout).values()
        ]
    except CouldNotLook as error:
        facts["error"] = str(error)
    return facts


def look_queue(system: System) -> dict | None:
    """``{"mine": {"RUNNING": 1}}``: this account's jobs by state."""
    if not system.which("squeue"):
        return None
    answer = system.run(["squeue", "--me", "-h", "-o", "%T"], 5)
    if answer.returncode:
        raise CouldNotLook(last_line(answer.stderr) or "squeue failed")
    states = answer.stdout.split()
    return {"mine": {state: states.count(state) for state in dict.fromkeys(states)}}


def look_own_queue() -> dict:
    """``{"folder", "error"}``: where this machine's own queue keeps its jobs, and why that cannot be written (None: it can)."""
    from ..jobs.queue import default_folder

    folder = default_folder()
    return {"folder": str(folder), "error": folder_error(folder)}


def say_own_queue(queue: dict) -> Iterator[Finding]:
    if queue["error"]:
        yield broken(
            "Queue",
            f"no job can be submitted: the queue's folder {queue['folder']} cannot be written: {queue['error']}",
            "export DLOJZ_QUEUE=FOLDER with a folder that you may write to, alike in all terminals and notebooks "
            "(for these: before JupyterLab starts).",
            **queue,
        )
    else:
        yield fine("Queue", f"its jobs are in {queue['folder']}, which can be written", **queue)


def look_accounts(system: System) -> list[dict] | None:
    """The accounts that this user may charge: ``[{"account", "partition", "qos"}]``; None where there is no Slurm."""
    if not system.which("sacctmgr"):
        return None
    user = pwd.getpwuid(os.getuid()).pw_name
    answer = system.run(["sacctmgr", "-nP", "show", "assoc", f"user={user}", "format=account,partition,qos"], 5)
    if answer.returncode:
        raise CouldNotLook(last_line(answer.stderr) or "sacctmgr failed")
    rows = [line.split("|") for line in answer.stdout.splitlines() if line.count("|") == 2]
    return [{"account": a, "partition": p, "qos": q.split(",") if q else []} for a, p, q in rows]


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def say_slurm(slurm: dict | None, used: bool = True) -> Iterator[Finding]:
    """``used``: the site sends jobs to Slurm. Where it doesn't, commands that were left behind break nothing."""
    if slurm is None:
        yield fine("Slurm", "none here: jobs go through this machine's own queue")
        return
    if slurm["error"] and not used:
        yield note("Slurm", f"its commands are installed but nothing answers: {slurm['error']}",
                   "Nothing, unless this machine should be a cluster's: this site has a queue of its own.", **slurm)
        return
    if slurm["error"]:
        yield broken(
            "Slurm",
            f"installed, but it does not answer: {slurm['error']}",
            "Try `sinfo`. If it stays so, ask whoever runs the cluster; jobs already submitted keep running; "
            f"{sites.own_queue()}.",
            **slurm,
        )
        return
    shown = "; ".join(_partition(p) for p in slurm["partitions"])
    if not shown:
        yield broken(
            "Slurm", f"{slurm['version']} answers, but no partition takes jobs", "Ask whoever runs the cluster.", **slurm
        )
    else:
        yield fine("Slurm", f"{slurm['version']} answers: {shown}", **slurm)
    if slurm["job"]:
        yield note(
            "This session",
            f"is itself Slurm job {slurm['job']}: a bare srun here would run inside it; `submit` starts jobs of their own",
            job=slurm["job"],
        )


def _partition(partition: dict) -> str:
    gpus = f"{count(partition['gpus'], 'GPU')} per node" if partition["gpus"] else "no GPU"
    most = f", at most {sites.duration(partition['seconds'])}" if partition["seconds"] else ""
    return f"{partition['name']} ({gpus}{most})"


def say_queue(queue: dict | None) -> Iterator[Finding]:
    if queue is not None:
        mine = ", ".join(f"{number} {state.lower()}" for state, number in queue["mine"].items())
        yield fine("Your jobs", mine or "none in Slurm's queue", **queue)


def say_accounts(accounts: list[dict] | None, needed: bool) -> Iterator[Finding]:
    """``needed``: Slurm answers, so that jobs would be charged to one."""
    if accounts is None or not needed:
        return
    names = list(dict.fromkeys(a["account"] for a in accounts))
    if not names:
        yield note(
            "Accounts",
            "Slurm's accounting knows no account of yours",
            "If jobs are refused for it, ask for one; else the cluster does without.",
            accounts=[],
        )
    else:
        qos = sorted({q for a in accounts for q in a["qos"]})
        yield fine("Accounts", f"{', '.join(names)}" + (f"; QoS {', '.join(qos)}" if qos else ""), accounts=accounts)


# ---------------------------------------------------------------- workspace


def look_workspace() -> dict:
    """``{"folder": Path | None, "why": …, "runs": …, "writable": {folder: None or the error}, "shadows": [files]}``"""
    try:
        Path.cwd()
        folder = workspace.find()
    except UsageError as error:
        mend = "Or unset DLOJZ_WORKSPACE." if os.environ.get("DLOJZ_WORKSPACE") else ""
        return {"folder": None, "why": str(error), "mend": mend}
    except FileNotFoundError:
        return {"folder": None, "why": "the current folder was deleted", "mend": "cd to a folder that is there."}
    runs = folder / "runs"
    tried = {str(place): write_error(place) for place in (folder, runs) if place.exists()}
    runs_count = sum(1 for child in runs.iterdir() if child.is_dir()) if runs.is_dir() else None
    return {"folder": folder, "runs": runs_count, "writable": tried, "shadows": shadows(folder)}


def write_error(folder: Path) -> str | None:
    """None where a file can be made, written and removed in ``folder``; else why not."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return None


def shadows(folder: Path) -> list[str]:
    """Files of the workspace that python would import in place of a module it needs: ``random.py``, ``torch.py``."""
    needed = set(sys.stdlib_module_names) | {"torch", "torchvision", "numpy", "PIL", "matplotlib", "dlojz", "pynvml"}
    return sorted(file.name for file in folder.glob("*.py") if file.stem in needed)


def say_workspace(facts: dict) -> Iterator[Finding]:
    folder = facts["folder"]
    if folder is None:
        if facts["mend"]:
            yield broken("Workspace", facts["why"], facts["mend"])
        else:
            yield note(
                "Workspace",
                facts["why"].partition(":")[0],
                "`dlojz workspace DIR` makes one; start notebooks and jobs inside it.",
            )
        return
    data = {"folder": str(folder), "runs": facts["runs"]}
    failed = {place: why for place, why in facts["writable"].items() if why}
    for place, why in failed.items():
        yield broken(
            "Workspace",
            f"{place} cannot be written: {why}",
            "Check who owns it (`ls -ld`) and your quota, or make another workspace.",
            **data,
        )
    if facts["runs"] is None:
        yield broken("Workspace", f"{folder} has no folder runs/", f"`dlojz workspace {folder}` completes it.", **data)
    elif not failed:
        yield fine("Workspace", f"{folder}, {count(facts['runs'], 'run')}; it can be written", **data)
    for name in facts["shadows"]:
        yield broken(
            "Workspace",
            f"{name} hides python's own module `{Path(name).stem}` from every script there",
            f"Rename {name}.",
            file=name,
        )


# ---------------------------------------------------------------- data


def look_data() -> dict:
    from ..data import photos

    folder = photos.place()
    return {"folder": str(folder), "there": (folder / photos.MANIFEST).is_file(), "cache_error": folder_error(paths.cache())}


def folder_error(folder: Path) -> str | None:
    """Why files could not be written there, or the folder not be made; None where they could. Makes nothing that stays."""
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
    except OSError as error:  # a folder above it that may not be entered
        return error.strerror or str(error)
    return write_error(folder)


def say_data(facts: dict) -> Iterator[Finding]:
    if facts["there"]:
        yield fine("Photos", f"the embedded photo set is in {facts['folder']}", **facts)
    elif facts["cache_error"]:
        yield broken(
            "Photos",
            f"not made yet, and {facts['folder']} cannot be written: {facts['cache_error']}",
            "Set DLOJZ_CACHE to a folder with 300 MB of room.",
            **facts,
        )
    else:
        yield fine("Photos", f"not made yet: the first run draws them into {facts['folder']}", **facts)


# ---------------------------------------------------------------- ports

FIRST, LAST = 10000, 29999  # where jobs take MASTER_PORT from


def look_ports(system: System, tries: int = 40) -> dict:
    """Whether 127.0.0.1 takes a listener, how many of ``tries`` ports of the jobs' range are taken, what the own name means."""
    taken = 0
    for port in random.sample(range(FIRST, LAST + 1), tries):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except PermissionError as error:
                raise CouldNotLook(f"no listener may be opened on 127.0.0.1: {error.strerror}") from None
            except OSError as error:
                if error.errno != 98 and error.errno != 48:  # EADDRINUSE on Linux, on macOS
                    return {"error": error.strerror, "taken": None, "tries": tries, "ephemeral": None}
                taken += 1
    ephemeral = (system.read("proc/sys/net/ipv4/ip_local_port_range") or "").split()
    return {
        "error": None,
        "taken": taken,
        "tries": tries,
        "ephemeral": int(ephemeral[0]) if ephemeral and ephemeral[0].isdigit() else None,
    }


def say_ports(facts: dict) -> Iterator[Finding]:
    if facts["error"]:
        yield broken(
            "Ports",
            f"cannot listen on 127.0.0.1: {facts['error']}",
            "Processes of one job meet there: the loopback interface must be up (`ip link set lo up`).",
            **facts,
        )
    elif facts["taken"] > facts["tries"] // 2:
        yield broken(
            "Ports",
            f"{facts['taken']} of {facts['tries']} ports tried between {FIRST} and {LAST} are taken: jobs will collide",
            "See what listens: `ss -ltnp`.",
            **facts,
        )
    elif facts["ephemeral"] is not None and facts["ephemeral"] <= LAST:
        yield note(
            "Ports",
            f"free on 127.0.0.1, but the system assigns ports from {facts['ephemeral']} upwards, so a job's port "
            f"({FIRST}-{LAST}) is sometimes taken",
            'Submit again if a job says "address already in use".',
            **facts,
        )
    else:
        yield fine("Ports", f"free on 127.0.0.1 between {FIRST} and {LAST}, where jobs meet", **facts)


# ---------------------------------------------------------------- disks


def disk_folders() -> dict[str, Path]:
    """The folders whose disks matter, by their use."""
    folders = {"the kit's cache": paths.cache(), "temporary files": Path(tempfile.gettempdir())}
    try:
        return {"work": workspace.find(), **folders}
    except UsageError:
        with contextlib.suppress(OSError):  # the current folder was deleted: see look_workspace
            folders = {"work": Path.cwd(), **folders}
        return folders
