"""The probe: runs a trainee's own script on a little data in a process of its own, and notes what it does.

A check gets a `Probe` and asks for runs; what it gets are `Facts`, or, with `Probe.beside`, those of the trainee's files and of
the kit's own, to be compared. How it works, from outside in:

``beside``    the table of a check: which fact belongs to which fence; ``compare`` compares, ``kept`` keeps the kit's facts
``copies``    the folders in which a trainee's files run, with the kit's body in some of their fences
``session``   starts the processes, holds them to their limits, ends them
``host``      the process that has imported torch and forks one child for each run
``child``     that child: runs the script under ``runpy`` with the observers in place
``observe``   the observers, one module for each thing to look at; a new one is found by being there
``functions`` calls a function beside the kit's
``pretend``   GPUs that are not there
``facts``     reading what was noted
``waiting``   processes that wait for each other in vain

This module and all but ``host``, ``child``, ``observe``, ``functions``, ``pretend`` run in the trainee's kernel: they do not
import torch.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...system.sites import gpus
from . import kept
from . import observe as observers
from .beside import Beside, Called, Claim, Pair, Trouble, Unmet, claim, expect
from .copies import Copies
from .facts import Event, Facts, Unfinished, lost_another
from .session import HostLost, Limits, Session, reserved_port

__all__ = ["Beside", "Called", "Claim", "Event", "Facts", "HostLost", "Limits", "Pair", "Probe", "Session",
           "Trouble", "Unfinished", "Unmet", "claim", "expect", "lost_another", "reserved_port"]

SMALL = "--model probe_net --image-size 32 --batch-size 4 --test --test-steps 4"  # on 16 images: one epoch


class Probe:
    """Runs a trainee's files for a check, which says what it has verified and what it could not.

    ``root``: the trainee's folder. ``script``: the file of it that is run where a check names no other. ``calls``: the lab's file
    of functions for `call`. ``lab``: the one that is checked. ``gpus``: how many real GPUs this process may use. ``devices``:
    what to give to ``--device``, the CPU and where there is one the GPU. ``verified`` and ``unverified`` are the sentences that
    the outcome says; a check adds to them as it goes.

    Everywhere ``solved`` names labs, or single fences, that hold the kit's body in this run, whatever the trainee has made of
    them so far.
    """

    def __init__(self, session: Session, root: Path, script: str = "train.py", calls: Path | None = None,
                 written: frozenset[str] = frozenset(), lab=None):
        self.session, self.script, self.calls, self.lab = session, script, calls, lab
        self.copies = Copies(Path(root), session.new_folder("files"), lab)
        self.gpus = len(gpus())
        self.devices = ["cpu", "cuda"] if self.gpus else ["cpu"]
        self.runs: list[Facts] = []
        self.pairs: list[Pair] = []
        self.verified: list[str] = []
        self.unverified: list[str] = []
        self._written = written

    def run(self, switches: str = "", *, script: str = "", small: bool = True, ranks: int = 1,
            observe: Iterable[str] | None = None, solved: Iterable[str] = (), **options) -> Facts:
        """Starts ``train.py SWITCHES`` on a small model and 16 images, for 4 steps, and returns at once: reading the facts waits.

        ``script``: another file of the lab, such as ``hunt/slow_feed.py``. ``small=False`` gives it no switches but these.
        ``ranks``: how many processes, on the CPU, which find each other by gloo. ``observe``: which observers (all).
        ``options`` are theirs: ``gpus=N`` pretends that there are N GPUs, ``local_rank=N`` that srun started it as process
        N on its node, ``overflow_at=STEP`` makes the gradients of a step infinite, ``spy=["torch.compile"]`` notes calls,
        ``resumed_at={"step": 2, "epoch": 1, "position": 0}`` lets it go on from there as if a checkpoint had said so,
        ``on_cpu=True`` hides the machine's GPUs from a script that takes one where there is one.
        """
        request = self._request(switches, script, small, ranks, observe, solved, options)
        facts = self._start(request, self.copies.copy(request["solved"]))
        self.runs.append(facts)
        return facts

    def beside(self, switches: str = "", *, script: str = "", small: bool = True, ranks: int = 1,
               observe: Iterable[str] | None = None, solved: Iterable[str] = (), when: str = "", **options) -> Beside:
        """Starts the trainee's files as `run` does, and beside it the kit's own, unless its facts are kept from before.

        The kit's own are the trainee's, so that what surrounds the fences is the same, with the kit's body in all fences of this
        lab. What other labs ask for stays a stub where it is one, on both sides; what the trainee has written there is replaced
        by the kit's: it is not what is checked here, and a mistake in it must not become the measure. ``when``: what a message
        says of the run beside its command ("as the second process of its node").
        """
        request = self._request(switches, script, small, ranks, observe, solved, options) | {"when": when}
        copies = self.copies
        kits = copies.copy([*request["solved"], *copies.lab_fences(), *copies.others()], whole=True)
        key = kept.key(request | {"files": kits.digest})
        ranks_of = kept.load(key)
        facts = None if ranks_of else self._start(request, kits)  # first: should mine never end, this is well all the same
        mine = self._start(request, copies.copy(request["solved"]))
        facts = facts or Facts.kept(ranks_of, kits, mine.script, mine.command, request)
        pair = Beside(mine, facts, key if ranks_of is None else "", self)
        self.runs.append(mine)
        self.pairs.append(pair)
        return pair

    def call(self, script: str, function: str, said: str = "", *, ranks: int = 1, observe: Iterable[str] = (),
             **options) -> Facts:
        """Imports a file of the lab and calls ``function(module, note)`` of the lab's own calls.py with it; returns at once.

        ``said``: what that is to the trainee, who knows nothing of calls.py, as a message names it ("a second process (rank 1)").
        The function does something with what the trainee has written in ``module``, and notes what it finds with
        ``note("what", name=value, …)``: facts, which are read like those of a run. Both have a process of their own, under the
        same limits; an exception in the trainee's file is reported with its line. ``observe``: which observers watch it (none);
        ``ranks`` and ``options`` as in `run`: several processes see no GPU (``on_cpu``), since there may be one for all of them.
        """
        options = {"on_cpu": ranks > 1 and not options.get("gpus")} | options
        request = self._request("", script, False, ranks, observe, (), options) | {
            "call": [str(self.calls), function], "called": said or f"the check's use of `{script}`"}
        facts = self._start(request, self.copies.copy())
        self.runs.append(facts)
        return facts

    def call_beside(self, script: str, function: str, inputs: str, *, look, by: str = "", said: str = "",
                    tolerance: float | None = None, at_most: float | None = None, repeat: int = 7,
                    observe: Iterable[str] = (), claim: str = "", words: dict[str, str] | None = None,
                    gives: Sequence[str] = (), **options) -> Called:
        """Calls a function of the trainee's file and the kit's with the same inputs, in one process, and compares what they give:
        values, dtype, shape, device, whether inputs were changed, what was drawn from torch's generator, and with the observer
        ``transfers``, whether the host waits for the GPU where the kit's does not.

        ``function``: its name in the file (``mixup``, ``Net.forward``), or where ``by`` is given what a message calls it; ``by``
        is a function of the lab's calls.py that makes the callable of a module. ``inputs``: the name of a generator in calls.py
        that yields ``name, arguments`` or ``name, arguments, keywords``, the simplest first: the first that differs is reported.
        ``look``: the fence. ``tolerance``: share of the largest number (by the dtype). ``at_most``: how many times as long as the
        kit's it may take for the last input, the least of ``repeat`` times each; with ``repeat=0``, how many times as many
        operations of torch. ``words``: what is expected, by fault (``value``, ``dtype``, ``shape``, ``device``, ``inputs``,
        ``waits``, ``random``, ``kind``, ``error``, ``time``), or by which part of the result it is: an item's key, or its name in
        ``gives``, which names the items of a tuple. ``claim``: what is verified.
        """
        request = self._request("", script, False, 1, observe, (), options) | {
            "call": [str(self.calls), ""], "called": said or f"`{function}` of `{script}`"}
        asked = {"function": function, "inputs": inputs, "by": by, "tolerance": tolerance, "repeat": repeat if at_most else 0,
                 "operations": at_most is not None}
        kits = self.copies.copy([*self.copies.lab_fences(), *self.copies.others()], whole=True)
        request["options"] = options | {"beside": asked | {"kits": str(kits.root / script)}}
        facts = self._start(request, self.copies.copy())
        pair = Called(facts, function, look, words or {}, at_most, gives)
        pair.says(claim)
        self.runs.append(facts)
        self.pairs.append(pair)
        return pair

    def again(self, facts: Facts, solved: Iterable[str]) -> Facts:
        """The same run once more, with the kit's body in these fences, too; returns at once. It is not one of ``runs``."""
        request = facts.request
        return self._start(request, self.copies.copy([*request["solved"], *solved]))

    def written(self, fence: str) -> bool:
        """Whether the trainee has written something into this fence, also of another lab."""
        return fence in self._written

    def _request(self, switches, script, small, ranks, observe, solved, options) -> dict:
        return {"script": script or self.script, "switches": switches, "small": small, "ranks": ranks, "call": None,
                "called": "", "when": "", "observe": observers.names() if observe is None else list(observe), "options": options,
                "solved": self.copies.fences_of(solved)}

    def _start(self, request: dict, copy) -> Facts:
        switches, script, call = request["switches"], request["script"], request["call"]
        given = f"{SMALL} --data {shlex.quote(str(self.session.images()))} {switches}" if request["small"] else switches
        started = self.session.start(copy.root, script, shlex.split(given), ranks=request["ranks"], observe=request["observe"],
                                     options=request["options"], call=call)
        trains = call is None and "layers" in request["observe"]  # which counts the steps
        return Facts(self.session, started, copy, script, script if call else f"{script} {switches}".strip(), trains,
                     called=request["called"], request=request)
