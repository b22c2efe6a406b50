"""`dlojz launch`: submits every run of a day's notebooks ahead of the room, and follows them.

What a notebook submits is found by executing those of its statements that submit something, and those that these need: the
import of `submit`, ``here = sized()``, a list of names. Figures, checks, quizzes and bare loops are left out. A statement that
needs a run to have ended (``saved.wait()``) is executed again when it has. Whatever was submitted is found by name and command,
as in the notebook: to launch again starts only what is missing.
"""

from __future__ import annotations

import ast
import dataclasses
import fnmatch
import math
import os
import re
import sys
import time as clock
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..jobs import Group, Job
from ..jobs.job import cancel, refresh
from ..jobs.recorded import recorded as kept_runs
from ..jobs.states import Request
from ..jobs.submission import ask, start
from ..system import sites, suggest, workspace
from ..system.errors import UsageError
from ..system.variables import environment
from ..ui import page, words
from . import catalogue, events, notebooks
from .catalogue import Lab
from .progress import standing

SUBMIT = ("submit", "earlier")  # what submits by itself: `dlojz.submit`, and `dlojz.labs.device_runs.earlier`
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
          ast.GeneratorExp)


def labs_of(what: str) -> list[Lab]:
    """The labs of a day (``day1``, ``1``), or those that share a notebook with this lab. Raises UsageError."""
    days = sorted({lab.day for lab in catalogue.labs().values()})
    if match := re.fullmatch(r"(?:day)?(\d)", what):
        if int(match[1]) not in days:
            raise UsageError(f"there is no day {match[1]} with labs: days are {', '.join(map(str, days))}")
        return [lab for lab in catalogue.labs().values() if lab.day == int(match[1])]
    known = [*(f"day{day}" for day in days), *catalogue.labs()]
    if what not in known:
        raise UsageError(f"there is no day or lab {what!r}: {suggest.hint(what, known)}Choose from {', '.join(known)}")
    return notebooks.labs_in(catalogue.lab(what))


def notebooks_of(labs: Sequence[Lab]) -> list[str]:
    return list(dict.fromkeys(map(notebooks.name_of, labs)))


# --- what a notebook submits ---------------------------------------------------------------------------------------------


def statements(notebook: dict) -> list[ast.stmt]:
    """Those of its statements that submit something, and those that they need, in their order."""
    found: list[ast.stmt] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            try:
                found += ast.parse("".join(cell["source"])).body
            except SyntaxError:  # a magic, such as %%writefile: no such cell submits
                continue
    submits = set(SUBMIT) | {one.name for one in found if isinstance(one, ast.FunctionDef) and _calls(one) & set(SUBMIT)}
    needed: set[str] = set()
    kept = []
    for one in reversed(found):
        if (not isinstance(one, SCOPES) and _calls(one) & submits) or _defines(one) & needed:
            kept.append(one)
            needed |= _reads(one)
    return kept[::-1]


def names(notebook: dict) -> list[str]:
    """The names of the runs that it submits, in their order; ``profile_*`` where the notebook puts a name together."""
    kept = statements(notebook)
    own = {one.name for one in kept if isinstance(one, ast.FunctionDef)}  # of the notebook; the second argument is a name
    calls = [node for one in kept for node in ast.walk(one) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    found = []
    for call in calls:
        given = [each.value for each in call.keywords if each.arg == "name"]
        given += call.args[:1] if call.func.id == "earlier" else call.args[1:2] if call.func.id in own else []
        found += [_pattern(each) for each in given]
    return [name for name in dict.fromkeys(found) if name]


def _pattern(name: ast.expr) -> str:
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    said = [part.value if isinstance(part, ast.Constant) else "*" for part in parts]
    return "" if said == ["*"] else "".join(map(str, said))


def recorded() -> str:
    """A table of the notebooks that submit runs: which of their runs `reference` has, and which nobody has recorded. Runs that
    `dlojz reference save` would not keep are left out: they are there to fail, are not launched, or record no timed step."""
    submitted = {one: names(notebooks.read(one)) for one in notebooks_of(list(catalogue.labs().values()))}
    have, rows = {name for card in kept_runs().values() for name in card}, []
    others = have.difference(*submitted.values())  # what a pattern can stand for: no run that a notebook names in full
    for notebook, some in submitted.items():
        wanted = [name for name in some if not (name in notebooks.ends() or _left_out(name) or is_stepless(name))]
        there = [name for name in wanted if name in have or fnmatch.filter(others, name)]
        if wanted:
            rows.append([notebooks.lab_of(notebook), ", ".join(there), ", ".join(name for name in wanted if name not in there)])
    return page.table(["lab", "recorded", "not recorded"], rows)


def is_stepless(name: str) -> bool:
    """Whether a run of this name, or of this pattern, records no timed step."""
    return any(fnmatch.fnmatchcase(name, each) for lab in catalogue.labs().values() for each in lab.stepless)


def _calls(statement: ast.stmt) -> set[str]:
    return {node.func.id for node in ast.walk(statement) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def _reads(statement: ast.stmt) -> set[str]:
    """The names that it uses, without arguments of its functions and what its comprehensions run over."""
    nodes = list(ast.walk(statement))
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {name.id for node in nodes if isinstance(node, ast.comprehension) for name in ast.walk(node.target)
            if isinstance(name, ast.Name)}
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)} - own


def _defines(statement: ast.stmt) -> set[str]:
    """The names that it gives a value to, without those of comprehensions and of functions' bodies."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    found, waiting = set(), [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, SCOPES)]
    return found


class _NotYet(Exception):
    """A run has to end before this statement can go on."""


class _Submitted:
    """What `submit` gives a statement: the job or the sweep, which does not let it wait for a run that goes on."""

    def __init__(self, job: Job | Group, planned: bool):
        self._job, self._planned = job, planned

    def wait(self, timeout: float | None = None) -> _Submitted:
        some = [self._job] if isinstance(self._job, Job) else list(self._job)
        if not self._planned and any(job.status.active for job in refresh(some)):
            raise _NotYet
        return self

    def __getattr__(self, name: str):
        return getattr(self._job, name)

    def __getitem__(self, index):
        return self._job[index]


@dataclass
class Script:
    """The submitting statements of a notebook, on their way. ``problems``: what some of them have raised, in a line each."""

    name: str
    start: Callable[..., _Submitted]
    left: list[ast.stmt] = field(default_factory=list)
    known: dict = field(default_factory=lambda: {"__name__": "__main__"})
    problems: list[str] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)  # names that have got no value, for good

    def __post_init__(self):
        self.left = statements(notebooks.read(self.name))

    def go_on(self) -> None:
        """Execute what can be executed; what waits for a run, or for a name of such a statement, stays in ``left``."""
        statements, self.left, lacking = self.left, [], set()
        for one in statements:
            self.known |= {"submit": self.start, "earlier": lambda name, command: self.start(command, name=name)}
            if _reads(one) & self.broken:
                self.broken |= _defines(one)
            elif _reads(one) & lacking or not self._executed(one):
                self.left.append(one)
                lacking |= _defines(one)

    def _executed(self, one: ast.stmt) -> bool:
        try:
            exec(compile(ast.Module([one], []), self.name, "exec"), self.known)
        except _NotYet:
            return False
        except Exception as error:  # of one statement: the others go on
            self.problems.append(f"{self.name}, `{ast.unparse(one)[:80]}`: {error or type(error).__name__}")
            self.broken |= _defines(one)
        return True


@contextmanager
def _inside(here: Path, site: str) -> Iterator[None]:
    """As a notebook's kernel stands: in the workspace, whose scripts can be imported, with this site in use."""
    before, folder = list(sys.path), os.getcwd()
    os.chdir(here)
    sys.path.insert(0, str(here))
    try:
        with environment(**({"DLOJZ_SITE": site} if site else {})):
            yield
    finally:
        sys.path[:] = before
        os.chdir(folder)


# --- planned -------------------------------------------------------------------------------------------------------------


@dataclass
class Plan:
    """The runs of some labs' notebooks, and what they cost. What `_left_out` names is not among them."""

    labs: list[Lab]
    requests: list[Request]
    problems: list[str]

    @property
    def minutes(self) -> float:
        """GPU-minutes as the labs say: of one H100 or H200."""
        return sum(lab.gpu_minutes for lab in self.labs)

    @property
    def most(self) -> float:
        """GPU-minutes, were each run to go on until its time limit."""
        return sum(each.gpus * each.seconds for each in self.requests) / 60

    def __repr__(self) -> str:
        rows = [[each.name, str(each.gpus or "-"), str(each.processes), sites.duration(each.seconds), " ".join(each.command)]
                for each in self.requests]
        said = [page.table(["run", "GPUs", "processes", "limit", "command"], rows)] if rows else []
        site = self.requests[0].site if self.requests else ""
        in_all = f", about {words.gpu_minutes(self.minutes)} in all, {self.most:,.0f} if each took its whole time limit"
        cost = in_all if self.most else ", on no GPU"
        said += [f"{words.counted(len(self.requests), 'run')}{f' for the site {site}' if site else ''}{cost}"]
        return "\n".join([*said, *self.problems])


def plan(labs: Sequence[Lab], site: str = "") -> Plan:
    """What `launch` would submit. Raises UsageError."""
    requests: list[Request] = []

    def planned(command, name=None, gpus=None, nodes=None, time=None, **options) -> _Submitted:
        order = ask(command, name, gpus, nodes, time, **_kept(options))
        if _left_out(name):
            return _Submitted(Group([]), True)
        requests.extend(one for one in order.requests if one not in requests)
        jobs = [Job(order.here / "runs" / f"{one.name}-001", {"request": dataclasses.asdict(one), **facts})
                for one, facts in zip(order.requests, order.facts)]
        return _Submitted(Group(jobs) if isinstance(command, (list, tuple)) else jobs[0], True)

    with _inside(workspace.find(), site):
        sites.current().known_partitions()  # raises now, where a silent controller would keep each statement waiting
        scripts = [Script(name, planned) for name in notebooks_of(labs)]
        for script in scripts:
            script.go_on()
    return Plan(list(labs), requests, [line for script in scripts for line in script.problems])


def _kept(options: dict) -> dict:
    """The arguments of `submit` that say what is to run."""
    return {name: value for name, value in options.items() if name not in ("again", "wait", "dry_run")}


def _left_out(name: str | None) -> bool:
    """Whether a run of this name is there to be cancelled, which leaves nothing to look at, or shows a file before its fences are
    written, which is not what it does in a solved workspace."""
    name = name or ""
    before = [pattern for lab in catalogue.labs().values() for pattern in lab.before]
    return notebooks.ends().get(name) == "CANCELLED" or any(fnmatch.fnmatch(name, pattern) for pattern in before)


# --- launched ------------------------------------------------------------------------------------------------------------


def unsolved(labs: Sequence[Lab]) -> list[str]:
    """Which of the labs, and of those before them, are not solved in this workspace."""
    here, last = workspace.find(), max(lab.place for lab in labs)
    said = events.read(here)
    return [lab.id for lab in catalogue.labs().values() if lab.place <= last and standing(lab, said, here).state != "solved"]


def launch(labs: Sequence[Lab], site: str = "", say: Callable[[str], None] = print, pause: float = 2.0,
           limit: int | None = None, patience: float = math.inf) -> list[Job]:
    """Submit the runs of these labs' notebooks, and follow them until all have ended. Returns their jobs. Raises UsageError.

    ``say`` gets a line for each that changes its state. ``limit``: a time limit for each job, in minutes. Those that have not
    ended after ``patience`` seconds are cancelled.
    """
    if lacking := unsolved(labs):
        raise UsageError(f"{workspace.find()} has labs that are not solved ({', '.join(lacking)}), and their runs would show "
                         "nothing: launch from a workspace of its own, `dlojz workspace DIR --solved all`")
    jobs: dict[Path, Job] = {}

    def submitted(command, name=None, gpus=None, nodes=None, time=None, **options) -> _Submitted:
        if _left_out(name):
            return _Submitted(Group([]), False)
        order = ask(command, name, gpus, nodes, time if limit is None else limit, **_kept(options))
        made = [jobs.setdefault(job.folder, job) for job in start(order.requests, order.here, *order.facts, again=False)]
        return _Submitted(Group(made) if isinstance(command, (list, tuple)) else made[0], False)

    with _inside(workspace.find(), site):
        scripts = [Script(name, submitted) for name in notebooks_of(labs)]
        said: dict[Path, str] = {}
        until = clock.monotonic() + patience
        while True:
            for script in scripts:
                script.go_on()
            for job in refresh(list(jobs.values())):
                if said.get(job.folder) != job.status.state:
                    said[job.folder] = job.status.state
                    say(f"{job.run:<24} {_said(job)}")
            if not any(job.status.active for job in jobs.values()) and not any(script.left for script in scripts):
                break
            if clock.monotonic() > until:
                cancel([job for job in jobs.values() if job.status.active])
                break
            clock.sleep(pause)
    for script in scripts:
        for line in script.problems:
            say(line)
    return list(jobs.values())


def _said(job: Job) -> str:
    found = " (was there already)" if job.found else ""
    why = f": {' '.join(job.status.reason.split())}" if job.status.reason and not went_as_meant(job) else ""
    return f"{job.status.state}{found}{why}"


def went_as_meant(job: Job) -> bool:
    """Whether a job has ended as its lab wants it to: some run out of memory, or fail, on purpose."""
    return job.status.active or job.status.state == notebooks.ends().get(job.name, "COMPLETED")
