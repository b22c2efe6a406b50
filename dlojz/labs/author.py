"""`dlojz lab new ID`: the files of a new lab. See docs/authoring.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from string import Template

from ..system import paths, textfile
from ..system.errors import UsageError
from . import catalogue, fences, notebooks, skeletons

FORMS = ("function", "script")  # besides the plain one, whose fences are in the reference already
MEASURE = """job = submit("{script}{short}", name="{id}")  # TODO: its switches
job"""
MEASURED = "views.dashboard(job.wait())"  # after the quiz: what a notebook leaves running has not run to completion
MEASURE_FUNCTION = """import importlib

import torch

import {id}

importlib.reload({id})  # what you have saved since
numbers = torch.randn(1000, 1000)
%timeit -n 5 -r 5 {id}.{id}(numbers)"""


def new(lab: str, form: str = "") -> list[str]:
    """Make the folder and the notebook of a lab, and a row in README.md.

    ``form``: ``function`` or ``script`` makes ``dlojz/reference/ID.py`` too, with a function to fill in or a script of its own;
    else the lab's fences must be in files of ``dlojz/reference/`` already. Returns what was made, and what to do next, one line
    each. Raises UsageError.
    """
    _refuse(lab, form)
    file = catalogue.reference(f"{lab}.py")
    made = [_write(file, _filled(getattr(skeletons, form.upper()), id=lab))] if form else []
    own, files = _fences_of(lab)
    if not own:
        pair = f"`# >>> {lab}.NAME: what it does` and `# <<< {lab}.NAME`"
        raise UsageError(f"there is no fence of {lab} yet: in a file of {catalogue.reference()} put {pair} round the lines "
                         f"that a trainee shall write, then try again; or begin with --{FORMS[0]} or --{FORMS[1]}")
    folder = catalogue.FOLDER / lab
    for name, content in _files(lab, form, own, files).items():
        made.append(_write(folder / name, content))
    found = catalogue.read(folder)
    measure = MEASURE_FUNCTION.format(id=lab) if form == "function" else MEASURE.format(
        id=lab, script=_script(files), short=" --test" if _script(files) == "train.py" else "")
    made.append(_write(paths.share("notebooks", notebooks.name_of(found)), _notebook(found, measure)))
    after = f"Next: write what `dlojz lab test {lab}` names; docs/authoring.md says how, with examples."
    return [*made, *notebooks.sync(found), after]


def _refuse(lab: str, form: str) -> None:
    if paths.is_installed():
        raise UsageError("labs are added in a checkout of the kit, and this is an installed one: clone the kit and work there")
    if not catalogue.is_id(lab):
        raise UsageError(f"{lab!r} can't be a lab's id: small letters, digits and _, a letter first")
    for path in (catalogue.FOLDER / lab, *([catalogue.reference(f"{lab}.py")] if form else [])):
        if path.exists():
            raise UsageError(f"{path} is there already: choose another id, or delete it")


def _fences_of(lab: str) -> tuple[dict[str, fences.Fence], list[str]]:
    """The fences of a lab to be, and the files of the reference that hold them."""
    own: dict[str, fences.Fence] = {}
    files = []
    for file in catalogue.files():
        here = {name: fence for name, fence in catalogue.reference_fences(file).items() if name.split(".")[0] == lab}
        own |= here
        files += [file] if here else []
    return own, files


def _files(lab: str, form: str, own: dict[str, fences.Fence], files: list[str]) -> dict[str, str]:
    """What the folder of the lab holds, by name."""
    place = max(((other.day, other.order) for other in catalogue.labs().values()), default=(1, 0))
    first, script = next(iter(own.values())), _script(files)
    run = '"--device cpu"' + (f', script="{script}"' if script != files[0] else "")
    run += ", small=False" if script != "train.py" else ""  # it may not have the switches of train.py
    words = {
        "id": lab, "title": json.dumps(_title(first.title or lab), ensure_ascii=False), "day": place[0], "order": place[1] + 1,
        "files": f"files = {json.dumps(files)}" if len(files) > 1 else f'file = "{files[0]}"',
        "file": files[0], "fence": first.id, "run": run, "kits": fences.between(first.id, first.body).rstrip(),
    }
    stubs = [fences.between(name, _stub(lab, fence, file)) for file in files
             for name, fence in catalogue.reference_fences(file).items() if name in own]
    kind = f"{form.upper()}_" if form else ""
    lab_toml = skeletons.FUNCTION_LAB if form == "function" else skeletons.LAB
    content = {"lab.toml": lab_toml, "stub.py": getattr(skeletons, f"{kind}STUB") if form else "\n".join(stubs),
               "hints.md": skeletons.HINTS, "quiz.toml": skeletons.QUIZ, "check.py": getattr(skeletons, f"{kind}CHECK"),
               "answers.py": getattr(skeletons, f"{kind}ANSWERS")}
    if form == "function":
        content["calls.py"] = skeletons.FUNCTION_CALLS
    return {name: _filled(text, **words) for name, text in content.items()}


def _filled(text: str, **words) -> str:
    return Template(text).safe_substitute(words)


def _title(words: str) -> str:
    return words[0].upper() + words[1:]


def _script(files: list[str]) -> str:
    """The file that is run: what is imported does nothing by itself."""
    return next((file for file in files if "__main__" in _text(file)), "train.py")


def _write(path: Path, content: str) -> str:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {path.parent}: {error.strerror}") from None
    textfile.write_bytes(path, content.encode())
    return f"{path.relative_to(paths.PACKAGE.parent)}: new"


def _stub(lab: str, fence, file: str) -> str:
    imported = re.search(r"(?m)^from dlojz import .*\btodo\b", _text(file))
    return f"# TODO: {fence.title or fence.id}\n" + (f'todo("{lab}")\n' if imported else "pass\n")


def _text(file: str) -> str:
    return catalogue.reference(file).read_text(encoding="utf-8")


def _notebook(lab: catalogue.Lab, measure: str) -> str:
    links = " and ".join(f"[{file}]({file})" for file in lab.files)
    able = f"{notebooks.ABLE} TODO: what one can do after this lab."
    submits = "submit(" in measure
    cells = [
        ("markdown", f"{notebooks.heading(lab)}\n\n{able}\n\n{notebooks.times(lab)}"),
        ("code", f"from dlojz import check, edit, hint, predict, quiz{', submit, views' if submits else ''}"),
        ("markdown", "## TODO: what it is worth\n\nTODO: a number with its source first, then why, in 120 words."),
        ("code", f'predict("{lab.id}", "{lab.prediction.question}")'),
        ("markdown", f"## Write it\n\nEach link of the next cell opens the file where you write. Or open {links} and search for "
                     f"`>>> {lab.id}`.\n\n" + "\n".join([notebooks.TABLE, *notebooks.fence_rows(lab)])
                     + f'\n\nSave, then check. Stuck? Run `hint("{lab.id}")` in a new cell.'),
        ("code", f'edit("{lab.id}")'),
        ("code", f'check("{lab.id}")'),
        ("markdown", "## Measure it"),
        ("code", measure),
        ("code", f'quiz("{lab.id}")'),
        *([("code", MEASURED)] if submits else []),
        ("markdown", "## What to conclude\n\nTODO: three sentences or so."),
        ("markdown", "## To take along: the same in a bare loop\n\nTODO: a sentence, then a cell of 15 lines without the kit."),
    ]
    content = [notebooks.cell(f"{lab.id}-{number}", kind, source) for number, (kind, source) in enumerate(cells, 1)]
    return notebooks.dumped({"cells": content, "metadata": notebooks.KERNEL, "nbformat": 4, "nbformat_minor": 5})
