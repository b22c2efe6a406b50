"""Running a lab's check: `run_check`, and what a check.py is written with.

A check is a function ``check(probe)`` in the lab's check.py. It asks the probe for runs of the trainee's file and says what
must hold; `dlojz.labs.probe.observe` lists the facts that there are::

    def check(probe):
        run = probe.run("--device cuda", gpus=2)
        model = run.need("model", training=True)
        expect(set(model.devices) == {"cuda:0"}, saw=…, expected=…, look="gpu.model")
        probe.verified.append("the model's weights are on the GPU")

The first expectation that is not met ends it. Where the script ends before the check has seen what it needs, `run_check`
says so.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

from ..errors import UsageError
from . import catalogue, fences, textfile
from .outcome import CANNOT_CHECK, NOT_ATTEMPTED, SOLVED, WRONG, Outcome
from .probe import Facts, HostLost, Limits, Probe, Session, Unfinished


class Unmet(Exception):
    """An expectation of a check that does not hold."""

    def __init__(self, saw: str, expected: str, look):
        super().__init__(saw)
        self.saw, self.expected, self.look = saw, expected, look


def expect(holds: bool, *, saw: str, expected: str, look) -> None:
    """Ends the check with these words unless ``holds``.

    ``look``: where the learner should look: the id of a fence, or a fact, whose line it is.
    """
    if not holds:
        raise Unmet(saw, expected, look)


def run_check(lab_id: str, file: Path | str, limits: Limits | None = None, session: Session | None = None) -> Outcome:
    """Checks a lab in a trainee's file. Never raises on account of what is in that file; UsageError where there is no such lab.

    ``session``: one that is open already (for running many checks); it stays open.
    """
    begun = time.monotonic()
    lab, file = catalogue.lab(lab_id), Path(file)
    outcome = _without_running(lab, file)
    if outcome is None:
        text = textfile.read(file).text
        outcome = _by_running(lab, file, text, limits, session)
    return Outcome(lab.id, *outcome, seconds=round(time.monotonic() - begun, 2))


def _without_running(lab, file: Path) -> tuple | None:
    """State and message where they can be told from the text alone; else None."""
    try:
        content = textfile.read(file)
    except FileNotFoundError:
        return CANNOT_CHECK, f"{file.name} is not in {file.parent}: `dlojz workspace {file.parent}` puts a new one there."
    except UsageError as error:
        return CANNOT_CHECK, f"{error}."
    found = fences.find(content.text, file.name, lab.stubs)
    whole = not found.problems and len(found.fences) == len(lab.stubs)
    if whole and all(fences.same(fence.body, lab.stubs[name]) for name, fence in found.fences.items()):
        first = next(iter(found.fences.values()))
        return NOT_ATTEMPTED, f"Its fences are as they came. The first is {first.id}, in line {first.first} of {file.name}."
    if content.errors != "strict":
        number = next(number for number, line in enumerate(textfile.lines(content.text), 1) if not _is_text(line))
        where = f"{file.name} is not UTF-8 in line {number}"
        return CANNOT_CHECK, f"{where}, so Python does not run it: save it as UTF-8, then check again."
    try:
        compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        shown = f": `{error.text.strip()}`" if error.text and error.text.strip() else ""
        return CANNOT_CHECK, f"{file.name} is no valid Python{where}: {error.msg}{shown}\nMend that line, then check again."
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return CANNOT_CHECK, f"{file.name} is no valid Python: {error}\nMend it, then check again."
    return None


def _is_text(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def _by_running(lab, file: Path, text: str, limits: Limits | None, session: Session | None) -> tuple:
    try:
        if session is not None:
            session.begin(limits)
            try:
                return _judge(lab, Probe(session, file, _written(lab, text)), text)
            finally:
                session.stop()
        with Session(limits) as own:
            return _judge(lab, Probe(own, file, _written(lab, text)), text)
    except HostLost as error:
        return CANNOT_CHECK, f"The script could not be run: {error}."


def _judge(lab, probe: Probe, text: str) -> tuple:
    where = Places(lab, probe.script.name, text)
    try:
        _check_of(lab)(probe)
        for run in probe.runs:
            if not run.completed:
                raise Unfinished(run)
    except Unmet as unmet:
        look = where.look(unmet.look)
        state, message = WRONG, f"Seen: {unmet.saw}.\nExpected: {unmet.expected}.\nWhere to look: {look}.{where.untouched()}"
    except Unfinished as stop:
        state, message = _stopped(stop.facts, where)
    else:
        state, message = SOLVED, ""
    return state, (message + where.damaged()).strip(), tuple(probe.verified), tuple(probe.unverified)


def _stopped(facts: Facts, where: Places) -> tuple[str, str]:
    """The script ended before the check had seen what it needs: the lab's own fault where its own fence did that."""
    ended = facts.ended
    own = where.fence_at(ended)
    place = f", in {where.line(ended)}" if ended.line else ""
    message = f"Seen: `{facts.command}` {ended.message}{place}."
    if "NVIDIA driver" in ended.message or "not compiled with CUDA" in ended.message:
        return CANNOT_CHECK, f"{message}\nThat line asks for something that only a real GPU has: check it on a machine with one."
    if ended.how == "broken":
        return CANNOT_CHECK, f"{message}\nThat is a fault of the kit, not of your file."
    if own or (ended.file in (None, where.name) and where.rest_is_as_it_came()):
        look = f"the fence {own}" if own else f"the fences of {where.lab.id}, and what the rest of the file needs from them"
        return WRONG, f"{message}\nExpected: it trains for a few steps and ends.\nWhere to look: {look}.{where.untouched()}"
    return CANNOT_CHECK, f"{message}\nThat is outside of this lab's fences: mend it first, then check again."


def _check_of(lab):
    file = lab.folder / "check.py"
    spec = importlib.util.spec_from_file_location(f"dlojz.labs.{lab.id}.check", file)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError:
        raise UsageError(f"the lab {lab.id} has no check: {file} is missing") from None
    return module.check


def _written(lab, text: str) -> frozenset[str]:
    """The fences of the file, of all labs, in which no stub stands."""
    stubs = {name: body for other in catalogue.in_file(lab.file) for name, body in other.stubs.items()}
    every = catalogue.reference_fences(lab.file)
    found = fences.find(text, lab.file, every).fences
    return frozenset(name for name, fence in found.items() if name not in stubs or not fences.same(fence.body, stubs[name]))


class Places:
    """Names the places of a trainee's file for a message."""

    def __init__(self, lab, name: str, text: str):
        self.lab, self.name, self.text = lab, name, text
        self.lines = textfile.lines(text)
        self.found = fences.find(text, name, lab.stubs)

    def look(self, at) -> str:
        if isinstance(at, str):
            fence = self.found.fences.get(at)
            return f"the fence {at}, line {fence.first} of {self.name}" if fence else f"where the fence {at} was"
        return self.line(at) if at and at.line else f"the fences of {self.lab.id} in {self.name}"

    def line(self, event) -> str:
        if event.file != self.name or not 0 < event.line <= len(self.lines):
            return f"line {event.line} of {event.file}"
        return f"line {event.line} of {self.name}, `{textfile.shown(self.lines[event.line - 1].strip())}`"

    def fence_at(self, event) -> str | None:
        if not event.line or event.file != self.name:
            return None
        return next((fence.id for fence in self.found.fences.values() if fence.first < event.line < fence.last), None)

    def rest_is_as_it_came(self) -> bool:
        """Whether everything but this lab's fences is the kit's, so that what goes wrong comes from these."""
        mine, every = self.lab.stubs, catalogue.reference_fences(self.lab.file)
        if fences.skeleton(self.text) != fences.skeleton(catalogue.reference(self.lab.file).read_text(encoding="utf-8")):
            return False
        stubs = {name: body for other in catalogue.in_file(self.lab.file) for name, body in other.stubs.items()}
        others = [fence for fence in fences.find(self.text, self.name, every).fences.values() if fence.id not in mine]
        return all(fences.same(fence.body, every[fence.id].body) or fences.same(fence.body, stubs.get(fence.id, ""))
                   for fence in others)

    def untouched(self) -> str:
        """A line that names the fences in which the stub still stands."""
        left = [name for name, fence in self.found.fences.items() if fences.same(fence.body, self.lab.stubs[name])]
        return f"\nStill as {'it' if len(left) == 1 else 'they'} came: {', '.join(left)}." if left else ""

    def damaged(self) -> str:
        """Lines that say which fences are gone or damaged: the code may be right all the same, but the verbs need them."""
        said = []
        for name in self.lab.stubs:
            try:
                _ = self.found[name]
            except fences.FenceError as error:
                said.append(f"\nNote: {error}.")
        return "".join(said)
