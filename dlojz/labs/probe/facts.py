"""What one run of the trainee's script did, for a check to read."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path


class Event(dict):
    """One fact: ``event.dtype`` is ``event["dtype"]``. Every fact has ``what``, ``step``, ``line``, ``file`` and ``by``."""

    def __getattribute__(self, name):
        return self[name] if name in self else super().__getattribute__(name)  # also one called `values`

    def __getattr__(self, name):
        raise AttributeError(f"no {name!r} in this fact, but {', '.join(self)}")


# As gloo puts it
LOST_ANOTHER = re.compile(r"timed out|timeout|connection closed|connection reset|broken pipe|socket closed", re.IGNORECASE)


class Unfinished(Exception):
    """A fact is missing because the script ended before it: the run says how."""

    def __init__(self, facts: Facts):
        super().__init__(str(facts.ended))
        self.facts = facts


class Facts:
    """Begins to run when it is made, and waits for the end of the run when it is first read.

    ``copy``: where the files are that ran (`dlojz.labs.probe.copies`), ``script`` the one of them that was started. ``ranks``:
    the facts of each process, where there are several; those of rank 0 are this one. ``trains``: whether a run that ends without
    having trained has ended too early. ``called``: how a message names what is no run of ``command`` but a call. ``request``: how
    `Probe` started it. Lines are those of the trainee's file, whatever the copy has in its fences.
    """

    def __init__(self, session, processes, copy, script: str, command: str, trains: bool = True, ranks=None,
                 called: str = "", request: dict | None = None):
        self.copy, self.script, self.command, self.trains, self.called = copy, script, command, trains, called
        self.request = request
        self._session = session
        self._processes = processes
        self._process = processes[0]
        self._events: list[Event] | None = None
        self._ended: Event | None = None
        self.ranks: list[Facts] = ranks or [self]
        for rank, process in enumerate(processes[1:], 1):
            named = f"{called} (rank {rank})" if called else ""
            self.ranks.append(Facts(session, [process], copy, script, f"{command} (rank {rank})", trains, self.ranks, named,
                                    request))

    @classmethod
    def kept(cls, ranks: list[list[dict]], copy, script: str, command: str, request: dict) -> Facts:
        """A run from before that has completed, of which these are the facts of each rank."""
        facts = cls(None, [None] * len(ranks), copy, script, command, request=request)
        for rank, events in zip(facts.ranks, ranks):
            rank._events = [Event(event) for event in events]
            rank._ended = ending({}, "completed", "ran to completion")
        return facts

    @property
    def said(self) -> str:
        """What ran, as a message names it."""
        when = (self.request or {}).get("when")
        return self.called or f"`{self.command}`" + (f", {when}" if when else "")

    @property
    def events(self) -> list[Event]:
        if self._events is None:
            self._session.wait(self._processes)
            self._seconds = self._session.seconds
            self._events = read(self._process.facts)
            for event in self._events:
                if event.get("line"):
                    event["line"] = self.copy.line(event.get("file"), event["line"])
        return self._events

    def all(self, what: str, **like) -> list[Event]:
        """The facts of this kind, in order, with these values. A value may be a function that says whether it fits."""
        found = (event for event in self.events if event.what == what)
        return [event for event in found if all(_fits(event.get(key), want) for key, want in like.items())]

    def first(self, what: str, **like) -> Event | None:
        return next(iter(self.all(what, **like)), None)

    def need(self, what: str, **like) -> Event:
        """The first such fact of a run that cannot do without one. Raises Unfinished where the script ended before it."""
        event = self.first(what, **like)
        if event is None:
            raise Unfinished(self)
        return event

    def every_step(self, what: str, **like) -> Event | None:
        """The latest of these facts, where the same line led to them in every step (one may be missing, at either end)."""
        steps: dict[tuple, set[int]] = {}
        total = max((event.step for event in self.all("model", training=True)), default=0)
        for event in self.all(what, **like):
            seen = steps.setdefault((event.file, event.line), set())
            seen.add(event.step)
            if event.line is not None and len(seen) >= max(2, total - 1):
                return event
        return None

    @property
    def steps(self) -> int:
        """How many forward passes in training there were."""
        return max((event.step for event in self.events), default=0)

    def finish(self) -> None:
        """Waits for the end. Raises Unfinished unless it has completed."""
        if not self.completed:
            raise Unfinished(self)

    @property
    def completed(self) -> bool:
        """Whether the script ended by itself, without an error, after it had trained."""
        return self.ended.how == "completed"

    @property
    def cause(self) -> Facts:
        """Of several processes the one that ended first, and too early, by itself: the others only followed. Else this one."""
        _ = self.events  # waits
        early = [facts for facts in self.ranks if not facts.completed and not facts._process.killed]
        # One that has lost another may be the quicker of the two to end.
        return min(early, key=lambda facts: (lost_another(facts.ended), facts._process.ended), default=self)

    @property
    def ended(self) -> Event:
        """How the run ended: ``how``, and ``line`` and ``file`` where that is known, and ``message`` ("stops with TypeError: …").

        ``asked_of``: the names in the trainee's file that a call has used where it stopped, outside of that file.

        ``how`` is completed, error, exit or signal; time, busy, memory or alone where we ended it; broken where the
        probe itself failed.
        """
        if self._ended is None:
            self._ended = self._how_it_ended()
        return self._ended

    def _how_it_ended(self) -> Event:
        process, _ = self._process, self.events  # waits
        status = process.status or 0
        if broken := self.first("broken"):
            return ending({}, "broken", f"could not be watched: {broken.message}")
        if process.killed == "time":
            return ending(self._stood(), "time", f"was still running after {self._seconds:.0f} seconds{self._where_all_stood()}")
        if process.killed == "asleep":
            return ending(self._stood(), "time", f"waits in vain, as all processes of its run do{self._where_all_stood()}")
        if process.killed == "busy":
            return ending({}, "busy", f"waited for a CPU core for {self._session.waited:.0f} seconds")
        if process.killed == "memory":
            return ending(self._stood(), "memory", f"needs more than {self._session.limits.memory / 1e9:.1f} GB of memory")
        if process.killed == "alone":
            return ending(self._stood(), "alone", "waited for another process that had already exited")
        if error := self.first("error"):
            said = f": {error.message}" if error.message else ""
            asked = f", where the check has `{error.asked}`" if error.get("asked") else ""
            return ending(error, "error", f"stops with {error.kind}{said}{asked}")
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            why = ", as gloo does where a collective call does not fit those of the other processes" if (
                name == "SIGABRT" and len(self.ranks) > 1) else ""
            return ending({}, "signal", f"was killed by the signal {name}{why}")
        end, left = self.first("end"), self.all("exit")
        if end and not end.code and (end.step if self.trains else not left):
            return ending(left[-1] if left else {}, "completed", "ran to completion")
        code = os.waitstatus_to_exitcode(status)
        early = "before it had trained" if self.trains else "before the check was finished"
        trained = f"after {self.steps} steps" if self.steps else early
        return ending(left[-1] if left else {}, "exit", f"ends with exit code {code} {trained}")

    def _stood(self) -> dict:
        """Where the script stood when it was ended, from the stacks that it wrote."""
        try:
            text = self._process.stack.read_text(errors="replace")
        except OSError:
            return {}
        for file, line in re.findall(r'File "(.+?)", line (\d+)', text):
            path, root = Path(file), self.copy.root
            if path.parent in (root, (root / self.script).parent):
                name = str(path.relative_to(root))
                return {"file": name, "line": self.copy.line(name, int(line))}
        return {}

    def _where_all_stood(self) -> str:
        """Of several processes: one may wait for another that is somewhere else."""
        stood = [(rank, facts._stood()) for rank, facts in enumerate(self.ranks) if facts._process.killed]
        places = [f"rank {rank} in line {place['line']} of {place['file']}" for rank, place in stood if place]
        return f" ({', '.join(places)})" if len(places) > 1 else ""


def lost_another(ended: Event) -> bool:
    """Whether a process ended by itself because another one did not come to a collective, or came with another one."""
    if ended.how == "signal":  # gloo aborts a process that receives what belongs to another collective
        return "SIGABRT" in ended.message
    return ended.how == "error" and LOST_ANOTHER.search(ended.message) is not None


def ending(where: dict, how: str, message: str) -> Event:
    return Event(line=where.get("line"), file=where.get("file"), how=how, message=message, asked_of=where.get("asked_of") or [])


def read(path: Path) -> list[Event]:
    """The facts in a file; a torn last line is left out."""
    events = []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return events
    for line in lines:
        try:
            fact = json.loads(line)
        except ValueError:
            continue
        if isinstance(fact, dict) and "what" in fact:
            events.append(Event(fact))
    return events


def _fits(value, want) -> bool:
    return bool(want(value)) if callable(want) else value == want
