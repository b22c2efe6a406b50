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

import ast
import contextlib
import importlib.util
import re
import shlex
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from ..system import textfile
from ..system.errors import UsageError
from ..system.workspace import emptied
from . import catalogue, fences, workspace
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


def run_check(lab_id: str, folder: Path | str, limits: Limits | None = None, session: Session | None = None) -> Outcome:
    """Checks a lab in a trainee's folder. Never raises on account of what is in it; UsageError where there is no such lab.

    ``session``: one that is open already (for running many checks); it stays open.
    """
    begun = time.monotonic()
    lab, folder = catalogue.lab(lab_id), Path(folder)
    try:
        contents = {name: textfile.read(folder / name) for name in lab.files}
    except FileNotFoundError as error:
        name = Path(error.filename).relative_to(folder)
        outcome = CANNOT_CHECK, f"{name} is not in {folder}: `dlojz workspace {folder}` puts a new one there."
    except UsageError as error:
        outcome = CANNOT_CHECK, f"{error}."
    else:
        where = Places(lab, folder, {name: content.text for name, content in contents.items()})
        outcome = _without_running(where, contents) or _by_running(where, folder, limits, session)
    return Outcome(lab.id, *outcome, seconds=round(time.monotonic() - begun, 2))


def _without_running(where: Places, contents: dict[str, textfile.TextFile]) -> tuple | None:
    """State and message where they can be told from the texts alone; else None."""
    if empty := [name for name, content in contents.items() if not content.text.strip()]:
        return CANNOT_CHECK, f"{emptied(empty[0])}."
    if where.not_attempted():
        first = next(iter(where.lab.fences))
        return NOT_ATTEMPTED, f"Its fences are as they came. The first is {first}, {where.line_of(first)}."
    for name, content in contents.items():
        if problem := _no_python(name, content):
            return CANNOT_CHECK, problem
    return None


def _no_python(name: str, content: textfile.TextFile) -> str:
    """Why Python would not run this file; empty where it would begin to."""
    if content.errors != "strict":
        number = next(number for number, line in enumerate(textfile.lines(content.text), 1) if not _is_text(line))
        return f"{name} is not UTF-8 in line {number}, so Python does not run it: save it as UTF-8, then check again."
    try:
        compile(content.path.read_bytes(), name, "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        shown = f": `{error.text.strip()}`" if error.text and error.text.strip() else ""
        return f"{name} is no valid Python{where}: {error.msg}{shown}\nMend {'that line' if where else 'it'}, then check again."
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return f"{name} is no valid Python: {error}\nMend it, then check again."
    return ""


def _is_text(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return False
    return True


def _by_running(where: Places, folder: Path, limits: Limits | None, session: Session | None) -> tuple:
    try:
        if session is not None:
            session.begin(limits)
            try:
                return _judge(where, folder, session)
            finally:
                session.stop()
        with Session(limits) as own:
            return _judge(where, folder, own)
    except HostLost as error:
        return CANNOT_CHECK, f"The script could not be run: {error}."


def _judge(where: Places, folder: Path, session: Session, again: bool = True) -> tuple:
    """``again``: whether a fault that shows outside of the lab's fences is looked for with the kit's answer in them."""
    lab = where.lab
    probe = Probe(session, folder, lab.file, lab.folder / "calls.py", where.written())
    try:
        _check_of(lab)(probe)
        for run in probe.runs:
            for rank in run.ranks:
                rank.finish()
                _goes_on_to_the_end(rank, where)
        _nothing_is_called_unwritten(lab, probe)
    except Unmet as unmet:
        look = where.look(unmet.look)
        state, message = WRONG, f"Seen: {unmet.saw}.\nExpected: {unmet.expected}.\nWhere to look: {look}.{where.untouched()}"
    except Unfinished as stop:
        facts = stop.facts.cause
        state, message = _stopped(facts, where, lambda: again and _ours_would_do(facts, where, folder, session))
    except (UsageError, HostLost):
        raise
    except Exception as error:  # what the trainee has written gave it something that it does not expect
        place = traceback.extract_tb(error.__traceback__)[-1]
        state, message = CANNOT_CHECK, (f"The check itself stops with {type(error).__name__}: {error}, in line {place.lineno} of "
                                        f"{place.filename}.\nThat is a fault of the kit, not of your file.")
    else:
        state, message = SOLVED, ""
    return state, (message + where.damaged()).strip(), tuple(probe.verified), tuple(probe.unverified)


def _goes_on_to_the_end(rank: Facts, where: Places) -> None:
    """An `exit()` in the midst of a training looks like its end to whoever only asks for the exit code."""
    ended = rank.ended
    expect(where.fence_at(ended) is None,
           saw=f"{rank.said} ends with exit code 0 in the midst of it, after {rank.events[-1].step} steps",
           expected="it goes on to its end",
           look=ended)


def _nothing_is_called_unwritten(lab, probe: Probe) -> None:
    """A `todo` that is left beside what works: each run would say in its log, record and views that it goes without it."""
    for run in probe.runs:
        for rank in run.ranks:
            left = rank.first("todo", lab=lab.id)
            expect(left is None,
                   saw=f'`todo("{lab.id}")` is still called, so {rank.said} says that {lab.id} is not written yet and that it '
                       "goes without it",
                   expected="what you have written stands in its place; all else is right",
                   look=left)


def _ours_would_do(facts: Facts, where: Places, folder: Path, session: Session) -> bool:
    """Whether all would be right with the kit's answer in this lab's fences, and the rest of these files as it is."""
    if facts.ended.how not in ("error", "exit", "signal", "completed"):
        return False  # it took long already
    texts = {}
    for name, text in where.texts.items():
        bodies = {fence: at.body for fence, at in catalogue.reference_fences(name).items() if fence in where.lab.stubs}
        try:
            texts[name] = fences.replace(text, bodies, name)
        except fences.FenceError:
            return False
    session.stop()
    session.begin(session.limits)
    with tempfile.TemporaryDirectory(dir=session.folder) as copy:
        for path in (*folder.glob("*.py"), *folder.glob("*/*.py")):
            to = Path(copy, path.relative_to(folder))
            to.parent.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):
                to.write_bytes(path.read_bytes())
        for name, text in texts.items():
            Path(copy, name).write_text(text, encoding="utf-8")
        ours = Places(where.lab, Path(copy), texts)
        return _judge(ours, ours.folder, session, again=False)[0] == SOLVED


def _stopped(facts: Facts, where: Places, ours_would_do: Callable[[], bool]) -> tuple[str, str]:
    """The script ended before the check had seen what it needs: the lab's own fault where its own fence did that, or where
    nothing but what it wrote can have."""
    ended, lab = facts.ended, where.lab
    own = where.fence_at(ended)
    place = f", in {where.line(ended)}" if ended.line else ""
    message = f"Seen: {facts.said} {ended.message}{place}."
    if "NVIDIA driver" in ended.message or "not compiled with CUDA" in ended.message:
        return CANNOT_CHECK, f"{message}\nThat line asks for something that only a real GPU has: check it on a machine with one."
    if ended.how == "broken":
        return CANNOT_CHECK, f"{message}\nThat is a fault of the kit, not of your file."
    if ended.how == "busy":
        return CANNOT_CHECK, (f"{message}\nToo much else runs on this machine, or your file starts too many processes: nothing "
                              "is known of your answer. Check again when less is going on.")
    if "EADDRINUSE" in ended.message:
        return CANNOT_CHECK, (f"{message}\nAnother program of this machine listens on that port: nothing is known of your answer."
                              " Check again; if your own lines choose the port, leave that to what starts the processes.")
    missing = next((name for name in where.beside() if not (where.folder / name).exists()), None)
    if missing and not own:
        return CANNOT_CHECK, f"{message}\n{workspace.missing(where.folder, missing)}."
    if own or (ended.file in (None, *lab.files) and (where.rest_is_as_it_came() or ours_would_do())):
        look = f"the fence {own}" if own else where.needed_by_the_rest(ended.file or facts.script, ended.asked_of)
        expected = "it trains for a few steps and ends" if facts.trains else "it ends without an error"
        if ended.how == "completed":
            expected = "it goes on to what this lab asks for"
        return WRONG, f"{message}\nExpected: {expected}.\nWhere to look: {look}.{where.untouched()}"
    changed = next(iter(where.changed_beside()), None) if ended.file in (None, *lab.files) else ended.file
    also = f", and {changed} is not what it was" if changed and changed != ended.file else ""
    return CANNOT_CHECK, (f"{message}\nThat is outside of this lab's fences{also}: mend it first, then check again."
                          f"{_anew(changed or lab.files[0], where)}")


def _anew(file: str, where: Places) -> str:
    """How to get a file back as it was; empty for one that is the trainee's own."""
    lab = where.lab if file in where.lab.files else next(iter(catalogue.in_file(file)), None)
    if lab:
        what = "lays the file out anew, with what stands in the fences, and keeps yours in backup/"
        return f" Or `dlojz reset {lab.id} --file` {what}."
    if file in catalogue.files():
        return f" Or move it away, and `dlojz workspace {shlex.quote(str(where.folder))}` puts a new one there."
    return ""


def _check_of(lab):
    file = lab.folder / "check.py"
    spec = importlib.util.spec_from_file_location(f"dlojz.labs.{lab.id}.check", file)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FileNotFoundError:
        raise UsageError(f"the lab {lab.id} has no check: {file} is missing") from None
    return module.check


class Places:
    """The trainee's files of a lab in their folder, as texts by name, and how a message names places in them."""

    def __init__(self, lab, folder: Path, texts: dict[str, str]):
        self.lab, self.folder, self.texts = lab, folder, texts
        self.lines = {name: textfile.lines(text) for name, text in texts.items()}
        self.found = {name: fences.find(text, name, lab.stubs) for name, text in texts.items()}

    @property
    def fences(self) -> dict[str, fences.Fence]:
        """Those of the lab that can be used, in order."""
        return {fence: self.found[file].fences[fence] for fence in self.lab.fences
                if fence in self.found[file := self.lab.file_of(fence)].fences}

    def untouched_fences(self) -> list[str]:
        return [name for name, fence in self.fences.items() if fences.same(fence.body, self.lab.stubs[name])]

    def not_attempted(self) -> bool:
        """Whether all fences, of all files, are as they came."""
        return len(self.untouched_fences()) == len(self.lab.stubs)

    def written(self) -> frozenset[str]:
        """The fences of these files, of all labs, in which no stub stands."""
        every = {}
        for name, text in self.texts.items():
            stubs = catalogue.stubs_in(name)
            found = fences.find(text, name, catalogue.reference_fences(name)).fences
            every |= {fence: at for fence, at in found.items() if fence not in stubs or not fences.same(at.body, stubs[fence])}
        return frozenset(every)

    def look(self, at) -> str:
        if isinstance(at, str):
            return f"the fence {at}, {self.line_of(at)}" if at in self.fences else f"where the fence {at} was"
        return self.line(at) if at and at.line else f"the fences of {self.lab.id} in {' and '.join(self.texts)}"

    def needed_by_the_rest(self, file: str, names: list[str]) -> str:
        """Where to look when what is outside can't do with what the fences of this file give it, or these functions of it."""
        here = [fence for fence in self.fences if self.lab.file_of(fence) == file] or list(self.fences)
        if names and file in self.texts:
            spans = [(node.lineno, node.end_lineno) for node in ast.parse(self.texts[file]).body
                     if getattr(node, "name", "") in names]
            here = [fence for fence in here if any(begin < self.fences[fence].last and self.fences[fence].first < end
                                                   for begin, end in spans)] or here
        if len(here) == 1:
            return f"{self.look(here[0])}, and what the rest of the file needs from it"
        among = f" in {file}" if len(here) < len(self.fences) else ""
        return f"the fences of {self.lab.id}{among}, and what the rest of the file needs from them"

    def line_of(self, fence: str) -> str:
        """Where one of its fences begins."""
        return f"line {self.fences[fence].first} of {self.lab.file_of(fence)}"

    def line(self, event) -> str:
        lines = self.lines.get(event.file, ())
        if not 0 < event.line <= len(lines):
            return f"line {event.line} of {event.file}"
        return f"line {event.line} of {event.file}, `{textfile.shown(lines[event.line - 1].strip())}`"

    def fence_at(self, event) -> str | None:
        if not event.line or event.file not in self.found:
            return None
        found = self.found[event.file].fences.values()
        return next((fence.id for fence in found if fence.first < event.line < fence.last), None)

    def rest_is_as_it_came(self) -> bool:
        """Whether everything but this lab's fences is the kit's, so that what goes wrong comes from these."""
        return all(self._rest_is_as_it_came(name, text) for name, text in self.texts.items()) and not self.changed_beside()

    def beside(self) -> list[str]:
        """The kit's other files that these import."""
        imported = set(re.findall(r"(?m)^[ \t]*(?:import|from)[ \t]+(\w+)", "\n".join(self.texts.values())))
        return [name for name in catalogue.files() if name not in self.texts and name.removesuffix(".py") in imported]

    def changed_beside(self) -> list[str]:
        """Those of them that were changed outside of their fences, or can't be read."""
        return [name for name in self.beside() if self._skeleton(self.folder / name) != self._skeleton(catalogue.reference(name))]

    @staticmethod
    def _skeleton(path: Path) -> str | None:
        try:
            return fences.skeleton(textfile.read(path).text)
        except (OSError, UsageError):
            return None

    def _rest_is_as_it_came(self, name: str, text: str) -> bool:
        if fences.skeleton(text) != fences.skeleton(catalogue.reference(name).read_text(encoding="utf-8")):
            return False
        every, stubs = catalogue.reference_fences(name), catalogue.stubs_in(name)
        others = [fence for fence in fences.find(text, name, every).fences.values() if fence.id not in self.lab.stubs]
        return all(fences.same(fence.body, every[fence.id].body) or fences.same(fence.body, stubs.get(fence.id, ""))
                   for fence in others)

    def untouched(self) -> str:
        """A line that names the fences in which the stub still stands."""
        left = self.untouched_fences()
        return f"\nStill as {'it' if len(left) == 1 else 'they'} came: {', '.join(left)}." if left else ""

    def damaged(self) -> str:
        """Lines that say which fences are gone or damaged: the code may be right all the same, but the verbs need them."""
        said = []
        for name in self.lab.stubs:
            try:
                _ = self.found[self.lab.file_of(name)][name]
            except fences.FenceError as error:
                said.append(f"\nNote: {error}.")
        return "".join(said)
