"""The three functions of IDRIS's ``idr_pytools``, for notebooks written for Jean Zay; they work wherever `dlojz.submit` does.

    from dlojz.compat.idr_pytools import gpu_jobs_submitter, display_slurm_queue, search_log

    jobid = gpu_jobs_submitter("train.py -b 128", 1, "pytorch-gpu/py3/2.8.0", name="ada", account="abc@v100")   # ['1493206']
    display_slurm_queue("ada")                                  # comes back when the queue is empty
    print(open(search_log(contains=jobid[0])[0]).read())

What differs: scripts and logs are those of the workspace's ``runs/``, not of ``slurm/``; the site in use fills in what is left
out; jobs go through `dlojz.jobs`, so that ``jobs["ada"]`` and ``jobs.watch()`` know them too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from ..jobs import Job, jobs, script, submission
from ..jobs.watch import EVERY, Watched, final_text
from ..system import sites, workspace
from ..system.errors import UsageError
from ..system.shown import say
from ..ui.waiting import Sleeper

# Partitions of Jean Zay that are chosen by name alone: GPUs a node, cores a GPU
BY_NAME = {"gpu_p2": (8, 3), "gpu_p2s": (8, 3), "gpu_p2l": (8, 3), "gpu_p4": (8, 6)}


def gpu_jobs_submitter(
    srun_commands: str | Sequence[str],
    n_gpu: int | Sequence[int] = 1,
    module: str | None = None,
    singularity: str | None = None,
    name: str | None = None,
    n_gpu_per_task: int = 1,
    time_max: str = "02:00:00",
    qos: str | None = None,
    partition: str | None = None,
    constraint: str | None = None,
    cpus_per_task: int | None = None,
    exclusive: bool = False,
    account: str | None = None,
    verbose: int = 0,
    email: str | None = None,
    slurm_addon: str | None = None,
    script_addon: str | None = None,
) -> list[str]:
    """Submit a job for each command and each number of GPUs; returns the job ids, as texts, in that order (GPUs outermost).

    ``srun_commands`` are like ``"train.py -b 128"``, with or without ``python`` before them. ``module`` takes the place of the
    site's own modules where there are any, and is left out where there are none. An account ``abc@a100`` also chooses the
    partition. ``slurm_addon`` may hold lines ``#SBATCH --option=value``, ``script_addon`` lines ``export NAME=value`` and
    ``unset NAME``. Each call submits anew. A job that the queue refuses is said, and left out of the list.

    Raises UsageError, before anything is submitted, where an argument cannot work.
    """
    if singularity:
        raise UsageError("singularity: containers are not supported here; leave it out, or use `module`")
    commands = [srun_commands] if isinstance(srun_commands, str) else list(srun_commands)
    counts = [n_gpu] if isinstance(n_gpu, int) else list(n_gpu)
    here, site = workspace.find(), sites.current()
    options = {"time": time_max, "qos": qos or "", "account": account or "", "constraint": constraint or ""}
    options["partition"] = partition or _kind_of(site, account, constraint)
    extra = _directives(exclusive, email, slurm_addon)
    changes = _variables(script_addon)
    if verbose:
        changes |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL"}
    wanted = []
    for gpus in counts:
        for text in commands:
            command = script.checked_command(_without_flags(text), here, Path.cwd(), find_modules=False)
            asked = _request(site, command, gpus, n_gpu_per_task, cpus_per_task, name=name, **options)
            asked = dataclasses.replace(asked, directives=asked.directives + extra, modules=_modules(site, asked.modules, module))
            wanted.append((command, asked))
    ids = []
    with _environment(changes):
        for command, asked in wanted:
            try:
                (job,) = submission.start([asked], here, *submission.contents(site, [asked], [command]))
            except UsageError as error:
                say(f"not submitted: {error}")
                continue
            say(f"{job.run}: {_share(asked)}\nSubmitted batch job {job.id}")
            ids.append(job.id)
    return ids


def _request(site, command, gpus, per_task, cores, **options):
    """What one job asks for; several GPUs for a process are divided out at the end, because the kit itself gives each its own."""
    a_node, cores_a_gpu = BY_NAME.get(options["partition"], (0, None))
    nodes = None
    if a_node and gpus > a_node:
        if gpus % a_node:
            raise UsageError(f"n_gpu={gpus}: more than a node's {a_node} GPUs must be a multiple of {a_node}")
        nodes = gpus // a_node
    devices = len(sites.gpus()) if site.launcher == "local" else 0
    asked = script.request(site, command, gpus=gpus, nodes=nodes, cores=cores or cores_a_gpu, devices=devices, **options)
    if per_task == 1 or not asked.gpus:
        return asked
    if not isinstance(per_task, int) or per_task < 1 or (asked.gpus // asked.nodes) % per_task:
        raise UsageError(f"n_gpu_per_task={per_task!r}: cannot split the {asked.gpus // asked.nodes} GPUs of a node that way")
    return dataclasses.replace(asked, processes=asked.gpus // per_task, cores=asked.cores if cores else asked.cores * per_task)


def _share(asked) -> str:
    counted = [(asked.gpus, "GPU"), (asked.nodes, "node"), (asked.processes // asked.nodes, "task"), (asked.cores, "core")]
    gpus, nodes, tasks, cores = (f"{number} {word}{'s' * (number != 1)}" for number, word in counted)
    each = f" with {cores} each" if asked.cores else ""
    return f"{gpus} on {nodes}, {tasks} a node{each}, at most {sites.duration(asked.seconds)}"


def _kind_of(site: sites.Site, account: str | None, constraint: str | None) -> str:
    """The site's kind of nodes that the account belongs to (``abc@a100``); empty where it says none."""
    suffix = (account or "").rpartition("@")[2] if "@" in (account or "") else ""
    return suffix if suffix in site.partitions and constraint not in site.partitions else ""


def _modules(site: sites.Site, filled_in: tuple[str, ...], module: str | None) -> tuple[str, ...]:
    if not module:
        return filled_in
    if not re.fullmatch(r"[\w./+@-]+( +[\w./+@-]+)*", module):
        raise UsageError(f"module={module!r}: say the name of a module, such as 'pytorch-gpu/py3/2.8.0'")
    there = site.modules or (site.launcher == "slurm" and any(word in os.environ for word in ("LMOD_CMD", "MODULESHOME")))
    if not there:
        return filled_in
    return (*(one for one in filled_in if one not in site.modules), *module.split())


def _without_flags(text: str) -> str:
    """``python -u train.py`` without ``-u``: the kit's jobs never hold their output back."""
    return re.sub(r"^\s*python(3(\.\d+)?)?(\s+-u)+\s+", "", text) if isinstance(text, str) else text


def _directives(exclusive: bool, email: str | None, addon: str | None) -> tuple[str, ...]:
    found = ["--exclusive"] if exclusive else []
    if email:
        found += [f"--mail-user={email}", "--mail-type=END,FAIL"]
    for line in filter(None, map(str.strip, (addon or "").splitlines())):
        if not line.startswith("#SBATCH "):
            raise UsageError(f"slurm_addon: {line!r} is not a line of sbatch; write lines such as '#SBATCH --reservation=course'")
        found.append(line.removeprefix("#SBATCH ").strip())
    for option in found:
        if not re.fullmatch(r"--[a-z][\w-]*(=[^\s'\"`;$\\]+)?", option):
            raise UsageError(f"{option!r} is not an option for a job: write --option=value, without blanks or quotes")
    return tuple(found)


def _variables(addon: str | None) -> dict[str, str | None]:
    """Environment variables from lines of shell: a value, or None for one that is to be taken out."""
    found: dict[str, str | None] = {}
    for line in filter(None, map(str.strip, (addon or "").splitlines())):
        try:
            verb, *words = shlex.split(line, comments=True) or [""]
        except ValueError:
            verb, words = "?", []
        pairs = [word.partition("=") for word in words]
        plain = all(name.isidentifier() and equals and "$" not in value for name, equals, value in pairs)
        if verb == "export" and pairs and plain:
            found |= {name: value for name, _, value in pairs}
        elif verb == "unset" and words and all(word.isidentifier() for word in words):
            found |= dict.fromkeys(words)
        elif verb:
            raise UsageError(f"script_addon: {line!r} can't be taken over, only 'export NAME=value' and 'unset NAME' can")
    return found


@contextlib.contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change variables while jobs are submitted: a job starts with the environment of its submission."""
    before = {name: os.environ.get(name) for name in changes}
    try:
        _set(changes)
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# ---------------------------------------------------------------- the queue


def display_slurm_queue(name: str | None = None, timestep: float = 5) -> None:
    """Show the workspace's jobs that wait or run (those called ``name``) every ``timestep`` seconds, until none does.

    Stopping the cell ends the display and leaves the jobs alone.
    """
    show, sleep = _display(), Sleeper()
    try:
        while active := [job for job in jobs if job.status.active and name in (None, job.name)]:
            watched = Watched(active)
            rows = watched.look()
            while any(row.active for row in rows):
                show(final_text([row for row in rows if row.active]))
                sleep(max(EVERY, timestep))
                rows = watched.look()
            show(final_text(rows))
        say("\n Done!")
    except KeyboardInterrupt:
        say("Stopped; the jobs keep running")


def _display():
    """A function that shows a text in place of the one before: in a notebook; elsewhere below it, when it is another one."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import clear_output

        def show(text):
            clear_output(wait=True)
            say(text)
    else:
        last = [""]

        def show(text):
            if text != last[0]:
                say(text)
            last[0] = text

    return show


# ---------------------------------------------------------------- logs


def search_log(name: str = "*", contains: str = "", with_err: bool = False) -> list[str] | dict[str, list[str]]:
    """The paths of the workspace's logs, oldest first; with ``with_err`` those of both: ``{"stdout": […], "stderr": […]}``.

    ``name`` filters by the jobs' name, ``contains`` is a job id, or a part of ``JZ_<id>_<n>nodes_<n>tasks_<date>`` with the date
    as ``2026-01-31_14.05.59``; both may hold ``*``. A job that has not begun has no log yet.
    """
    found = [job for job in jobs if fnmatch.fnmatchcase(job.name, name)]
    exact = [job for job in found if job.id and job.id == str(contains)]
    if not exact:
        pattern = f"*{str(contains).replace(':', '.')}*"
        found = [job for job in found if fnmatch.fnmatchcase(_label(job), pattern)]
    logs = {"stdout": _paths(exact or found, "out.log"), "stderr": _paths(exact or found, "err.log")}
    return logs if with_err else logs["stdout"]


def _label(job: Job) -> str:
    """What the name of a log says at IDRIS after the job's own name."""
    when = datetime.fromtimestamp(job.submitted or 0).strftime("%Y-%m-%d_%H.%M.%S")
    return f"JZ_{job.id}_{job.request.nodes}nodes_{job.request.processes // job.request.nodes}tasks_{when}"


def _paths(found: Sequence[Job], log: str) -> list[str]:
    """Those that are there, relative to the current folder where they lie in it: `%cat` takes no blanks in a path."""
    files = [job.folder / log for job in found]
    here = Path.cwd()
    return [str(file.relative_to(here) if file.is_relative_to(here) else file) for file in files if file.exists()]
