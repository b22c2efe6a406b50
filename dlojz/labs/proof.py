"""`dlojz lab test ID`: whether a lab is complete, and its check right. The tests of the kit call the same functions.

`problems` reads the lab's files; `proofs` puts stub, solution and answers into the fences of a trainee's files and checks them;
`notebook` executes the lab's notebook both ways. Each says what is wrong in a line, nothing where all is well.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..system import paths, suggest
from ..system.errors import UsageError
from ..ui import page
from . import answers, catalogue, fences, notebooks, questions, workspace
from .catalogue import Lab
from .outcome import NOT_ATTEMPTED, SOLVED, WRONG, Outcome

FILES = ("lab.toml", "hints.md", "quiz.toml", "stub.py", "answers.py", "check.py")  # what each lab has
MORE = ("figures.py", "calls.py", "__init__.py")
ENOUGH = {"right": 2, "wrong": 4}
QUESTIONS = 3
STUB_SECONDS = 4
AROUND = {"stubs": "", "solved": ", beside the solutions of later labs,"}
PARTS = ("files", "check", "notebook")  # what `test` looks at
LONG = 30  # characters: a line of the solution that a hint must not show


# --- the files -----------------------------------------------------------------------------------------------------------


def problems(name: str) -> list[str]:
    """What is missing or wrong in the files of a lab, one line each, with file and line. Raises UsageError where there is no such
    lab, or one that can't be read."""
    lab = known(name)
    found = [*_unlisted(lab), *_fences_elsewhere(lab)]
    stubs, wrong = answers.read_stubs(*_text(lab, "stub.py"), lab.fences)
    found += [str(problem) for problem in wrong] + _poor_stubs(lab, stubs)
    given, wrong = answers.read_answers(*_text(lab, "answers.py"), catalogue.all_fences())
    found += [str(problem) for problem in wrong] + _too_few(lab, given)
    for read in (lambda: _poor_hints(lab), lambda: _poor_quiz(lab), lambda: _poor_check(lab) or _unknown_facts(lab)):
        try:
            found += read()
        except UsageError as error:
            found.append(str(error))
    found += notebooks.problems(notebooks.name_of(lab))
    found += [f"{line}: `dlojz lab sync {lab.id}` does it" for line in notebooks.sync(lab, write=False)]
    found += _todos(lab)
    return [shorter(line) for line in dict.fromkeys(found)]


def known(name: str) -> Lab:
    """The lab of that id; where its folder is incomplete, what it lacks is said instead. Raises UsageError."""
    folder = catalogue.FOLDER / name
    if catalogue.is_id(name) and folder.is_dir() and not (folder / "lab.toml").is_file() and any(folder.glob("*.*")):
        raise UsageError(f"{folder / 'lab.toml'} is missing: without it the folder is not a lab")
    return catalogue.lab(name)


def shorter(line: str) -> str:
    """A message with paths as they are from the root of the kit."""
    return line.replace(f"{paths.PACKAGE.parent}/", "")


def _text(lab: Lab, name: str) -> tuple[str, str]:
    """The text of one of a lab's files, empty where it can't be read, and what a message calls it."""
    try:
        return (lab.folder / name).read_text(encoding="utf-8"), str(lab.folder / name)
    except (OSError, UnicodeDecodeError):
        return "", str(lab.folder / name)


def _unlisted(lab: Lab) -> list[str]:
    """Files that a lab must have and that it has not, and those that nobody reads."""
    found = [f"{lab.folder / name} is missing" for name in FILES if not (lab.folder / name).is_file()]
    readers = "".join(_text(lab, path.name)[0] for path in lab.folder.glob("*.py"))
    with contextlib.suppress(OSError, ValueError, KeyError):  # `notebooks.problems` says what is wrong with it
        readers += notebooks.text(notebooks.read(notebooks.name_of(lab)))
    for path in sorted(lab.folder.iterdir()):
        if path.name in (*FILES, *MORE) or path.name.startswith((".", "__pycache__")):
            continue
        if path.is_dir():
            found.append(f"{path} is a folder, and a lab has none: stubs are in stub.py, answers in answers.py")
        elif path.suffix != ".py" and path.name in readers:
            continue  # what a figure draws
        elif path.suffix != ".py" or not re.search(rf"\b{path.stem}\b", readers.replace(_text(lab, path.name)[0], "")):
            guess = suggest.hint(path.name, [*FILES, *MORE]).strip()
            found.append(f"{path} is read by nothing: {guess or 'neither the check nor the notebook imports it'}")
    return found


def _fences_elsewhere(lab: Lab) -> list[str]:
    """Fences of this lab in files that its lab.toml does not name, and fences in its files whose lab is misspelled. A fence may
    be of no lab: the technique is there before its lab is."""
    found, labs = [], catalogue.labs()
    for file in catalogue.files():
        for fence, at in catalogue.reference_fences(file).items():
            where = f"{catalogue.reference(file)}, line {at.first}: the fence {fence}"
            if lab.owns(fence) and file not in lab.files:
                found.append(f"{where} is of this lab, but lab.toml does not name {file} in `files`")
            elif file in lab.files and fence.split(".")[0] not in labs and (near := suggest.hint(fence.split(".")[0], labs)):
                found.append(f"{where} is of no lab: {near.strip()}")
    return found


def _poor_stubs(lab: Lab, stubs: Mapping[str, str]) -> list[str]:
    found = []
    lines = _text(lab, "stub.py")[0].splitlines()
    for name, stub in stubs.items():
        line = next((at for at, line in enumerate(lines, 1) if re.match(rf"#\s*>>>\s*{re.escape(name)}\s*$", line)), 1)
        where = f"{lab.folder / 'stub.py'}, line {line}: the stub of {name}"
        if "# TODO:" not in stub:
            found.append(f"{where} needs a comment `# TODO: …` that says what to write")
        if fences.same(stub, lab.fences[name].body):
            found.append(f"{where} is the solution")
        for other in re.findall(r"""\btodo\(["'](.*?)["']\)""", stub):
            if other != lab.id:
                found.append(f'{where} calls todo("{other}"): it must be todo("{lab.id}")')
    return found


def _too_few(lab: Lab, given: list) -> list[str]:
    count = {kind: sum(answer.kind == kind for answer in given) for kind in ENOUGH}
    return [f"{lab.folder / 'answers.py'} has {count[kind]} {kind} answers: a lab needs {least} or more"
            for kind, least in ENOUGH.items() if count[kind] < least]


def _poor_hints(lab: Lab) -> list[str]:
    found = []
    for name, fence in lab.fences.items():
        for line in map(str.strip, fence.body.split("\n")):
            shown = next((step for step, hint in enumerate(lab.hints[:2], 1) if len(line) >= LONG and line in hint), None)
            if shown:
                why = f"hint {shown} shows a line of the solution of {name}, `{line}`: only the third may"
                found.append(f"{lab.folder / 'hints.md'}: {why}")
    return found


def _poor_quiz(lab: Lab) -> list[str]:
    asked, file = questions.read(lab), lab.folder / "quiz.toml"
    found = [f"{file} has {len(asked)} questions: a lab needs {QUESTIONS} or more"] if len(asked) < QUESTIONS else []
    return found + [f"{file}: the question {each.id!r} needs `why`, a list with a reason for each wrong option"
                    for each in asked if each.wrong and not each.why]


def _poor_check(lab: Lab) -> list[str]:
    """Whether check.py, calls.py and figures.py are Python, and check.py defines ``check``."""
    found = []
    for path in sorted(lab.folder.glob("*.py")):
        if path.name in ("stub.py", "answers.py"):
            continue  # parts of files
        try:
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        except SyntaxError as error:
            found.append(f"{path}, line {error.lineno}: {error.msg}")
    if not found and not re.search(r"(?m)^def check\(probe\)", _text(lab, "check.py")[0]):
        found.append(f"{lab.folder / 'check.py'} must define `check(probe)`")
    return found


def _unknown_facts(lab: Lab) -> list[str]:
    """Rows of check.py for facts that no run has: they would never fit, and nothing would say so."""
    from .probe import observe

    known_, found = observe.documented(), []
    for node in ast.walk(ast.parse(_text(lab, "check.py")[0])):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in ("same", "may_differ"):
            continue
        for fact in (each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)):
            kind = max((kind for kind in known_ if f"{fact}.".startswith(f"{kind}.")), key=len, default="")
            key = fact[len(kind) + 1:].split(".")[0]
            if kind and (not key or key in ("missing", "extra") or re.search(rf"\b{key}\b", known_[kind])):
                continue
            where = f"{lab.folder / 'check.py'}, line {node.lineno}"
            if kind:
                found.append(f"{where}: a fact `{kind}` has no `{key}`: `dlojz lab facts {kind}` says what it has")
            else:
                near = suggest.hint(fact.split(".")[0], known_)
                found.append(f"{where}: no fact is called `{fact}`: {near}`dlojz lab facts` lists all")
    return found


def facts(kinds: Collection[str] = ()) -> list[str]:
    """A paragraph for each of these kinds of facts, or for all: when a run notes it, its keys, and which of them are compared.
    Raises UsageError where there is none of that name."""
    from .probe import observe

    known_, compared = observe.documented(), observe.compared()
    if unknown := next((kind for kind in kinds if kind not in known_), ""):
        raise UsageError(f"no fact is called {unknown!r}: {suggest.hint(unknown, known_)}Choose from {', '.join(known_)}")
    paragraphs = []
    for kind in kinds or known_:
        keys = ", ".join(key.replace("~", "") for key in compared.get(kind, ()))
        text = f"{kind}: {known_[kind].removesuffix('.')}. Compared: {keys or 'no key unless a row names one'}."
        paragraphs.append(textwrap.fill(text, 110, subsequent_indent="    "))
    return paragraphs


def _todos(lab: Lab) -> list[str]:
    """Where something is still to be written: in all files but the stubs, which say TODO to the trainee."""
    files = [path for path in sorted(lab.folder.glob("*.*")) if path.name != "stub.py" and path.suffix in (".py", ".md", ".toml")]
    files += [catalogue.reference(file) for file in lab.files]
    found = []
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if todo := re.search(r"\bTODO\b.*", line):
                found.append(f"{path}, line {number}: `{todo[0].strip()[:70]}` is still to be written")
    try:
        notebook = notebooks.read(notebooks.name_of(lab))
    except (OSError, ValueError):
        return found
    for number, cell in enumerate(notebook["cells"], 1):
        for line in "".join(cell["source"]).splitlines():
            if todo := re.search(r"\bTODO\b.*", line):
                place = f"notebooks/{notebooks.name_of(lab)}, cell {number}"
                found.append(f"{place}: `{todo[0].strip()[:70]}` is still to be written")
    return found


# --- the check -----------------------------------------------------------------------------------------------------------


def laid_out(folder: Path, lab: Lab, bodies: Mapping[str, str] | None = None, later: str = "stubs") -> Path:
    """Lays a trainee's files out in ``folder``: earlier labs and this one solved, with ``bodies`` in some fences; later labs as
    ``later`` says, ``stubs`` or ``solved``."""
    solved = [other.id for other in catalogue.labs().values() if later == "solved" or other.place <= lab.place]
    for name in catalogue.files():
        here = {fence: body for fence, body in (bodies or {}).items() if fence in catalogue.reference_fences(name)}
        (folder / name).parent.mkdir(exist_ok=True)
        text = fences.replace(catalogue.laid_out(name, solved), here, name)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def fault(answer: answers.Answer, outcome: Outcome) -> str:
    """What is wrong with what the check says of this answer; empty where it is right."""
    said = " ".join(outcome.message.split()) or outcome.title
    if answer.kind == "right":
        if outcome.state != SOLVED:
            return f"must be SOLVED, and the check says {outcome.state}: {said}"
        return "" if outcome.verified else "is SOLVED, but the check says nothing of what it has verified"
    if outcome.state != WRONG:
        return f"must be WRONG, and the check says {outcome.state}: {said}"
    if not re.search(answer.expect, outcome.message, re.DOTALL):
        return f"is refused, but not with a message that matches `{answer.expect}`: {said}"
    return "" if "Where to look: " in outcome.message else f"is refused, but not told where to look: {said}"


def chosen(name: str, words: str) -> list[answers.Answer]:
    """The answers of a lab with these words in their first line. Raises UsageError where there is none."""
    given = catalogue.answers(known(name))
    found = [answer for answer in given if words in f"{answer.kind}: {answer.words}"]
    if not found:
        raise UsageError(f"no answer of {name} has {words!r} in its first line: there is "
                         + ", ".join(f"`{answer.kind}: {answer.words}`" for answer in given))
    return found


def proofs(name: str, words: str = "") -> Iterator[tuple[str, str, str]]:
    """Checks the stub, the solution and all answers of a lab; with ``words``, only answers with these in their first line. Yields
    what was tried, what is wrong with it, empty where nothing is, and what the check said. Each right one is tried with later
    labs stubbed and, where there are any, with later labs solved."""
    from .checking import run_check
    from .probe import Limits, Session

    lab, limits = known(name), Limits(seconds=60)
    kit = answers.Answer("right", "solution", "the kit's solution", "", {}, 0)
    with tempfile.TemporaryDirectory(prefix="dlojz-lab-") as root:
        if not words:
            workspace.create(Path(root) / "fresh")
            outcome = run_check(lab.id, Path(root) / "fresh")
            yield "stub", stub_fault(outcome), str(outcome)
        with Session(limits) as session:
            tried = chosen(name, words) if words else [kit, *catalogue.answers(lab)]
            for number, (answer, later) in enumerate(_tries(lab, tried)):
                folder = Path(root) / str(number)
                folder.mkdir()
                outcome = run_check(lab.id, laid_out(folder, lab, answer.fences, later), limits, session)
                where = f"answers.py, line {answer.line}: " if answer.line else ""
                wrong = fault(answer, outcome)
                head = f"{where}`{answer.kind}: {answer.words}`{AROUND[later]}"
                yield answer.kind, wrong and f"{head} {wrong}", f"{head}\n{outcome}"


def _tries(lab: Lab, given: Iterable[answers.Answer]) -> Iterator[tuple[answers.Answer, str]]:
    last = all(other.place <= lab.place for other in catalogue.labs().values())
    for answer in given:
        for later in ("stubs", "solved") if answer.kind == "right" and not last else ("stubs",):
            yield answer, later


def stub_fault(outcome: Outcome) -> str:
    if outcome.state != NOT_ATTEMPTED:
        said = " ".join(outcome.message.split())
        return f"stub.py: the stubs must be NOT_ATTEMPTED, and the check says {outcome.state}: {said}"
    slow = f"stub.py: to say that nothing was attempted took {outcome.seconds:.0f} s: {STUB_SECONDS} s are the limit"
    return slow if outcome.seconds > STUB_SECONDS else ""


# --- all of it -----------------------------------------------------------------------------------------------------------


def notebook(name: str) -> Iterator[tuple[str, str]]:
    """Executes the notebook of a lab in a fresh and in a solved workspace. Yields the state and what is wrong, empty where
    nothing is. Raises ImportError where Jupyter is not installed."""
    for state in ("fresh", "solved"):
        yield state, executed(notebooks.name_of(known(name)), state)


def executed(file: str, state: str, site: str = "laptop", within: str | None = None, patience: float = 1) -> str:
    """Executes a notebook in a new workspace, ``fresh`` or ``solved``. ``within``: the folder to make it in, for a cluster one
    that its nodes see. ``patience``: so many times the usual limits. Returns what is wrong. Raises ImportError where Jupyter is
    not installed."""
    with tempfile.TemporaryDirectory(prefix="dlojz-lab-", dir=within, ignore_cleanup_errors=True) as root:
        folder = Path(root) / state / "work"
        workspace.create(folder, ["all"] if state == "solved" else [])
        wrong = notebooks.execute(folder, file, SOLVED if state == "solved" else NOT_ATTEMPTED, 300 * patience,
                                  1200 * patience, site)
    return wrong and f"notebooks/{file}, in a {state} workspace: {wrong}"


def lint(name: str) -> list[str] | None:
    """What ruff finds in the files of a lab, one line each; None where there is no ruff, or no settings for it."""
    lab, root = known(name), paths.PACKAGE.parent
    if importlib.util.find_spec("ruff") is None or not (root / "pyproject.toml").is_file():
        return None
    places = [str(lab.folder), *(str(catalogue.reference(file)) for file in lab.files)]
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", "--output-format=concise", "--no-cache", *places],
                          cwd=root, text=True, capture_output=True, check=False)
    return [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]


def test(name: str, only: Collection[str] = PARTS, words: str = "") -> Iterator[tuple[bool, str]]:
    """All that concerns one lab, as it goes; with ``words``, only its answers with these in their first line. Yields lines, with
    False for those that say what is missing or wrong. Raises UsageError where there is no such lab or answer."""
    if words:
        chosen(name, words)
        only = ["check"]
    known(name)
    if "files" in only:
        yield from _tested_files(name)
    try:
        _ = known(name).stubs, catalogue.answers(known(name))
    except UsageError as error:
        yield "files" in only, f"check and notebook: not tried, for {shorter(str(error))}"
        return
    if "check" in only:
        yield from _tested_check(name, words)
    if "notebook" in only:
        yield from _tested_notebook(name)


def _tested_files(name: str) -> Iterator[tuple[bool, str]]:
    found = problems(name)
    yield from ((False, line) for line in found)
    if not found:
        yield True, "files: all there, nothing left to write"
    linted = lint(name)
    yield from ((False, line) for line in linted or ())
    if not linted:
        yield True, "ruff: not installed here, so it was left out" if linted is None else "ruff: nothing"


def _tested_check(name: str, words: str) -> Iterator[tuple[bool, str]]:
    begun, count = time.monotonic(), {"stub": 0, "right": 0, "wrong": 0}
    for kind, wrong, said in proofs(name, words):
        count[kind] += not wrong
        if wrong:
            yield False, wrong
        elif words:
            yield True, said
    yield True, (f"check: {'the stub counts as not attempted, ' if count['stub'] else ''}{count['right']} runs of right answers "
                 f"accepted, {count['wrong']} wrong answers refused ({time.monotonic() - begun:.0f} s)")


def _tested_notebook(name: str) -> Iterator[tuple[bool, str]]:
    try:
        begun = time.monotonic()
        for state, wrong in notebook(name):
            yield not wrong, wrong or f"notebook: runs in a {state} workspace ({time.monotonic() - begun:.0f} s)"
            begun = time.monotonic()
    except ImportError:
        yield True, "notebook: not executed, for Jupyter is not installed here"


# --- the course ----------------------------------------------------------------------------------------------------------

START = "day0_start"
PATIENCE = 4  # times the limits of one lab's notebook: the whole course runs where other things do, too
COURSE = ["lab", "stub", "wrong refused", "right accepted", "notebook, solved", "minutes"]


@dataclass
class Proved:
    """One lab of the whole course. ``count``: by stub, wrong and right, how many went as they should, of how many. ``notebook``:
    what came of it, empty where it was not executed. ``faults``: what is wrong, a line each."""

    lab: str
    count: dict[str, list[int]] = field(default_factory=dict)
    notebook: str = ""
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def cells(self) -> list[str]:
        counted = [f"{well} of {of}" if of else "" for well, of in (self.count.get(kind, (0, 0)) for kind in ("wrong", "right"))]
        stub = {None: "", 0: "not ok", 1: "ok"}[self.count.get("stub", [None])[0]]
        return [self.lab, stub, *counted, self.notebook, f"{self.seconds / 60:.1f}"]


def course(labs: Iterable[Lab], only: Collection[str] = ("check", "notebook"), site: str = "laptop", start: bool = False,
           within: str | None = None) -> Iterator[Proved]:
    """The whole course, or these labs of it: each stub, wrong and right answer checked, each notebook executed in a solved
    workspace on this site, once for all labs in it. ``start``: day 0 first, which has no lab. Yields each lab when it is done."""
    at: dict[str, str] = {}

    def prove(lab: str, file: str, checked: bool) -> Proved:
        begun, found = time.monotonic(), Proved(lab)
        if checked and "check" in only:
            for kind, wrong, _ in proofs(lab):
                tally = found.count.setdefault(kind, [0, 0])
                tally[0] += not wrong
                tally[1] += 1
                found.faults += [wrong] if wrong else []
        if "notebook" in only and file not in at:
            wrong = executed(file, "solved", site, within, PATIENCE)
            found.faults += [wrong] if wrong else []
            at[file] = "not ok" if wrong else "ok"
            found.notebook = at[file]
        elif "notebook" in only:
            found.notebook = f"{at[file]} (the same)"
        found.seconds = time.monotonic() - begun
        return found

    if start:
        yield prove(START, f"{START}.ipynb", False)
    for lab in labs:
        yield prove(lab.id, notebooks.name_of(lab), True)


def course_table(found: Sequence[Proved]) -> str:
    faults = [f"✗ {one.lab}: {line}" for one in found for line in one.faults]
    minutes = sum(one.seconds for one in found) / 60
    said = f"{len(faults)} things are wrong" if len(faults) > 1 else "1 thing is wrong" if faults else "nothing is wrong"
    return "\n".join([page.table(COURSE, [one.cells() for one in found]), f"{said} ({minutes:.0f} minutes)", *faults])
