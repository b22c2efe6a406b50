"""Running a lab's check: `run_check`, and what a check.py is written with.

A check is a function ``check(probe)`` in the lab's check.py. It asks the probe for runs of the trainee's file beside the kit's
own and says which fact belongs to which fence; `dlojz.labs.probe.observe` lists the facts that there are::

    def check(probe):
        both = probe.beside("--device cuda", gpus=2)
        both.same("model.devices", look="gpu.model", saw="weights and buffers are on {mine}", expected="all are on {kits}",
                  claim="the model's weights are on the GPU")
        both.holds(waits_for_nothing)

What comparing cannot say is a `claim`, or an `expect` over the facts of a run. The first trouble ends the check. Then the fences
are tried out, the kit's body in one after the other, and the one that mends it is named.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from ..system import textfile
from ..system.errors import UsageError
from ..system.shown import shown
from ..system.workspace import emptied
from . import catalogue, fences, workspace
from .outcome import CANNOT_CHECK, NOT_ATTEMPTED, SOLVED, WRONG, Outcome
from .probe import Facts, HostLost, Limits, Pair, Probe, Session, Trouble, Unfinished, Unmet, claim, expect, lost_another

__all__ = ["claim", "expect", "run_check"]


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
        return NOT_ATTEMPTED, where.nothing_written()
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
        where = f", line {error.lineno}" if error.lineno else ""
        shown = f": `{error.text.strip()}`" if error.text and error.text.strip() else ""
        return f"{name} is not valid Python{where}: {error.msg}{shown}\nFix {'that line' if where else 'it'}, then check again."
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return f"{name} is not valid Python: {error}\nFix it, then check again."
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


def _judge(where: Places, folder: Path, session: Session) -> tuple:
    lab = where.lab
    probe = Probe(session, folder, lab.file, lab.folder / "calls.py", where.written(), lab)
    verified = probe.verified
    try:
        state, message = _judged(where, probe)
    except Unmet as unmet:
        look = where.look(unmet.look)
        state, message = WRONG, f"Seen: {unmet.saw}.\nExpected: {unmet.expected}.\nWhere to look: {look}.{where.untouched()}"
    except Unfinished as stop:
        state, message = _stopped(stop.facts.cause, where, probe)
    except (UsageError, HostLost):
        raise
    except Exception as error:  # what the trainee has written gave it something that it does not expect
        place = traceback.extract_tb(error.__traceback__)[-1]
        state, message = CANNOT_CHECK, (f"The check itself stops with {type(error).__name__}: {error}, in line {place.lineno} of "
                                        f"{place.filename}.\nThat is a fault of the kit, not of your file.")
    return state, (message + where.damaged()).strip(), tuple(dict.fromkeys(verified)), tuple(dict.fromkeys(probe.unverified))


def _judged(where: Places, probe: Probe) -> tuple[str, str]:
    _check_of(where.lab)(probe)
    for number, pair in enumerate(probe.pairs):
        if (refused := _compared(pair, where, probe)) is not None:
            open_ = {sentence for each in probe.pairs[number:] for sentence in each.sentences}  # it takes all of them to say so
            probe.verified[:] = [sentence for sentence in probe.verified if sentence not in open_]
            return refused
        probe.verified += pair.sentences
    for run in probe.runs:
        for rank in run.ranks:
            rank.finish()
            _goes_on_to_the_end(rank, where)
    _nothing_is_called_unwritten(where.lab, probe)
    return SOLVED, ""


def _compared(pair: Pair, where: Places, probe: Probe) -> tuple[str, str] | None:
    """State and message where the trainee's run does not do what the kit's does; else None."""
    stopped = next((rank for rank in pair.kits_runs if not rank.completed), None)
    if stopped is not None:
        return _kits_stopped(pair, stopped.cause, where)
    if (failed := pair.mine.first("kits")) is not None:
        return CANNOT_CHECK, f"The kit's own function stops with {failed.error}.\nThat is a fault of the kit, not of your file."
    pair.settle()
    trouble = pair.trouble()
    if trouble is None:
        return None
    if trouble.stopped:
        return _stopped(trouble.stopped, where, probe, pair)
    tried, others = probe.copies.answered(), probe.copies.others()
    if others and pair.trouble(next(_once_more(probe, pair.mine, [others]))) is None:
        if not trouble.named:
            return None  # it comes from what the trainee has written for another lab, and this one does not ask for it
        tried = others
    mends = _mending(probe, pair.mine, where.likely_first(tried, trouble), lambda run: pair.trouble(run) is None)
    look = where.blamed(mends, trouble)
    return WRONG, f"Seen: {trouble.saw}.\nExpected: {trouble.expected}.\nWhere to look: {look}.{where.untouched()}"


def _once_more(probe: Probe, run: Facts, swaps: list[list[str]]) -> Iterator[Facts]:
    """This run with the kit's body in these fences, once for each list of them, all at a time."""
    probe.session.restart_clock()
    return iter([probe.again(run, swapped) for swapped in swaps])


def _mending(probe: Probe, run: Facts, tried: list[str], is_well: Callable[[Facts], bool]) -> str:
    """The first of these fences with whose kit's body alone the run is well. One that is the only one needs no trying."""
    if len(tried) < 2 or run.ended.how in ("time", "busy", "memory", "alone"):  # it took long already
        return tried[0] if len(tried) == 1 else ""
    probe.session.stop()  # the check is refused: nobody waits for its other runs
    swapped = _once_more(probe, run, [[fence] for fence in tried])
    return next((fence for fence, facts in zip(tried, swapped) if is_well(facts)), "")


def _kits_stopped(pair: Pair, stopped: Facts, where: Places) -> tuple[str, str]:
    """The kit's own answer does not run with what is around the fences."""
    ended = stopped.ended
    if ended.how in ("busy", "broken"):
        return _stopped(stopped, where, None)
    place = f", in {where.line(ended)}" if ended.line else ""
    outside = pair.mine.cause
    seen = f"Seen: with the kit's own answer in your fences {stopped.said} {ended.message}{place}."
    if not outside.completed and outside.ended.message == ended.message:
        return _stopped(outside, where, None)
    return CANNOT_CHECK, f"{seen}\nThat is outside this lab's fences. Fix it first, then check again.{where.anew(ended.file)}"


def _goes_on_to_the_end(rank: Facts, where: Places) -> None:
    """An `exit()` inside a training looks like its end to whoever only asks for the exit code."""
    ended = rank.ended
    expect(where.fence_at(ended) is None, saw=f"{rank.said} exits early, with exit code 0 after {rank.steps} steps",
           expected="it runs to completion", look=ended)


def _nothing_is_called_unwritten(lab, probe: Probe) -> None:
    """A `todo` that is left beside what works: each run would say in its log, record and views that it goes without it."""
    for run in probe.runs:
        for rank in run.ranks:
            left = rank.first("todo", lab=lab.id)
            expect(left is None,
                   saw=f'`todo("{lab.id}")` is still called, so {rank.said} says that {lab.id} is not written yet',
                   expected="only your code, without the `todo` call; everything else is right",
                   look=left)


def _stopped(facts: Facts, where: Places, probe: Probe | None, pair: Pair | None = None) -> tuple[str, str]:
    """The script ended before the check had seen what it needs: the lab's own fault where its own fence did that, or where
    the run is well with the kit's body in them. ``probe``: to try that; None where it has been tried in vain. ``pair``: where it
    is known that the kit's run is well."""
    ended, lab = facts.ended, where.lab
    own = where.fence_at(ended)
    place = f", in {where.line(ended)}" if ended.line else ""
    message = f"Seen: {facts.said} {ended.message}{place}."
    if ended.how == "broken":
        return CANNOT_CHECK, f"{message}\nThat is a fault of the kit, not of your file."
    if ended.how == "busy":
        return CANNOT_CHECK, (f"{message}\nThis machine is too busy, or your file starts too many processes, so the check cannot "
                              "judge your answer. Try again when the machine is less busy.")
    if "EADDRINUSE" in ended.message:
        return CANNOT_CHECK, (f"{message}\nAnother program on this machine uses that port, so the check cannot judge your answer."
                              " Check again. If your code chooses the port, let the launcher choose it.")
    missing = next((name for name in where.beside() if not (where.folder / name).exists()), None)
    if missing and not own:
        return CANNOT_CHECK, f"{message}\n{workspace.missing(where.folder, missing)}."
    mends, ours = "", own is not None
    if probe is not None:
        mends, ours = _mended(facts, where, probe, pair, own)
    if ("NVIDIA driver" in ended.message or "not compiled with CUDA" in ended.message) and not (pair and ours):
        return CANNOT_CHECK, f"{message}\nThat line needs a real GPU: check it on a machine that has one."
    if ours:
        if own and mends in ("", own):
            look = f"the fence {own}"
        elif mends:
            look = where.look(mends)
        else:
            look = where.needed_by_the_rest(ended.file or facts.script, ended.asked_of)
        expected = "it trains for a few steps and ends" if facts.trains else "it ends without an error"
        if len(facts.ranks) > 1 and (lost_another(ended) or ended.how == "time"):
            expected = "all processes make the same collective calls, in the same order, or the first to wait waits for ever"
        if ended.how == "completed":
            expected = "it runs until it reaches what this lab asks for"
        return WRONG, f"{message}\nExpected: {expected}.\nWhere to look: {look}.{where.untouched()}"
    changed = next(iter(where.changed_beside()), None) if ended.file in (None, *lab.files) else ended.file
    also = f", and {changed} was changed" if changed and changed != ended.file else ""
    return CANNOT_CHECK, (f"{message}\nThat is outside this lab's fences{also}. Fix it first, then check again."
                          f"{where.anew(changed)}")


def _mended(facts: Facts, where: Places, probe: Probe, pair: Pair | None, own: str | None) -> tuple[str, bool]:
    """The fence of this lab whose kit's body alone mends a run that has stopped, ``own`` if it does (empty: none, or not tried),
    and whether all of them together do."""
    def is_well(run: Facts) -> bool:
        return run.cause.completed if pair is None else pair.trouble(run) is None

    answered, copies = probe.copies.answered(), probe.copies
    if facts.ended.how not in ("error", "exit", "signal", "completed"):  # it took long already
        nothing_else = not copies.others() if pair is not None else where.rest_is_as_it_came()
        return answered[0] if len(answered) == 1 and nothing_else else "", own is not None or nothing_else
    all_of_it = copies.lab_fences()
    if copies.damaged() or facts.request is None:
        return "", own is not None or where.rest_is_as_it_came()
    tried = sorted(answered, key=lambda fence: fence != own) if len(answered) > 1 else []
    probe.session.stop()
    together, *alone = _once_more(probe, facts, [all_of_it, *([fence] for fence in tried)])
    well = is_well(together)
    if not tried:
        return answered[0] if answered and well else "", well or own is not None
    return next((fence for fence, run in zip(tried, alone) if is_well(run)), ""), well or own is not None


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
        """Whether all fences, of all files, are unchanged."""
        return len(self.untouched_fences()) == len(self.lab.stubs)

    def nothing_written(self) -> str:
        first = next(iter(self.lab.fences))
        said = f"You have not edited its fences yet. The first is {first}, {self.line_of(first)}. If you have: is the file saved?"
        for name, text in self.texts.items():
            if number := fences.first_change(text, catalogue.reference(name).read_text(encoding="utf-8")):
                line = shown(self.lines[name][number - 1].strip())
                return (f"{said}\nOutside of the fences {name} differs from the kit's, first in line {number}, `{line}`: "
                        "what you write for this lab goes between the two comments of a fence.")
        return said

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

    def likely_first(self, tried: list[str], trouble: Trouble) -> list[str]:
        """These fences, first the one that the check names for this mistake, then the one that holds the line that led to it."""
        likely = [trouble.look, trouble.event is not None and self.fence_at(trouble.event)]
        return sorted(tried, key=lambda fence: likely.index(fence) if fence in likely else len(likely))

    def blamed(self, fence: str, trouble: Trouble) -> str:
        """Where to look: this fence, which was found to be the one, and in it the line that led to it."""
        if not fence:
            return self.look(trouble.look if trouble.look is not None else trouble.event)
        own = self.fence_at(trouble.event) if trouble.event is not None else None
        lab = next((lab for lab in catalogue.labs().values() if lab.owns(fence)), self.lab)
        if own == fence:
            return f"the fence {fence}, {self.line(trouble.event)}"
        return self.look(fence) if lab is self.lab else f"the fence {fence}, of the lab {lab.id}"

    def anew(self, file: str | None) -> str:
        """How to get a file back as it was; empty for one that is the trainee's own."""
        file = file or self.lab.files[0]
        lab = self.lab if file in self.lab.files else next(iter(catalogue.in_file(file)), None)
        if lab:
            what = "rewrites the file, keeps the code in your fences, and saves your version in backup/"
            return f" Or `dlojz reset {lab.id} --file` {what}."
        if file in catalogue.files():
            return f" Or move it away, and `dlojz workspace {shlex.quote(str(self.folder))}` puts a new one there."
        return ""

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
        return f"line {event.line} of {event.file}, `{shown(lines[event.line - 1].strip())}`"

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
        return f"\nNot edited yet: {', '.join(left)}." if left else ""

    def damaged(self) -> str:
        """Lines that say which fences are gone or damaged: the code may be right all the same, but the verbs need them."""
        said = []
        for name in self.lab.stubs:
            try:
                _ = self.found[self.lab.file_of(name)][name]
            except fences.FenceError as error:
                said.append(f"\nNote: {error}.")
        return "".join(said)
