"""Jobs: submit, follow, cancel, on this machine and on Slurm.

    job = submit("train.py --amp bf16", name="amp")    # returns at once; the same again finds the same job
    jobs["amp"]                                        # the latest run of that name, also after a restart
    jobs                                               # a table of all runs; jobs.watch() is a live one

``from dlojz import jobs`` gives the collection of the workspace's jobs, a `Jobs`.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from ..system import paths, suggest, workspace
from ..system.errors import UsageError
from .job import Group, Job, StillRunning, load, refresh, table, table_html
from .states import NAME, Status
from .submission import numbered, submit

__all__ = ["Group", "Job", "Jobs", "Status", "StillRunning", "jobs", "submit"]

SHOWN = 20  # runs in a table, unless all are asked for


class Jobs:
    """The jobs of a workspace (default: the one we are in), oldest first."""

    def __init__(self, root: Path | None = None):
        self.root = root

    def __getitem__(self, name: str) -> Job | Group:
        """The run of that name (``amp-002``), or the latest run called so (``amp``): a `Group` where that was a sweep."""
        if not isinstance(name, str):
            raise UsageError(f"jobs[{name!r}]: give the name of a run, such as jobs[\"amp\"]")
        name = unicodedata.normalize("NFC", name)  # as runs are named
        runs = self._runs()
        paths.given(runs / name, "amp")
        plain = bool(name) and "/" not in name and name not in (".", "..")
        if plain and (job := load(runs / name)):
            return refresh([job])[0]
        for folder in reversed(numbered(runs, name) if plain else []):
            if job := load(folder):
                return self._whole(job)
        if named := [job for job in self if job.id == name]:
            return named[-1]
        known = dict.fromkeys(job.name for job in self)
        latest = list(known)[-5:]
        guess = suggest.hint(name, known, 3).strip()
        there = guess or "nothing has been submitted yet" if guess or not latest \
            else f"the latest are {', '.join(latest)}" if len(known) > len(latest) else f"there is {', '.join(latest)}"
        raise UsageError(f"there is no run {name!r} in {runs}: {there}")

    def _whole(self, job: Job) -> Job | Group:
        sweep = job.content.get("group")
        if not sweep:
            return refresh([job])[0]
        namesakes = [other for folder in numbered(self._runs(), job.name) if (other := load(folder))]
        members = [other for other in namesakes if other.content.get("group") == sweep]
        return Group(refresh(sorted(members, key=lambda member: member.content.get("index", 0))))

    def __iter__(self) -> Iterator[Job]:
        return iter(self._all())

    def _all(self) -> list[Job]:
        found = [job for folder in self._folders() if (job := load(Path(folder)))]
        found.sort(key=lambda job: (job.submitted or 0, job.run))
        refresh(found)
        return found

    def _folders(self) -> list[str]:
        try:
            return [entry.path for entry in os.scandir(self._runs()) if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []

    def __len__(self) -> int:
        return sum(os.path.exists(f"{folder}/{NAME}") for folder in self._folders())  # `list(jobs)` asks this first: be quick

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: str) -> bool:
        try:
            self[name]
        except UsageError:
            return False
        return True

    def _runs(self) -> Path:
        return (self.root or workspace.find()) / "runs"

    def text(self, most: int | None = SHOWN, longest: int | None = 100) -> str:
        """A table of the latest runs; of all with ``most=None``. ``longest``: see `rows`."""
        found = self._all()
        shown = found if most is None else found[-most:]
        left_out = len(found) - len(shown)
        return (f"({left_out} earlier runs are not shown)\n" if left_out else "") + table(shown, longest)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        found = self._all()
        left_out = len(found) - SHOWN
        note = f"<p>{left_out} earlier runs are not shown.</p>" if left_out > 0 else ""
        return note + table_html(found[-SHOWN:])

    def watch(self, *arguments, **options):
        """A live table of the jobs: see `dlojz.jobs.watch.watch`."""
        from .watch import watch

        return watch(*arguments, among=self, **options)


jobs = Jobs()
