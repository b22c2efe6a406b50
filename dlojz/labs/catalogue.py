"""The labs: each a folder here that holds a lab.toml. Nothing lists them; to add one is to add its folder.

    ID/lab.toml       what it is: `Lab`
    ID/stub.py        what stands in each of its fences before the trainee has written anything: `dlojz.labs.answers`
    ID/hints.md       three steps, each under a ``## `` heading
    ID/quiz.toml      questions: `dlojz.labs.quiz`
    ID/check.py       decides from what the code does
    ID/calls.py       what the check calls in the trainee's files, where it doesn't run them: `Probe.call`
    ID/answers.py     right and wrong answers that prove the check: `dlojz.labs.answers`
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..system import paths, suggest, toml
from ..system.errors import UsageError
from . import fences
from .answers import Answer, read_answers, read_stubs

FOLDER = Path(__file__).resolve().parent
SCALES = ("laptop", "gpu", "cluster")
WANTS = ("the largest model", "the most images per second", "the lowest cost", "a better script of my own")
ENDS = ("FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY")


def reference(file: str = "") -> Path:
    """Where the finished files are."""
    return paths.PACKAGE / "reference" / file


def is_id(value) -> bool:
    """Whether this can be a lab's id."""
    return isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_]*", value) is not None


def _is_file(value) -> bool:
    return isinstance(value, str) and re.fullmatch(r"(\w+/)?\w+\.py", value) is not None


def _are_files(value) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_file, value)) and len(set(value)) == len(value)


def _numbers_by_scale(value) -> bool:
    return (isinstance(value, dict) and bool(value) and all(scale in SCALES for scale in value)
            and all(type(number) in (int, float) and number > 0 for number in value.values()))


def _by_scale(default):
    return toml.key("a number above 0 for each scale, such as { laptop = 1.3, gpu = 1.5 }; scales are " + ", ".join(SCALES),
                      _numbers_by_scale, default, lambda value: dict(value))


def _is_end_by_name(value) -> bool:
    return isinstance(value, dict) and all(state in ENDS for state in value.values())


def _reasons_by_scale(value) -> bool:
    return isinstance(value, dict) and all(scale in SCALES and isinstance(why, str) and why for scale, why in value.items())


@dataclass(frozen=True)
class Goal:
    """What a run called ``run`` should reach, as a multiple of what the run called ``against`` measured on the same machine.

    Runs with another model, image size, batch size, device or number of processes are not compared, but for what ``differ``
    names. ``switches`` are those that the run must have been made with: without them it says nothing about the technique.
    """

    run: str = toml.text("the name of a run, as in submit(…, name=\"amp\")")
    against: str = toml.text("the name of the run to compare with")
    measure: str = toml.choice("images_per_second", "device_images_per_second", "step_seconds", "memory_allocated",
                                 "host_memory", "joules_per_image", default="images_per_second")
    at_least: Mapping[str, float] | None = _by_scale(None)
    at_most: Mapping[str, float] | None = _by_scale(None)
    none_for: Mapping[str, str] | None = toml.key('a reason for each scale without a goal, such as { laptop = "…" }',
                                                    lambda value: _reasons_by_scale(value), None)
    differ: tuple[str, ...] = toml.words('a list of what the two runs differ in on purpose, such as ["processes"]', default=())
    switches: tuple[str, ...] = toml.words('a list of switches that the run needs, such as ["amp"]', default=())

    def problem(self):
        if (self.at_least is None) == (self.at_most is None):
            return "run", "a goal has either at_least or at_most"
        if both := set(self.limits) & set(self.none_for or ()):
            return "none_for", f"there is a goal for {', '.join(sorted(both))}, and a reason why there is none"
        return None

    @property
    def limits(self) -> Mapping[str, float]:
        return self.at_least or self.at_most


@dataclass(frozen=True)
class Asked:
    """What a trainee is asked to predict, and what stands beside it: ``ratio``, as in the lab's goal; ``memory``, the peak of its
    run in GB; ``none``, where no record holds it. ``at_most``: the whole, where the answer is a part, as 100 percent."""

    question: str = toml.text(default="How many times faster?")
    measure: str = toml.choice("ratio", "memory", "none", default="ratio")
    unit: str = toml.text("a unit, such as \"%\", where the measure is none", "")
    at_most: float | None = toml.number(default=None)

    @property
    def example(self) -> float:
        """An answer that could be one."""
        return 2.5 if self.at_most is None else 0.4 * self.at_most

    def problem(self):
        if self.at_most is not None and self.at_most <= 0:
            return "at_most", "at_most must be larger than 0"
        return ("unit", "ratio and memory have a unit of their own") if self.unit and self.measure != "none" else None


@dataclass(frozen=True)
class Lab:
    """What lab.toml says; ``day`` and ``order`` say where it stands in the course, ``needs`` which labs come before it. It leads
    to what it ``serves``.

    ``files`` hold its fences, ``file`` is the first of them. ``notebook``: the lab in whose notebook it is checked, where it has
    none of its own. ``only_with``: the switches without which a run uses none of its fences ("processes": with one process), so
    that it stays the same job when they are written. ``ends``: the jobs of its notebook that are meant to end otherwise than
    COMPLETED, by name. ``before``: those that show a file before its fences are written, which no solved workspace can run.
    ``stepless``: those that record no timed step, so that `dlojz reference` keeps nothing of them.
    """

    id: str = toml.key("the name of its folder: small letters, digits and _", lambda value: is_id(value))
    title: str = toml.text()
    day: int = toml.whole(0, 9)
    order: int = toml.whole(0, 99)
    difficulty: int = toml.whole(1, 5)
    importance: int = toml.whole(1, 5)
    minutes: int = toml.whole(1, 600)
    gpu_minutes: float = toml.number(default=0.0)
    needs: tuple[str, ...] = toml.words('a list of labs, such as ["gpu"]', default=())
    serves: tuple[str, ...] = toml.key("a list of what it leads to: " + ", ".join(f'"{want}"' for want in WANTS),
                                       lambda value: isinstance(value, list) and all(want in WANTS for want in value), (), tuple)
    file: str = toml.key('a file of dlojz/reference, such as "train.py"', lambda value: _is_file(value), "")
    files: tuple[str, ...] = toml.key('a list of files of dlojz/reference, such as ["train.py", "hunt/slow_feed.py"]',
                                        lambda value: _are_files(value), (), tuple)
    notebook: str = toml.key("the id of another lab", lambda value: is_id(value), "")
    only_with: tuple[str, ...] = toml.words('a list of switches, such as ["--amp"], or "processes"', default=())
    ends: Mapping[str, str] | None = toml.key('the state of each job that does not complete: { too_large = "OUT_OF_MEMORY" }',
                                                lambda value: _is_end_by_name(value), None)
    before: tuple[str, ...] = toml.words('a list of jobs, such as ["shapes", "hunt_*"]', default=())
    stepless: tuple[str, ...] = toml.words('a list of jobs that record no step, such as ["links", "heads"]', default=())
    goal: Goal | None = toml.table(Goal, None)  # noqa: RUF009
    prediction: Asked = toml.table(Asked, Asked())  # noqa: RUF009
    folder: Path = field(default=FOLDER)

    def problem(self):
        if self.file and self.files:
            return "files", "a lab has either file or files"
        return None

    @property
    def place(self) -> tuple[int, int, str]:
        return self.day, self.order, self.id

    def owns(self, fence: str) -> bool:
        return fence == self.id or fence.startswith(self.id + ".")

    @functools.cached_property
    def fences(self) -> dict[str, fences.Fence]:
        """Its fences in the reference, in order: what the kit would write."""
        return {name: fence for file in self.files for name, fence in self.fences_in(file).items()}

    def fences_in(self, file: str) -> dict[str, fences.Fence]:
        return {name: fence for name, fence in reference_fences(file).items() if self.owns(name)}

    def file_of(self, fence: str) -> str:
        """Which of its files holds this fence of its."""
        return next(file for file in self.files if fence in reference_fences(file))

    @functools.cached_property
    def stubs(self) -> dict[str, str]:
        """What stands in each fence before anything is written, from stub.py. Raises UsageError where a fence has none."""
        file = self.folder / "stub.py"
        found, problems = read_stubs(_text(file), str(file), self.fences)
        if problems:
            raise problems[0]
        return found

    @functools.cached_property
    def hints(self) -> tuple[str, ...]:
        """The steps of hints.md, each the text under one ``## `` heading."""
        file = self.folder / "hints.md"
        content = _text(file)
        steps = tuple(step.strip("\n").rstrip() for step in re.split(r"(?m)^## .*$", content)[1:])
        if len(steps) != 3 or not all(steps):
            raise UsageError(f"{file} has {len(steps)} steps: expected three, each a text under a heading `## …`")
        return steps

    def __str__(self) -> str:
        return f"{self.id} (day {self.day}: {self.title})"


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}") from None


def answers(lab: Lab) -> list[Answer]:
    """The answers that prove the check of a lab, from its answers.py. Raises UsageError."""
    file = lab.folder / "answers.py"
    found, problems = read_answers(_text(file), str(file), all_fences())
    if problems:
        raise problems[0]
    return found


def reference_fences(file: str) -> dict[str, fences.Fence]:
    """The fences of a file of the reference. Raises FenceError where one is wrong."""
    path = reference(file)
    return _reference_fences(path, file, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=32)
def _reference_fences(path: Path, name: str, _stamp: int) -> dict[str, fences.Fence]:
    return fences.all_of(path.read_text(encoding="utf-8"), name)


def all_fences() -> set[str]:
    """The ids of all fences of the reference."""
    return {fence for name in files() for fence in reference_fences(name)}


def read(folder: Path) -> Lab:
    """The lab of a folder. Raises UsageError with the file, the line and what was expected."""
    file = folder / "lab.toml"
    lab = toml.load(Lab, file, folder=folder)
    content = file.read_text(encoding="utf-8")
    if lab.id != folder.name:
        raise toml.wrong(file, content, ("id",), f'id = "{lab.id}" in a folder called {folder.name}: they must be the same')
    key, files = ("files", lab.files) if lab.files else ("file", (lab.file or "train.py",))
    lab = dataclasses.replace(lab, file=files[0], files=files)
    seen: dict[str, str] = {}
    for name in files:
        if not reference(name).is_file():
            raise toml.wrong(file, content, (key,), f'{key}: "{name}" is not in {reference()}')
        found = lab.fences_in(name)
        if not found:
            raise toml.wrong(file, content, ("id",), f"{name} has no fence `# >>> {lab.id}: …` or `# >>> {lab.id}.NAME: …`")
        for fence in found:
            if fence in seen:
                raise toml.wrong(file, content, (key,), f"the fence {fence} is in {seen[fence]} and in {name}: rename one")
            seen[fence] = name
    return lab


def labs() -> dict[str, Lab]:
    """All labs in the order of the course. Raises UsageError where a lab's folder is not in order."""
    found = [_read(file.parent, file.stat().st_mtime_ns) for file in FOLDER.glob("*/lab.toml")]
    found.sort(key=lambda lab: lab.place)
    known = {lab.id: lab for lab in found}
    for lab in found:
        for other in lab.needs:
            if other not in known or known[other].place >= lab.place:
                file = lab.folder / "lab.toml"
                why = "comes later in the course" if other in known else f"is not a lab: there are {', '.join(known)}"
                raise toml.wrong(file, file.read_text(encoding="utf-8"), ("needs",), f"needs {other!r}, which {why}")
        if lab.notebook and (lab.notebook not in known or known[lab.notebook].notebook):
            file = lab.folder / "lab.toml"
            why = "has none of its own" if lab.notebook in known else f"is not a lab: there are {', '.join(known)}"
            raise toml.wrong(file, file.read_text(encoding="utf-8"), ("notebook",), f"notebook = {lab.notebook!r}, which {why}")
    return known


@functools.lru_cache(maxsize=128)
def _read(folder: Path, _stamp: int) -> Lab:
    return read(folder)


def lab(name: str) -> Lab:
    """The lab of that id. Raises UsageError with the nearest one there is."""
    known = labs()
    if isinstance(name, str) and name in known:
        return known[name]
    raise UsageError(f"there is no lab {name!r}: {suggest.hint(name, known)}Labs are {', '.join(known)}")


def before(lab: Lab) -> list[Lab]:
    """The labs that come before this one: what it needs, and what those need, and what stands earlier in the course."""
    return [other for other in labs().values() if other.place < lab.place]


def in_file(file: str, known: Iterable[Lab] | None = None) -> list[Lab]:
    """The labs with fences in this file of the reference."""
    return [lab for lab in (labs().values() if known is None else known) if file in lab.files]


def stubs_in(file: str, known: Iterable[Lab] | None = None) -> dict[str, str]:
    """The stubs of the fences in this file, of all these labs."""
    return {name: lab.stubs[name] for lab in in_file(file, known) for name in lab.fences_in(file)}


def laid_out(file: str, solved: Iterable[str] = ()) -> str:
    """A file of the reference as a workspace gets it: the fences of all labs stubbed, but those that are solved."""
    text = reference(file).read_text(encoding="utf-8")
    done = set(solved)
    return fences.replace(text, stubs_in(file, (lab for lab in labs().values() if lab.id not in done)), file)


def files() -> list[str]:
    """The files of the reference, each of which has its copy in a workspace: ``train.py``, ``hunt/slow_feed.py``."""
    found = [path.relative_to(reference()) for pattern in ("*.py", "*/*.py") for path in reference().glob(pattern)]
    return sorted(path.as_posix() for path in found)
