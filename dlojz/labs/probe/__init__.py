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
from collections.abc import Iterable
from pathlib import Path

from ...system.sites import gpus
from . import observe as observers
from .facts import Event, Facts, Unfinished, lost_another
from .session import HostLost, Limits, Session, reserved_port

__all__ = ["Event", "Facts", "HostLost", "Limits", "Probe", "Session", "Unfinished", "lost_another", "reserved_port"]

SMALL = "--model probe_net --image-size 32 --batch-size 4 --test --test-steps 4"  # on 16 images: one epoch


class Probe:
    """Runs a trainee's files for a check, which says what it has verified and what it could not.

    ``root``: the trainee's folder. ``script``: the file of it that is run where a check names no other. ``calls``: the lab's file
    of functions for `call`. ``gpus``: how many real GPUs this process may use. ``devices``: what to give to ``--device``, the CPU
    and where there is one the GPU. ``verified`` and ``unverified`` are the sentences that the outcome says; a check adds to them
    as it goes.
    """

    def __init__(self, session: Session, root: Path, script: str = "train.py", calls: Path | None = None,
                 written: frozenset[str] = frozenset()):
        self.session, self.root, self.script, self.calls = session, Path(root).resolve(), script, calls
        self.gpus = len(gpus())
        self.devices = ["cpu", "cuda"] if self.gpus else ["cpu"]
        self.runs: list[Facts] = []
        self.verified: list[str] = []
        self.unverified: list[str] = []
        self._written = written

    def run(self, switches: str = "", *, script: str = "", small: bool = True, ranks: int = 1,
            observe: Iterable[str] | None = None, **options) -> Facts:
        """Starts ``train.py SWITCHES`` on a small model and 16 images, for 4 steps, and returns at once: reading the facts waits.

        ``script``: another file of the lab, such as ``hunt/slow_feed.py``. ``small=False`` gives it no switches but these.
        ``ranks``: how many processes, on the CPU, which find each other by gloo. ``observe``: which observers (all).
        ``options`` are theirs: ``gpus=N`` pretends that there are N GPUs, ``local_rank=N`` that srun started it as process
        N on its node, ``overflow_at=STEP`` makes the gradients of a step infinite.
        """
        script = script or self.script
        given = f"{SMALL} --data {shlex.quote(str(self.session.images()))} {switches}" if small else switches
        observe = observers.names() if observe is None else list(observe)
        started = self.session.start(self.root, script, shlex.split(given), ranks=ranks, observe=observe, options=options)
        return self._facts(started, script, f"{script} {switches}".strip(), trains="layers" in observe)  # which counts the steps

    def call(self, script: str, function: str, said: str = "", *, ranks: int = 1, observe: Iterable[str] = (),
             **options) -> Facts:
        """Imports a file of the lab and calls ``function(module, note)`` of the lab's own calls.py with it; returns at once.

        ``said``: what that is to the trainee, who knows nothing of calls.py, as a message names it ("a second process (rank 1)").
        The function does something with what the trainee has written in ``module``, and notes what it finds with
        ``note("what", name=value, …)``: facts, which are read like those of a run. Both have a process of their own, under the
        same limits; an exception in the trainee's file is reported with its line. ``observe``: which observers watch it (none);
        ``ranks`` and ``options`` as in `run`.
        """
        started = self.session.start(self.root, script, [], ranks=ranks, observe=observe, options=options,
                                     call=(self.calls, function))
        return self._facts(started, script, script, trains=False, called=said or f"the check's use of `{script}`")

    def _facts(self, started: list, script: str, command: str, trains: bool, called: str = "") -> Facts:
        facts = Facts(self.session, started, self.root, script, command, trains, called=called)
        self.runs.append(facts)
        return facts

    def written(self, fence: str) -> bool:
        """Whether the trainee has written something into this fence, also of another lab."""
        return fence in self._written
