"""The probe: runs a trainee's own script on a little data in a process of its own, and notes what it does.

A check gets a `Probe` and asks for runs; what it gets are `Facts`. How it works, from outside in:

``session``   starts the processes, holds them to their limits, ends them
``host``      the process that has imported torch and forks one child for each run
``child``     that child: runs the script under ``runpy`` with the observers in place
``observe``   the observers, one module for each thing to look at; a new one is found by being there
``pretend``   GPUs that are not there
``facts``     reading what was noted

This module and ``session``, ``facts`` run in the trainee's kernel: they do not import torch.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ...sites import gpus
from . import observe as observers
from .facts import Event, Facts, Unfinished
from .session import HostLost, Limits, Session

__all__ = ["Event", "Facts", "HostLost", "Limits", "Probe", "Session", "Unfinished"]

SMALL = "--model probe_net --image-size 32 --batch-size 4 --test --test-steps 4"  # on 16 images: one epoch


class Probe:
    """Runs a script for a check, which says what it has verified and what it could not.

    ``gpus``: how many real GPUs this process may use. ``devices``: what to give to ``--device``, the CPU and where there is one
    the GPU. ``verified`` and ``unverified`` are the sentences that the outcome says; a check adds to them as it goes.
    """

    def __init__(self, session: Session, script: Path, written: frozenset[str] = frozenset()):
        self.script = Path(script).resolve()
        self.session = session
        self.gpus = len(gpus())
        self.devices = ["cpu", "cuda"] if self.gpus else ["cpu"]
        self.runs: list[Facts] = []
        self.verified: list[str] = []
        self.unverified: list[str] = []
        self._written = written

    def run(self, switches: str = "", *, ranks: int = 1, observe: list[str] | None = None, **options) -> Facts:
        """Starts ``train.py SWITCHES`` on a small model and 16 images, for 4 steps, and returns at once: reading the facts waits.

        ``ranks``: how many processes, on the CPU. ``observe``: which observers (all). ``options`` are theirs:
        ``gpus=N`` pretends that there are N GPUs, ``local_rank=N`` that the script is process N on its node,
        ``overflow_at=STEP`` makes the gradients of a step infinite.
        """
        small = f"{SMALL} --data {shlex.quote(str(self.session.images()))} {switches}"
        observe = observers.names() if observe is None else observe
        started = self.session.start(self.script, shlex.split(small), observe, options, ranks)
        facts = Facts(self.session, started, self.script, f"{self.script.name} {switches}".strip())
        self.runs.append(facts)
        return facts

    def written(self, fence: str) -> bool:
        """Whether the trainee has written something into this fence, also of another lab."""
        return fence in self._written
