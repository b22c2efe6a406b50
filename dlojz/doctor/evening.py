"""``dlojz rehearse DAY``: the evening before a day, what is not ready for it.

Every launch of the day's notebooks is made in its shortest form (scale ``ci``: tiny models, a few steps), with a time limit of
five minutes, from a solved workspace of its own, ``rehearsal-DATE`` in the one that we are in. Beside it: the site, the storage,
the reservation, and torch.compile's slow first use.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .. import __version__
from ..jobs import Job
from ..labs import launch
from ..labs import workspace as layout
from ..system import inductor, sites, workspace
from ..system.look import CouldNotLook, System
from ..system.variables import environment
from ..ui import page, words
from . import doctor, guarded
from .report import BROKEN, Finding, Report, broken, fine, note

LIMIT = 5  # minutes of a job
PATIENCE = 30 * 60  # seconds until all have ended
LOW = 10e9  # bytes: with less room a day's runs, photos and compiled kernels come to an end
FEW = 20_000  # files that may still be made


def rehearse(what: str, site: str = "", say: Callable[[str], None] = print, run: bool = True) -> Report:
    """All that a day needs, tried; ``say`` gets a line for each launch that changes its state. ``run=False``: without launches.

    Raises UsageError where there is no such day or site.
    """
    began, labs = time.monotonic(), launch.labs_of(what)
    chosen = sites.load(site) if site else sites.current()
    topics: dict[str, list[Finding]] = {}
    with environment(DLOJZ_SITE=chosen.reference):
        looked = [finding for finding in doctor().findings if finding.level == BROKEN or finding.name == "Site"]
    topics["The site"] = [*looked, *guarded("Reservation", lambda: say_reservation(System(), chosen)),
                          *guarded("Storage", lambda: say_storage(chosen))]
    topics["torch.compile"] = [fine("Compiled", inductor.warm())]
    topics["The day"] = guarded("Runs", lambda: say_plan(launch.plan(labs, chosen.reference)))
    if run:
        with _apart(chosen) as folder:
            say(f"launches from {folder}")
            jobs = launch.launch(labs, say=say, limit=LIMIT, patience=PATIENCE)
        topics["Each launch, in its shortest form"] = [say_launch(job) for job in jobs]
    for topic, found in topics.items():
        for finding in found:
            finding.topic = topic
    return Report([finding for found in topics.values() for finding in found], time.monotonic() - began, __version__)


def as_page(report: Report, what: str) -> page.View:
    title = f"Rehearsal of {what}, {time.strftime('%Y-%m-%d %H:%M')}"
    return page.View(title, f"{title}\n{report.text()}", page.headline(title) + report._repr_html_())


def say_plan(plan: launch.Plan) -> Iterator[Finding]:
    cost = f", about {words.gpu_minutes(plan.minutes)} for each trainee who runs them" if plan.most else ""
    yield fine("Runs", f"{words.counted(len(plan.requests), 'run')} in {words.counted(len(plan.labs), 'lab')}{cost}")
    for line in plan.problems:
        yield broken("Runs", line, "Change the site's file, or tell the room which cell to leave out.")


def say_launch(job: Job) -> Finding:
    status = job.status
    waited = max(0.0, status.started - job.submitted) if status.started and job.submitted else None
    took = f" in {words.seconds(max(0.0, status.ended - status.started))}" if status.started and status.ended else ""
    queued = f", after {words.seconds(waited)} in the queue" if waited is not None and waited >= 1 else ""
    if launch.went_as_meant(job) and not status.active:
        return fine(job.run, f"{status.state}{took}{queued}")
    why = " ".join(status.reason.split()) or "no reason is known"
    last = next((line.strip() for line in reversed(job.err.splitlines()) if line.strip()), "")
    advice = f"{job.folder}/err.log" + (f" ends with: {last[:150]}" if last else " is empty")
    return broken(job.run, f"{status.state}{took}{queued}: {why}", advice)


def say_storage(site: sites.Site) -> Iterator[Finding]:
    """Room for files where the site keeps them, as far as the file system says; a quota it may not."""
    places = {one.name: (one.folder(), one.quota) for one in site.storage.values()} or {"workspace": (workspace.find(), "")}
    for name, (folder, quota) in places.items():
        if folder is None or not folder.is_dir():
            yield note(name, f"{folder or site.storage[name].path} is not there for you", "Correct [storage] in the site's file.")
            continue
        disk = os.statvfs(folder)
        free, files = disk.f_bavail * disk.f_frsize, disk.f_favail if disk.f_files else math.inf
        text = f"{folder}: {words.gigabytes(free)} free" + (f", room for {files:,.0f} files" if files < 1e9 else "")
        text += f"; your quota is {quota}" if quota else ""
        if not os.access(folder, os.W_OK):
            yield note(name, f"{text}; you cannot write there")
        elif free < LOW or files < FEW:
            yield broken(name, text, "Free some room: a day takes a few GB and thousands of files.")
        else:
            yield fine(name, text)


def say_reservation(system: System, site: sites.Site) -> Iterator[Finding]:
    if site.launcher != "slurm":
        return
    name = site.reservation
    if not name:
        yield note("Reservation", "none: the room's jobs wait with everybody's",
                   'Ask the site for one; then directives = ["--reservation=NAME"] in its file.')
        return
    try:
        answer = system.run(["scontrol", "show", "reservation", name], 10)
    except CouldNotLook as error:
        raise CouldNotLook(f"{name}: {error}") from None
    known = dict(re.findall(r"(\w+)=(\S+)", answer.stdout))
    if answer.returncode or "ReservationName" not in known:
        yield broken("Reservation", f"Slurm knows no reservation {name}", "Ask the site, or take it out of its directives.")
        return
    when = f"{name}: {known.get('StartTime')} to {known.get('EndTime')}, nodes {known.get('Nodes')}"
    ended = known.get("EndTime", "") < time.strftime("%Y-%m-%dT%H:%M:%S") and known.get("EndTime", "")[:1].isdigit()
    if ended:
        yield broken("Reservation", f"{when}; it is over", "Ask the site for a new one, or take it out of its directives.")
    elif known.get("State") == "INACTIVE":
        yield note("Reservation", f"{when}; it has not begun, so jobs wait for it", "Rehearse the launches without it.")
    else:
        yield fine("Reservation", when)


@contextmanager
def _apart(site: sites.Site) -> Iterator[Path]:
    """A solved workspace inside of ours, which the nodes see as they see ours, with small runs on this site."""
    folder = workspace.find() / f"rehearsal-{time.strftime('%Y-%m-%d_%H%M%S')}"
    layout.create(folder, ["all"])
    with environment(DLOJZ_WORKSPACE=str(folder), DLOJZ_SCALE="ci", DLOJZ_SITE=site.reference):
        yield folder
