"""`submit`: from a command to a job in the queue."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..system import locks, processes, sites, workspace
from ..system.errors import UsageError
from ..system.shown import say
from . import replay, script
from .job import NEVER_QUEUED, Group, Job, being_submitted, launcher, load, refresh
from .queue import default_folder
from .states import Request, Unreachable, update, write_json

FACTS = ("launcher", "site", "scale", "python", "key", "script")  # of a job.json, beside what was asked for


def submit(command: str | Sequence[str], name: str | None = None, gpus: int | None = None, nodes: int | None = None,
           time: int | str | None = None, *, site: str | None = None, account: str = "", partition: str = "", qos: str = "",
           constraint: str = "", cores: int | None = None, processes: int | None = None, again: bool = False,
           dry_run: bool = False, wait: bool = False) -> Job | Group | None:
    """Queue a training script and return at once; a list of commands is a sweep and gives a `Group`.

    The same name, command, resources and script content give back the job that is there (``job.found``), unless it was cancelled
    before it ran; ``again=True`` runs anew. ``command`` is ``"train.py --amp bf16"`` or ``"-m package.module ARGS"``. ``gpus``
    counts over all ``nodes``; one process drives one GPU. Where the machine has none, as many processes share its cores.
    ``processes`` asks for several processes without GPUs. ``time`` is the limit: minutes, or "2:00:00". What is left out is the
    site's choice.

    ``dry_run=True`` prints the job script, explained, and queues nothing. ``wait=True`` returns when the job has ended.
    Raises UsageError.
    """
    several = isinstance(command, (list, tuple))
    order = ask(command, name, gpus, nodes, time, site=site, account=account, partition=partition, qos=qos, constraint=constraint,
                cores=cores, processes=processes)
    if not site:
        _say_what_is_new(order.site, order.here / "runs")
    if dry_run:
        for one, request, known in zip(order.commands, order.requests, order.facts):
            folder = order.here / "runs" / f"{request.name}-NNN"
            say(script.explain(request, folder, **_text_facts(known, one.script)))
        return None
    jobs = start(order.requests, order.here, *order.facts, again=again)
    if any(job.found for job in jobs):
        found = ", ".join(job.run for job in jobs if job.found)
        states = ", ".join(sorted({job.status.state for job in jobs}))
        say(f"{found} already exists ({states}), so nothing was started; again=True (--again in a shell) runs it again")
    result = Group(jobs) if several else jobs[0]
    return result.wait() if wait else result


@dataclass(frozen=True)
class Order:
    """What a submission asks for: in which workspace, of which site, and the facts for each job.json."""

    here: Path
    site: sites.Site
    commands: list[script.Command]
    requests: list[Request]
    facts: list[dict]


def ask(command: str | Sequence[str], name: str | None = None, gpus: int | None = None, nodes: int | None = None,
        time: int | str | None = None, *, site: str | None = None, cores: int | None = None, processes: int | None = None,
        **of_slurm: str) -> Order:
    """What `submit` with these arguments would queue. Raises UsageError."""
    here = workspace.find()
    chosen = sites.load(site) if site else sites.current()
    commands = list(command) if isinstance(command, (list, tuple)) else [command]
    if not commands:
        raise UsageError("the list of commands is empty: a sweep needs at least one")
    find_modules = not (chosen.modules or chosen.partitions)
    checked = [script.checked_command(text, here, Path.cwd(), find_modules) for text in commands]
    devices = len(sites.gpus()) if chosen.launcher == "local" else 0
    asked = [script.request(chosen, one, name=name, gpus=gpus, nodes=nodes, processes=processes, time=time, cores=cores,
                            devices=devices, **of_slurm) for one in checked]
    return Order(here, chosen, checked, asked, contents(chosen, asked, checked))


def _say_what_is_new(site: sites.Site, runs: Path) -> None:
    """Say where jobs go, where that is not what one would think: nobody has named the site in this submission."""
    said = [line] if (line := sites.replaces(site.source)) else []
    with contextlib.suppress(OSError):
        latest = max((entry for entry in os.scandir(runs) if not entry.name.startswith(".")),
                     key=lambda entry: entry.stat().st_mtime, default=None)
        before = load(Path(latest.path)) if latest else None
        last = before.content.get("site") if before else ""
        if last and last != site.reference:
            said.append(f"jobs go to the site {site.name} ({sites.choose()[1]}); the last run, {before.run}, went to "
                        f"{before.site}. To stay there: site = {json.dumps(last)} in workspace.toml")
    for line in said:
        say(f"dlojz: {line}", file=sys.stderr)


def contents(site: sites.Site, asked: Sequence[Request], commands: Sequence[script.Command]) -> list[dict]:
    """The facts for the job.json of each of these requests (of one sweep): what `start` wants to know beside them."""
    scale = _scale(site, asked[0])
    launcher = "replay" if os.environ.get(replay.VARIABLE) else site.launcher
    facts = {"launcher": launcher, "site": site.reference, "scale": scale, "python": _python(site)}
    keys = [script.fingerprint(request, one.script) + scale for request, one in zip(asked, commands)]
    return [facts | {"key": key, "script": str(one.script or "")} for key, one in zip(keys, commands)]


def start(asked: Sequence[Request], here: Path, *contents: dict, again: bool = True) -> list[Job]:
    """Make the run folders of these requests (one sweep, where there are several) and hand them to the launcher.

    ``contents`` are the facts for their job.json, one each. Without ``again`` jobs that are there are given back.
    """
    runs = here / "runs"
    try:
        workspace.make_runs(here)
        with _locked(runs):
            if not again and (there := _existing(runs, asked[0].name, [content["key"] for content in contents])):
                return there
            folders = _make_folders(runs, asked, contents)
    except OSError as error:
        shown = runs if not runs.is_symlink() else f"{runs}, a link to {os.path.realpath(runs)}"
        raise UsageError(f"cannot write to {shown}: {error.strerror}. "
                         "Free some space or fix its permissions, or use another workspace") from None
    try:
        ids = launcher(contents[0]["launcher"]).submit(folders, asked[0])
    except BaseException as error:
        refused = isinstance(error, UsageError) and not isinstance(error, Unreachable)
        for folder in folders:
            if refused:
                shutil.rmtree(folder, ignore_errors=True)
            else:  # in doubt: whoever looks at the jobs next finds out whether they reached the queue
                with contextlib.suppress(OSError):
                    update(folder, submitter=None)
        raise
    for folder, identifier in zip(folders, ids):
        with contextlib.suppress(OSError):  # a disk that is full by now: the launcher finds the job by its folder
            update(folder, id=identifier)
    return [job for folder in folders if (job := load(folder))]


@contextlib.contextmanager
def _locked(runs: Path) -> Iterator[None]:
    """Two notebooks that submit the same at the same moment must get the same job."""
    handle = os.open(runs, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            locks.take(handle, str(runs))
        yield
    finally:
        os.close(handle)


def _existing(runs: Path, name: str, keys: list[str]) -> list[Job]:
    """The latest jobs that were asked for by these keys, if all of them are there."""
    newest: dict[str, Job] = {}
    for folder in numbered(runs, name):
        if (job := load(folder)) and job.content.get("key") in keys:
            newest[job.content["key"]] = job
    found = [newest[key] for key in keys if key in newest]
    if len(found) < len(keys):
        return []
    refresh(found)
    if any(job.status.state == "UNKNOWN" or job.status.reason == NEVER_QUEUED for job in found) \
            or all(job.never_ran for job in found):
        return []
    for job in found:
        if not job.id and not being_submitted(job.content):
            raise Unreachable(f"{job.run} may have been queued or not, and the queue does not answer: try again in a minute")
        job.found = True
    return found


def numbered(runs: Path, name: str) -> list[Path]:
    """The run folders of this name, oldest first."""
    pattern = re.compile(re.escape(name) + r"-(\d{3,})")
    found = []
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(runs):
            if match := pattern.fullmatch(entry.name):
                found.append((int(match[1]), Path(entry.path)))
    return [folder for _, folder in sorted(found)]


def _make_folders(runs: Path, asked: Sequence[Request], contents: Sequence[dict]) -> list[Path]:
    folders: list[Path] = []
    who = {"host": socket.gethostname(), "process": processes.identity(os.getpid())}
    try:
        for _ in asked:
            folders.append(_next_folder(runs, asked[0].name))
        for index, (folder, request, content) in enumerate(zip(folders, asked, contents)):
            text = script.render(request, folder, **_text_facts(content, Path(content["script"]) if content["script"] else None))
            if wrong := script.lint(text):
                raise UsageError(f"the job script would be wrong: {wrong[0]}")
            (folder / "job.sh").write_text(text, encoding="utf-8")
            (folder / "job.sh").chmod(0o755)
            sweep: dict = {"group": folders[0].name, "index": index, "size": len(asked)} if len(asked) > 1 else {}
            if content["launcher"] == "local":
                sweep |= {"host": socket.gethostname(), "queue": str(default_folder())}
            facts = {key: content[key] for key in FACTS}
            write_json(folder / "job.json", {"id": "", "submitted": time.time(), "request": dataclasses.asdict(request), **facts,
                                             **sweep, "submitter": who})
    except BaseException:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return folders


def _next_folder(runs: Path, name: str) -> Path:
    """A new folder NAME-NNN. Making it is what takes the number, also where somebody else wants it at the same moment."""
    there = numbered(runs, name)
    number = int(there[-1].name.rpartition("-")[2]) + 1 if there else 1
    while True:
        folder = runs / f"{name}-{number:03}"
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
        else:
            return folder  # through runs, which may be a link: the workspace is above the one, not above the other


def _text_facts(content: dict, file: Path | None) -> dict:
    try:
        resumes = file is not None and "--resume" in file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        resumes = False
    return {"site": content["site"], "scale": content["scale"], "python": content["python"] or None, "resumes": resumes,
            "files": script.sources(file)}


def _scale(site: sites.Site, asked: Request) -> str:
    scale = os.environ.get("DLOJZ_SCALE") or site.scale
    if scale == "auto":
        return "gpu" if asked.gpus else "laptop"
    return sites.resolve_scale(scale)


def _python(site: sites.Site) -> str:
    return {"this": sys.executable}.get(site.python, os.path.expandvars(site.python))
