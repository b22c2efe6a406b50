"""What a job is, whatever runs it: what was asked for (`Request`), how it stands (`Status`), and what a launcher must offer.

A launcher is a module, `dlojz.jobs.local` or `dlojz.jobs.slurm`, with the four functions of `Launcher`. It knows nothing
of names, notebooks or tables; it brings folders that hold a ``job.sh`` to execution and says how they stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import UsageError

# Slurm's words, also for jobs of this machine. UNKNOWN: nobody can tell any more (the folder was deleted, job.json is damaged).
ACTIVE = ("PENDING", "RUNNING")
ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL", "UNKNOWN")


@dataclass(frozen=True)
class Request:
    """What was asked for, with the site's defaults filled in. Everything in it is checked: a launcher may rely on it.

    ``gpus`` and ``processes`` count over all nodes; one process drives one GPU, and where ``gpus`` is 0 the processes
    share the CPU cores. ``cores`` are per process, 0 where the scheduler shall decide. ``seconds`` is the time limit.
    Empty strings mean "not asked for". ``directives`` are further options of sbatch, such as ``--hint=nomultithread``;
    ``modules`` are loaded in this order.
    """

    name: str
    command: tuple[str, ...]  # what python runs, a script or -m and a module first: ("train.py", "--amp", "bf16")
    site: str
    gpus: int = 1
    nodes: int = 1
    processes: int = 1
    cores: int = 0
    seconds: int = 600
    account: str = ""
    partition: str = ""
    qos: str = ""
    constraint: str = ""
    directives: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Status:
    """How a job stands. Times are seconds since 1970, or None where they are not known (yet).

    ``exit_code`` as a shell would say it: 0-255, 128 + the signal for a process that a signal ended; None while the job
    has not ended, or where nobody knows. ``reason`` is one line for a person, empty where there is nothing to add
    (PENDING: why it waits, Slurm's own word such as ``Resources`` first; FAILED: what happened).
    ``position`` counts from 1 among the jobs that wait in the queue, None where it is not known.
    """

    state: str
    reason: str = ""
    exit_code: int | None = None
    started: float | None = None
    ended: float | None = None
    position: int | None = None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE


class Unreachable(UsageError):
    """The queue does not answer now; the jobs in it may well go on. Whoever shows states keeps the last known ones."""


class Launcher(Protocol):
    """The functions that a launcher's module offers."""

    def submit(self, folders: Sequence[Path], request: Request) -> list[str]:
        """Queue one job per folder and return their ids (never empty, unique within the launcher), in order.

        Each folder holds ``job.sh``, complete with its ``#SBATCH`` lines, and ``job.json``; the folder's parent's parent is
        the workspace, in which the job runs. Standard output and error go to ``out.log`` and ``err.log`` in the folder.
        Several folders are a sweep: on Slurm one array. They differ only in their commands; ``request`` is the first one's.

        The environment is to be cleaned with `dlojz.jobs.script.environment`.
        All or nothing: either every job is queued, or UsageError is raised (one line with what to do) and none is.
        Where it cannot be told whether a request arrived (time out), the launcher finds out before it tries again.
        """

    def poll(self, jobs: Sequence[Job]) -> dict[str, Status]:
        """How the jobs stand, by id; one query for all of them. Raises Unreachable.

        May be called as often as one likes: a launcher whose queries are dear keeps the last answer for a while itself.
        An ended job must be given its final state here once; it is then kept in job.json and never asked for again.
        A job that the queue has forgotten is judged by the ``exit_code`` that job.sh left in the folder; without one it
        has FAILED with a reason that says so. FAILED becomes OUT_OF_MEMORY elsewhere, where the record says so.
        ``job.id``, ``job.folder``, ``job.request`` and ``job.submitted`` may be used; ``job.state`` would come back here.
        """

    def cancel(self, ids: Sequence[str]) -> None:
        """End these jobs, waiting or running, with all their processes. Returns at once; ended or unknown ids are ignored."""

    def recover(self, folders: Sequence[Path]) -> dict[Path, str]:
        """The ids of jobs that were queued for these folders although their ids were never written down, because the
        submitting process was killed in between. Folders that never reached the queue are left out."""
