"""How the notebook on parallelism submits its runs, and what they have written."""

from __future__ import annotations

from ...jobs import runs
from ...system import sites
from ...system.errors import UsageError


def by(processes: int) -> dict[str, int]:
    """The keywords of `submit` for as many processes: with a GPU each where this site has them, else on the CPU with gloo. Raises
    UsageError."""
    site = sites.current()
    present = len(sites.gpus()) if site.launcher == "local" else processes
    gpus = sites.sizes(site.scale).scale in ("gpu", "cluster") and present >= processes
    return {"gpus": processes} if gpus else {"gpus": 0, "processes": processes}


def rows(job, part: str) -> list[dict]:
    """What train_parallel.py has recorded of a part. Raises UsageError where it has recorded nothing."""
    run = runs.one(job)
    found = [event for event in run.record.events if event["event"] == "row" and event.get("part") == part]
    if not found:
        raise UsageError(f"{run.name} has recorded nothing of the part {part}: look at its log, then run it again: job.rerun()")
    return found
