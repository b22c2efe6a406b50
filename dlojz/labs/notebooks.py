"""The notebooks of the labs: what each must contain, what `dlojz lab sync` writes into it, and how it is executed to be proved.

A lab's notebook is ``notebooks/dayD_O_ID.ipynb``. What lab.toml and the reference say already is written there by `sync`: the
heading, the line of times, the rows of the table of fences, and the lab's row in README.md. All other text is the author's.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..system import paths, textfile
from ..system.variables import environment as environment_of
from . import catalogue, workspace
from .catalogue import Lab

TABLE = "| fence | what belongs there |\n| --- | --- |"
ABLE = "**You will be able to**"
KERNEL = {"kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
          "language_info": {"name": "python"}}
START_ENDS = {"too_long": "CANCELLED"}  # of day0_start, which has no lab: see `Lab.ends`


def name_of(lab: Lab) -> str:
    """The notebook in which this lab is checked: its own, or that of the lab that it names."""
    home = catalogue.lab(lab.notebook) if lab.notebook else lab
    return f"day{home.day}_{home.order}_{home.id}.ipynb"


def lab_of(name: str) -> str | None:
    """The id in the name of a notebook, ``dayD_O_ID.ipynb``; None for one without a lab (day0_start)."""
    match = re.fullmatch(r"day\d_\d+_(\w+)\.ipynb", name)
    return match and match[1]


def labs_in(lab: Lab) -> list[Lab]:
    """The labs that are checked in the notebook of this one."""
    home = lab.notebook or lab.id
    return [other for other in catalogue.labs().values() if home in (other.id, other.notebook)]


def read(name: str) -> dict:
    return json.loads(paths.share("notebooks", name).read_text(encoding="utf-8"))


def text(notebook: dict) -> str:
    """The sources of all cells."""
    return "\n".join("".join(cell["source"]) for cell in notebook["cells"])


def checks_in(notebook: dict) -> set[str]:
    """The labs that the notebook's cells check."""
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    return set(re.findall(r"""(?m)^check\(["'](\w+)["']\)""", code))


def cell(identifier: str, kind: str, source: str) -> dict:
    """A cell without outputs."""
    rest = {"execution_count": None, "outputs": []} if kind == "code" else {}
    content = {"cell_type": kind, "id": identifier, "metadata": {}, "source": source.strip("\n").splitlines(True), **rest}
    return dict(sorted(content.items()))  # as Jupyter saves it


def dumped(notebook: dict) -> str:
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


# --- what lab.toml and the reference say ---------------------------------------------------------------------------------


def heading(lab: Lab) -> str:
    return f"# Day {lab.day}, lab {lab.order}: {lab.title}"


def times(lab: Lab) -> str:
    gpu = f", of which {lab.gpu_minutes:g} on a GPU" if lab.gpu_minutes else ""
    return (f"Difficulty {lab.difficulty} of 5 · importance {lab.importance} of 5 · {lab.minutes} minutes{gpu} · "
            f"lab `{lab.id}`")


def readme_row(lab: Lab) -> str:
    return f"| {lab.day} | [{lab.title}](notebooks/{name_of(lab)}) (`{lab.id}`) | {lab.minutes} |"


def fence_rows(lab: Lab) -> list[str]:
    """The rows of a new table: what belongs in a fence is at first what its comment says."""
    return [_row(lab, fence, ["fence", "what belongs there"]) for fence in lab.fences]


def _row(lab: Lab, fence: str, header: list[str]) -> str:
    file = lab.file_of(fence)
    words = [f"`{fence}`" if _is_fence_column(column) else f"[{file}]({file})" if column in ("file", "script")
             else lab.fences[fence].title or "TODO: what belongs there" for column in header]
    return f"| {' | '.join(words)} |"


def _is_fence_column(column: str) -> bool:
    return column.split(",")[0] == "fence"


# --- sync ----------------------------------------------------------------------------------------------------------------


def sync(lab: Lab, write: bool = True) -> list[str]:
    """Brings the notebook's name, its head and table of fences, and the lab's row in README.md up to date.

    Returns a line for each thing that was changed, or would be where ``write`` is False.
    """
    if paths.share() != paths.PACKAGE.parent:
        return []  # an installed kit: there is no README, and its notebooks are as they were made
    said = [] if lab.notebook else _renamed(lab, write)
    path = paths.share("notebooks", name_of(lab))
    if path.is_file():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        changed = [] if lab.notebook else _head(lab, notebook) + _predict(lab, notebook)
        changed += _fence_table(lab, notebook)
        if changed and write:
            textfile.write_bytes(path, dumped(notebook).encode())
        said += [f"notebooks/{path.name}: {line}" for line in changed]
    return said + _readme(lab, write)


def _renamed(lab: Lab, write: bool) -> list[str]:
    """A notebook of another day or order gets its name, and links to it follow."""
    folder, name = paths.share("notebooks"), name_of(lab)
    others = [path for path in folder.glob("*.ipynb") if lab_of(path.name) == lab.id and path.name != name]
    if not others or (folder / name).exists():
        return []
    old = others[0].name
    if write:
        others[0].rename(folder / name)
        for path in [*folder.glob("*.ipynb"), paths.share("README.md"), *paths.share("docs").glob("*.md")]:
            if path.is_file() and old in (content := path.read_text(encoding="utf-8")):
                textfile.write_bytes(path, content.replace(old, name).encode())
    return [f"notebooks/{old}: renamed to {name}, and the links to it"]


def _head(lab: Lab, notebook: dict) -> list[str]:
    first = notebook["cells"][0]
    source = before = "".join(first["source"])
    source = re.sub(r"\A# .*", lambda _: heading(lab), source) if source.startswith("# ") else f"{heading(lab)}\n\n{source}"
    if re.search(r"(?m)^Difficulty .*$", source):
        source = re.sub(r"(?m)^Difficulty .*$", lambda _: times(lab), source, count=1)
    else:
        parts = source.split("\n\n")
        after = next((at for at, part in enumerate(parts) if part.startswith(ABLE)), 0)
        source = "\n\n".join([*parts[:after + 1], times(lab), *parts[after + 1:]])
    first["source"] = source.splitlines(True)
    old, new = before.splitlines(), source.splitlines()
    return [f"the head says `{line}`" for line in new if line and line not in old]


def _predict(lab: Lab, notebook: dict) -> list[str]:
    """The question of the cell that asks for a prediction is that of lab.toml."""
    call = f"predict({json.dumps(lab.id)}, {json.dumps(lab.prediction.question, ensure_ascii=False)})"
    for each in notebook["cells"]:
        source = "".join(each["source"])
        new = re.sub(rf"""(?m)^predict\("{lab.id}", "[^"]*"\)""", lambda _: call, source)
        if each["cell_type"] == "code" and new != source:
            each["source"] = new.splitlines(True)
            return [f"a cell says {call}"]
    return []


@dataclass
class _Table:
    """A table of Markdown in a cell; ``first`` and ``last`` are its lines there, ``fences`` the rows by the fence in them."""

    cell: dict
    first: int
    last: int
    header: list[str]
    fences: dict[str, str]


def _tables(notebook: dict):
    for each in notebook["cells"]:
        if each["cell_type"] != "markdown":
            continue
        lines = "".join(each["source"]).splitlines()
        at = 0
        while at < len(lines):
            first = at
            while at < len(lines) and lines[at].startswith("|"):
                at += 1
            if at - first >= 2:
                rows = [[word.strip() for word in row.strip("|").split("|")] for row in lines[first:at]]
                column = next((place for place, word in enumerate(rows[0]) if _is_fence_column(word)), None)
                if column is not None:
                    content = zip(rows[2:], lines[first + 2:at])
                    found = {row[column].strip("`"): line for row, line in content if column < len(row)}
                    yield _Table(each, first, at, rows[0], found)
            at = max(at, first + 1)


def _fence_table(lab: Lab, notebook: dict) -> list[str]:
    """The table has a row for each fence of the lab and for no other; the author's words in the rows stay."""
    table = next((table for table in _tables(notebook) if any(lab.owns(fence) for fence in table.fences)), None)
    if table is None:
        opens = f'edit("{lab.id}")'
        place = next((at for at, each in enumerate(notebook["cells"]) if opens in "".join(each["source"])), None)
        if place is None:
            return []  # `problems` says that there is no such cell
        content = "\n".join([TABLE, *fence_rows(lab)])
        notebook["cells"].insert(place, cell(f"{lab.id}-fences", "markdown", content))
        return [f"a table of the fences of {lab.id} is there now, before the cell `{opens}`"]
    added, gone = [fence for fence in lab.fences if fence not in table.fences], [*table.fences.keys() - lab.fences.keys()]
    if not added and not gone:
        return []
    order = [fence for fence in table.fences if fence not in gone]
    for fence in added:  # after the one that comes before it in the file
        earlier = list(lab.fences)[:list(lab.fences).index(fence)]
        order.insert(max((order.index(each) + 1 for each in earlier[-1:]), default=0), fence)
    rows = [table.fences.get(fence) or _row(lab, fence, table.header) for fence in order]
    lines = "".join(table.cell["source"]).splitlines()
    new = "\n".join([*lines[:table.first + 2], *rows, *lines[table.last:]])
    table.cell["source"] = new.splitlines(True)
    said = [f"{len(added)} new ({', '.join(added)})"] if added else []
    said += [f"{len(gone)} removed ({', '.join(sorted(gone))})"] if gone else []
    return [f"rows of the table of fences: {', '.join(said)}"]


def _readme(lab: Lab, write: bool) -> list[str]:
    path = paths.share("README.md")
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    places = [at for at, line in enumerate(lines) if re.match(r"\| \d \| \[.*\]\(notebooks/", line)]
    if not places:
        return []
    mine = readme_row(lab)
    rows = [lines[at] for at in places]
    others = [row for row in rows if f"(`{lab.id}`)" not in row]
    later = {f"(`{other.id}`)" for other in catalogue.labs().values() if other.place > lab.place}
    at = next((place for place, row in enumerate(others) if any(word in row for word in later)), len(others))
    new = [*others[:at], mine, *others[at:]]
    if new == rows:
        return []
    lines[places[0]:places[-1] + 1] = new
    if write:
        textfile.write_bytes(path, ("\n".join(lines) + "\n").encode())
    return [f"README.md: its row is {mine}"]


# --- the form ------------------------------------------------------------------------------------------------------------


def problems(name: str) -> list[str]:
    """What a notebook lacks, or has too much, one line each; what `sync` would change is not said here."""
    path = paths.share("notebooks", name)
    if not path.is_file():
        return [f"notebooks/{name} is missing: `dlojz lab new` makes one"]
    try:
        notebook = read(name)
        found = [*_unclean(notebook), *_dead_links(notebook)]
    except (ValueError, KeyError, TypeError) as error:
        return [f"notebooks/{name} is not a notebook: {type(error).__name__}: {error}"]
    if lab_of(name) in catalogue.labs():
        found += _lacking(notebook, catalogue.lab(lab_of(name)))
    return [f"notebooks/{name}: {line}" for line in found]


def _unclean(notebook: dict) -> list[str]:
    """No outputs, nothing that makes nbval look away, no answers."""
    found = []
    if notebook["nbformat"] != 4 or notebook["metadata"].get("kernelspec", {}).get("name") != "python3":
        found.append("it must have the notebook format 4 and the kernel python3")
    seen = set()
    for number, each in enumerate(notebook["cells"], 1):
        source = "".join(each["source"])
        if each["id"] in seen:
            found.append(f"cell {number} has the id {each['id']!r} of another cell")
        seen.add(each["id"])
        if each["metadata"]:
            found.append(f"cell {number} has metadata (a tag, or a setting of the editor): remove it")
        if each["cell_type"] != "code":
            continue
        if each["outputs"] or each["execution_count"] is not None:
            found.append(f"cell {number} has an output or an execution count: clear all outputs, then save")
        if hidden := re.search("NBVAL|PYTEST_VALIDATE", source):
            found.append(f"cell {number} says {hidden[0]}, which keeps the tests from looking at it")
        if verb := re.search(r"\b(solve|diff|catch_up|reset)\(", source):
            found.append(f"cell {number} calls {verb[1]}(…): only the trainee does this")
    return found


def _dead_links(notebook: dict) -> list[str]:
    """Links without an address are to files of the workspace."""
    known = (*workspace.references(), *workspace.notebooks(), workspace.MARKER)
    prose = "\n".join("".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == "markdown")
    targets = dict.fromkeys(re.findall(r"\]\(([^)]+)\)", prose))
    return [f"the link ({target}) leads to no file of a workspace" for target in targets
            if not target.startswith("https://") and target not in known]


def _lacking(notebook: dict, lab: Lab) -> list[str]:
    """What the notebook of a lab must say, for the lab itself and for those that are checked in it."""
    whole, head = text(notebook), "".join(notebook["cells"][0]["source"])
    wanted = [] if ABLE in head else [f"the head must say `{ABLE} …`"]
    if not head.startswith(f"# Day {lab.day}, lab {lab.order}: ") or times(lab) not in head:
        wanted.append(f"its head is not that of lab.toml: `dlojz lab sync {lab.id}`")
    needed = [f'predict("{lab.id}", "{lab.prediction.question}")']
    for each in labs_in(lab):
        needed += [f'edit("{each.id}")', f'quiz("{each.id}")', f"`>>> {each.id}`", *(f"[{file}]({file})" for file in each.files)]
        wanted += [f"no row of a table is about the fence `{fence}`: `dlojz lab sync {each.id}`"
                   for fence in each.fences if f"`{fence}`" not in whole]
    wanted += [f"it must contain {words}" for words in dict.fromkeys(needed) if words not in whole]
    checked, due = checks_in(notebook), {each.id for each in labs_in(lab)}
    wanted += [f'a cell must begin with check("{each}")' for each in sorted(due - checked)]
    wanted += [f'a cell checks "{each}", which is not a lab of this notebook' for each in sorted(checked - due)]
    return wanted


# --- executed ------------------------------------------------------------------------------------------------------------

BEFORE = """
import dlojz
from dlojz.labs import verbs

def _looked_at(lab, _check=verbs.check):
    outcome = _check(lab)
    _verdicts[lab] = outcome.state
    assert outcome.state == {expected!r}, f"check({{lab!r}}) says {{outcome.state}}, expected {expected}: {{outcome}}"
    return outcome

_verdicts = {{}}
dlojz.check = verbs.check = _looked_at
"""
AFTER = """
import dlojz
assert {checked!r} <= set(_verdicts), f"checked were {{sorted(_verdicts)}}, expected {checked!r}"
for _job in dlojz.jobs:
    assert not _job.refresh().status.active, f"{{_job.run}} has not ended: let a cell wait for it, `job.wait()`"
    _meant = {ends!r}.get(_job.name, "COMPLETED")
    assert _job.state == _meant, f"{{_job.run}} is {{_job.state}} ({{_job.reason}}), expected {{_meant}}\\n{{_job.err[-1000:]}}"
    _unwritten = [todo["lab"] for todo in _job.record.todos]
    assert not (_unwritten and {solved}), f"{{_job.run}} ran without {{_unwritten}} although all labs are solved"
"""


def ends() -> dict[str, str]:
    """How the jobs of the notebooks end that do not complete, by name."""
    return START_ENDS | {name: state for lab in catalogue.labs().values() for name, state in (lab.ends or {}).items()}


def guarded(notebook: dict, expected: str, checked: set[str]) -> dict:
    """The notebook between two cells with asserts: one looks at every verdict of `check` as it comes, the other at what was
    checked and how every job ended. ``expected``: the state that every check must say; ``checked``: the labs to be checked.

    No stored output is compared: there are none.
    """
    before = cell("guard-before", "code", BEFORE.format(expected=expected))
    after = cell("guard-after", "code", AFTER.format(checked=checked, ends=ends(), solved=expected == "SOLVED"))
    return {**notebook, "cells": [before, *notebook["cells"], after]}


def environment(folder: Path, site: str = "laptop") -> dict[str, str]:
    """What a notebook that is proved runs with: small runs, its own queue, no widgets; one thread a process, since several may
    share two cores. ``folder`` is the workspace; what must not be in it lands beside it."""
    own = {
        "DLOJZ_SCALE": "ci", "DLOJZ_SITE": site, "DLOJZ_PLAIN": "1", "DLOJZ_QUEUE": str(folder.parent / "queue"),
        "IPYTHONDIR": str(folder.parent / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder.parent / "runtime"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": paths.python_path(),
    }
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(("PYTEST", "DLOJZ", "SLURM")) or name == "DLOJZ_CACHE"}
    return inherited | own


def execute(folder: Path, name: str, expected: str, cell_seconds: float = 300, seconds: float = 1200,
            site: str = "laptop") -> str:
    """Runs a notebook of this workspace with nbclient; what went wrong, in a line, or nothing. Raises ImportError without it."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    notebook = json.loads((folder / name).read_text(encoding="utf-8"))
    content = nbformat.reads(json.dumps(guarded(notebook, expected, checks_in(notebook))), as_version=4)
    env = environment(folder, site)
    os.makedirs(env["JUPYTER_RUNTIME_DIR"], exist_ok=True)
    until, at = time.monotonic() + seconds, 0

    def begins(cell, cell_index):
        nonlocal at
        at = cell_index
        client.timeout = max(1, min(cell_seconds, until - time.monotonic()))

    client = NotebookClient(content, timeout=cell_seconds, startup_timeout=cell_seconds, kernel_name="python3",
                            on_cell_start=begins, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute(env=env, stderr=subprocess.DEVNULL)  # the kernel's own; what cells write comes otherwise
    except CellExecutionError as error:
        if at > len(notebook["cells"]):
            return f"after its last cell: {_first_line(error.evalue)}"
        return f"cell {at} stops with {error.ename}: {_first_line(error.evalue)}"
    except CellTimeoutError:
        return f"cell {at} was still running after {client.timeout:.0f} s"
    except (DeadKernelError, AssertionError):  # the second: what nbclient makes of the first while it tidies up
        if hasattr(client, "_async_cleanup_kernel_future"):  # on Ctrl-C it ends the kernel, and says nothing else of it
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # nor is what its tasks end with of use to anybody
            raise KeyboardInterrupt from None
        return f"cell {at}: the kernel died; was it killed for its memory?"
    finally:
        end_jobs(folder, env)
    return ""


def _first_line(message: str) -> str:
    return next((line.strip() for line in message.splitlines() if line.strip()), "")


def end_jobs(folder: Path, env: Mapping[str, str]) -> None:
    """What a notebook that failed has left running."""
    from ..jobs import Jobs

    with environment_of(DLOJZ_QUEUE=env["DLOJZ_QUEUE"]):
        left = [job for job in Jobs(folder) if job.status.active]
        for job in left:
            job.cancel()
        for job in left:
            job.wait(30)
