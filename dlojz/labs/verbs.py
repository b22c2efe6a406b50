"""The verbs of a lab: `edit`, `check`, `hint`, `diff`, `solve`, `reset`, `catch_up`.

Each works on one lab's fences and on nothing else. They take a lab's id (``amp``), or that of one of its fences (``amp.forward``)
where one fence makes sense.
"""

from __future__ import annotations

import dataclasses
import hashlib
import html
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..system import suggest, textfile, workspace
from ..system.errors import UsageError
from ..system.shown import shown
from ..system.workspace import emptied
from ..ui import messages
from ..ui.notebook import plain_wanted
from . import catalogue, events, fences
from .catalogue import Lab
from .outcome import CANNOT_CHECK, WRONG, Outcome
from .workspace import missing

Texts = dict[str, textfile.TextFile]  # the files of a lab, by name


@dataclass(frozen=True)
class Target:
    """A lab's fences, or one of them, in the files of a workspace."""

    lab: Lab
    here: Path
    names: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """The files that hold these fences."""
        return [file for file in self.lab.files if any(self.lab.file_of(name) == file for name in self.names)]

    @property
    def place(self) -> str:
        """These files, in words."""
        *others, last = self.files
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def solved(self) -> str:
        return f"{self.place} now {'has' if len(self.files) == 1 else 'have'} the kit's solution"

    def read(self) -> Texts:
        """Raises UsageError that says how to get a missing file back."""
        return {file: self._read(file) for file in self.files}

    def _read(self, file: str) -> textfile.TextFile:
        try:
            content = textfile.read(self.here / file)
        except FileNotFoundError:
            raise missing(self.here, file) from None
        if not content.text.strip():
            raise emptied(file)
        return content

    def found(self, texts: Texts) -> dict[str, fences.Fence]:
        """The fences, as they stand. Raises UsageError where one is gone or damaged, and says what to do."""
        found = {name: fences.find(file.text, name, catalogue.reference_fences(name)) for name, file in texts.items()}
        try:
            return {name: found[self.lab.file_of(name)][name] for name in self.names}
        except fences.FenceError as error:
            anew = (f"Or `dlojz reset {self.lab.id} --file` rewrites the file with the code of every fence that it can read, and "
                    "saves your version in backup/")
            raise UsageError(f"{error}{self._where(error, texts)}. {anew}") from None

    def _where(self, error: fences.FenceError, texts: Texts) -> str:
        """Where a fence belongs of which nothing is left: after the line that stands before it in the reference."""
        if error.line is not None:
            return ""
        name = self.lab.file_of(error.fence)
        kit = textfile.lines(catalogue.reference(name).read_text(encoding="utf-8"))
        above = kit[: self.lab.fences[error.fence].first - 1]
        anchor = next((line.strip() for line in reversed(above) if line.strip()), "")
        at = [number for number, line in enumerate(textfile.lines(texts[name].text), 1) if line.strip() == anchor]
        old = workspace.older(self.here)
        where = f". They belong after line {at[0]}, `{anchor}`" if len(at) == 1 else ""
        return where + (f". But {old}" if old else "")

    def untouched(self, found: dict[str, fences.Fence]) -> bool:
        return all(fences.same(found[name].body, self.lab.stubs[name]) for name in self.names)

    def same_as_kit(self, found: dict[str, fences.Fence]) -> bool:
        return all(fences.same(found[name].body, self.lab.fences[name].body) for name in self.names)

    def put(self, texts: Texts, bodies: dict, why: str, keep: bool) -> str:
        """Other bodies into the fences; says where what stood there is kept, where it is to be kept."""
        new = {name: fences.replace(file.text, {each: bodies[each] for each in bodies if self.lab.file_of(each) == name}, name,
                                    catalogue.reference_fences(name)) for name, file in texts.items()}
        changed = [name for name, file in texts.items() if new[name] != file.text]
        for name in changed:
            texts[name].encode(new[name])  # raises before anything is written
        kept = textfile.back_up(self.here, changed, f"{why}_{self.lab.id}") if keep and changed else []
        for name in changed:
            texts[name].write(new[name])
        return kept_as(self.here, kept)


def kept_as(here: Path, kept: list[Path]) -> str:
    """Says where the copies of files are."""
    where = " and ".join(str(path.relative_to(here)) for path in kept)
    return f" Your previous {'file' if len(kept) == 1 else 'files'}: {where}." if kept else ""


def target(name: str) -> Target:
    """The lab or fence of that name in the workspace we are in. Raises UsageError."""
    here = workspace.find()
    workspace.refuse_newer(here)
    if isinstance(name, str) and name not in catalogue.labs() and catalogue.is_id(name.split(".")[0]) and "." in name:
        lab = catalogue.lab(name.split(".")[0])
        if name not in lab.fences:
            guess = suggest.hint(name, lab.fences)
            raise UsageError(f"the lab {lab.id} has no fence {name!r}: {guess}Choose from {', '.join(lab.fences)}")
        return Target(lab, here, (name,))
    lab = catalogue.lab(name)
    return Target(lab, here, tuple(lab.fences))


def fingerprint(found: dict[str, fences.Fence]) -> str:
    """What stands in these fences, as a short text that tells one state from another."""
    return hashlib.sha256("\0".join(f"{name}\0{fence.body}" for name, fence in sorted(found.items()))
                          .encode("utf-8", "surrogateescape")).hexdigest()[:16]


def edit(lab: str) -> messages.Shown:
    """Where to write: the fences of a lab (or one), each as a link that opens its file there. Raises UsageError."""
    at = target(lab)
    found = at.found(at.read())
    texts, rows = [], []
    for name, fence in found.items():
        file, title = at.lab.file_of(name), at.lab.fences[name].title
        state = "not edited yet" if fences.same(fence.body, at.lab.stubs[name]) else "written"
        texts.append([f"{file}:{fence.first}", name, title, state])
        # An editor scrolls no further than it must, and shows the line as its lowest: so the fence's last one, to see all of it.
        line = max(fence.first + 1, fence.last - 1)
        there = messages.link(os.path.relpath(at.here / file), line, f"{file}, line {fence.first}")
        place = f'<span style="white-space: nowrap">{there}</span>'
        rows.append([place, f"<code>{html.escape(name)}</code>", html.escape(title), state])
    return messages.Shown(messages.table(["where", "fence", "what it does", "state"], texts), messages.rows_html(rows))


def check(lab: str) -> Outcome:
    """Whether a lab is solved, from what the trainee's code does; what the check said is kept in progress.jsonl.

    Raises UsageError where there is no such lab, or no workspace.
    """
    at = target(lab)
    lacking = next((file for file in at.lab.files if not (at.here / file).exists()), None)
    if lacking:
        return _noted(at, Outcome(at.lab.id, CANNOT_CHECK, f"{missing(at.here, lacking)}."), "")
    old, stood = workspace.older(at.here), ""
    try:
        stood = fingerprint(at.found(at.read()))
    except UsageError as error:  # a damaged fence, or a file that can't be read: the check says so
        gone = isinstance(error.__context__, fences.FenceError) and error.__context__.line is None
        if old and gone:  # an earlier kit may not have had it
            return _noted(at, Outcome(at.lab.id, CANNOT_CHECK, f"The fence {error.__context__.fence} is not there: {old}."), "")
    from .checking import run_check  # brings what starts processes

    outcome = run_check(at.lab.id, at.here)
    if old:
        outcome = dataclasses.replace(outcome, message=f"{outcome.message}\nAlso, {old}.".lstrip("\n"))
    return _noted(at, outcome, stood)


def _noted(at: Target, outcome: Outcome, stood: str) -> Outcome:
    from . import room

    known = {"mistake": room.mistake(at.lab, outcome.message)} if outcome.state == WRONG else {}
    lost = events.note(at.here, "check", at.lab.id, outcome=outcome.state.lower(), fences=stood, **known)
    message = "\n".join(filter(None, [outcome.message, lost]))
    return dataclasses.replace(outcome, message=message, asks=room.asks(at.here, at.lab.id) if outcome else None)


def hint(lab: str, step: int | None = None) -> messages.Shown:
    """The next of the three hints of a lab; or one of those that were shown already. Raises UsageError."""
    at = target(lab)
    steps = at.lab.hints
    mine = [event for event in events.read(at.here) if event["event"] == "hint" and event["lab"] == at.lab.id]
    last = max((event.get("step", 0) for event in mine), default=0)
    if step is None:
        step = min(last + 1, len(steps))
    if isinstance(step, bool) or not isinstance(step, int):
        raise UsageError(f"step={step!r} is no number of a hint: give 1 to {len(steps)}")
    if step > len(steps) and last == len(steps):
        raise UsageError(f"there is no hint {step} of {at.lab.id}: there are {len(steps)}, and you have seen them all")
    kept = step <= last + 1 or events.can_be_kept(at.here)  # else nobody knows how many have been seen
    if not 1 <= step <= (min(last + 1, len(steps)) if kept else len(steps)):
        raise UsageError(f"there is no hint {step} of {at.lab.id} yet: the next one is {min(last + 1, len(steps))}")
    lost = events.note(at.here, "hint", at.lab.id, step=step) if step > last else ""
    title = f"Hint {step} of {len(steps)} for {at.lab.id}"
    number, option = (f", step={step + 1}", f" --step {step + 1}") if lost else ("", "")
    more = (f'the next one: hint("{at.lab.id}"{number}), in a shell dlojz hint {at.lab.id}{option}' if step < len(steps) else
            f'there are no more hints; diff("{at.lab.id}") shows yours beside the kit\'s')
    page = messages.headline(title) + messages.markdown(steps[step - 1]) + messages.lines(more)
    return messages.Shown(f"{title}\n\n{steps[step - 1]}\n\n({more})", page).also(lost)


def diff(lab: str) -> messages.Shown:
    """The fences of a lab (or one fence), the trainee's beside the kit's. Progress notes that the solution was seen."""
    at = target(lab)
    found = at.found(at.read())
    lost = events.note(at.here, "looked", at.lab.id, by="diff")
    texts, pages = [], []
    for name in at.names:
        yours, kits = found[name], at.lab.fences[name]
        head = f"{name}: {kits.title} ({at.lab.file_of(name)}, lines {yours.first} to {yours.last})"
        same = " The same program." if fences.same(yours.body, kits.body) else ""
        titles = ("yours", "the kit's")
        texts.append(f"{head}{same}\n{messages.side_by_side(shown(yours.body), kits.body, titles)}")
        pages.append(messages.headline(head + same) + messages.side_by_side_html(yours.body, kits.body, titles))
    return messages.Shown("\n\n".join(texts), "".join(pages)).also(lost)


class Question(messages.Shown):
    """Nothing has been done: a notebook shows a button that does it, or one for each answer; anything else says how.

    ``acts``: what each button does, by its words.
    """

    def __init__(self, words: str, how: str, acts: dict[str, Callable[[], messages.Shown]]):
        super().__init__(f"{words} {how}", messages.lines(words, how))
        self.words, self.acts = words, acts

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if plain_wanted():
            return {"text/plain": self.text}
        from .widgets import question_form

        return question_form(self.words, self.acts)._repr_mimebundle_() | {"text/plain": self.text}


def solve(lab: str, yes: bool = False) -> messages.Shown:
    """Put the kit's solution into the fences of a lab (or one fence). Asks first, unless ``yes``; what stood there is kept.

    Progress notes that the solution was seen. Raises UsageError.
    """
    at = target(lab)
    name = lab if len(at.names) == 1 else at.lab.id
    found = at.found(at.read())
    if at.same_as_kit(found):
        return messages.Shown(f"{name}: {at.place} already has the kit's solution. Nothing was changed.")
    words = f"This writes the kit's solution of {name} into {at.place}, and records in your progress that you have seen it."
    if not at.untouched(found):
        words += " What you wrote there is kept in backup/."
    if not yes and plain_wanted() and _at_a_terminal():
        yes = input(f"{words} Continue? [y/N] ").strip().lower() in ("y", "yes")
        if not yes:
            return messages.Shown("Nothing was changed.")
    if not yes:
        how = f'Nothing was changed. To confirm: solve("{name}", yes=True), in a shell `dlojz solve --yes {name}`'
        return Question(words, how, {f"Put the solution of {name} into {at.place}": lambda: _solve(name)})
    return _solve(name)


def _at_a_terminal() -> bool:
    """Whether there is a person at this process's own terminal; a notebook's kernel and a pipe have none."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is None and sys.stdin is not None and sys.stdin.isatty()


def _solve(name: str) -> messages.Shown:
    at = target(name)
    texts = at.read()
    found = at.found(texts)
    events.add(at.here, "looked", at.lab.id, by="solve")
    kept = at.put(texts, {each: at.lab.fences[each].body for each in at.names}, "solve", not at.untouched(found))
    words = f"{name}: {at.solved}.{kept} If the file is open in your editor, reload it."
    bodies = [(each, at.lab.fences[each].body) for each in at.names]
    text = "\n\n".join(f"{each}:\n{_indented(body)}" for each, body in bodies)
    page = "".join(messages.headline(each) + messages.code(body) for each, body in bodies)
    return messages.Shown(f"{words}\n\n{text}", messages.headline(words) + page)


def _indented(body: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in body.rstrip("\n").split("\n"))


def reset(lab: str, file: bool = False) -> messages.Shown:
    """Put the stub back into the fences of a lab (or one fence); what stood there is kept.

    ``file=True`` lays the whole file out anew (all of the lab's, where it has several), for one that is damaged: with what can be
    read in its fences, and stubs in the others. Raises UsageError.
    """
    at = target(lab)
    name = lab if len(at.names) == 1 else at.lab.id
    if file:
        return messages.Shown("\n".join(_reset_file(at, each) for each in at.files))
    mine = at.read()
    found = at.found(mine)
    if at.untouched(found) and all(found[each].body.strip() == at.lab.stubs[each].strip() for each in at.names):
        return messages.Shown(f"{name}: you have not edited its fences in {at.place}. Nothing was changed.")
    kept = at.put(mine, {each: at.lab.stubs[each] for each in at.names}, "reset", True)
    lost = events.note(at.here, "reset", at.lab.id)
    return messages.Shown(f"{name}: the stub is back in {at.place}.{kept}").also(lost)


def _reset_file(at: Target, name: str) -> str:
    new, path = catalogue.laid_out(name), at.here / name
    kept, carried, lost = "", {}, []
    if path.exists():
        kept = kept_as(at.here, textfile.back_up(at.here, [name], f"reset_{path.stem}"))
        text = textfile.decode(path.read_bytes())[0]
        theirs = fences.find(text, name, catalogue.reference_fences(name)).fences
        new = new.replace("\n", textfile.common_end(text))
        ours = fences.all_of(new, name)
        carried = {each: fence for each, fence in theirs.items() if not fences.same(fence.body, ours[each].body)}
        lost = [each for each in ours if each not in theirs]
        new = fences.replace(new, carried, name)
    path.parent.mkdir(exist_ok=True)
    textfile.write_bytes(path, new.encode("utf-8", "surrogateescape"))
    unkept = [events.note(at.here, "reset", lab) for lab in dict.fromkeys(each.split(".")[0] for each in lost)]
    taken = f", with your code from {', '.join(carried)}" if carried else ""
    stubs = f" The stub is back in {', '.join(lost)}, whose comments were damaged or missing." if lost else ""
    return "\n".join([f"{name}: rewritten{taken}.{stubs}{kept}", *filter(None, unkept[:1])])


class CaughtUp(messages.Shown):
    """What was done for each lab; ``ready`` where none had to be left alone."""

    def __init__(self, goal: str, said: list[str], ready: bool):
        title = (f"Ready for {goal}: earlier labs are solved" if ready else
                 f"Not ready for {goal} yet: fix the labs that were left unchanged")
        super().__init__("\n".join([title, *(f"  {line}" for line in said)]), messages.headline(title) + messages.lines(*said))
        self.ready = ready


def catch_up(lab: str) -> messages.Shown:
    """Solve what comes before a lab, where it isn't solved, so that this lab can be done. All else in the files stays.

    What the trainee has written and what its check accepts is kept as it is. Raises UsageError.
    """
    goal = target(lab).lab
    here = workspace.find()
    earlier = catalogue.before(goal)
    if not earlier:
        return messages.Shown(f"Nothing comes before {goal.id}.")
    said, ready = [], True
    for each in earlier:
        at = target(each.id)
        try:
            texts = at.read()
            found = at.found(texts)
        except UsageError as error:
            said.append(f"{each.id}: left unchanged. {error}")
            ready = False
            continue
        if at.same_as_kit(found) or _was_solved(here, each, found):
            said.append(f"{each.id}: already solved")
            continue
        attempted = not at.untouched(found)
        if attempted:
            outcome = check(each.id)
            if outcome:
                said.append(f"{each.id}: already solved, your way")
                continue
            if outcome.exit_code == 2:
                said.append(f"{each.id}: left unchanged, because it can't be checked. {outcome}")
                ready = False
                continue
            texts = at.read()  # a check takes a while
        kept = at.put(texts, {name: fence.body for name, fence in each.fences.items()}, "catch_up", attempted)
        lost = events.note(here, "looked", each.id, by="catch_up")
        said.append(f"{each.id}: {at.solved}.{kept} {lost}".rstrip())
    return CaughtUp(goal.id, said, ready)


def _was_solved(here: Path, lab: Lab, found: dict[str, fences.Fence]) -> bool:
    """Whether the check has accepted what stands in the fences now."""
    mine = fingerprint(found)
    checks = [event for event in events.read(here) if event["event"] == "check" and event["lab"] == lab.id]
    return any(event.get("outcome") == "solved" and event.get("fences") == mine for event in checks)
