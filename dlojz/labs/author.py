"""`dlojz lab new ID`: the files of a new lab, made from the fences that stand in the reference already. See docs/authoring.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

from .. import paths
from ..errors import UsageError
from . import catalogue, fences, textfile

LAB = '''id = "{id}"
title = {title}
day = {day}
order = {order}
difficulty = 2  # 1 to 5
importance = 3  # 1 to 5
minutes = 30
gpu_minutes = 3
needs = []
{files}

# What its run should reach, as a multiple of what another run of the same trainee measured; leave it out where nothing is.
# [goal]
# run = "{id}"
# against = "gpu"
# at_least = {{ laptop = 1.1, gpu = 1.2, cluster = 1.2 }}
'''

HINTS = """# Hints for the lab {id}

## 1: where to look
TODO: what is to be thought about, and the words to look up.

## 2: what the calls do
TODO: the calls, and what goes into which fence.

## 3: nearly the answer
TODO: the code with the decisive part left out.
"""

QUIZ = """# Three questions or more.
[[question]]
id = "first"
kind = "one"  # one, several or number
text = "TODO: a question for the waiting time?"
options = ["TODO: right", "TODO: wrong"]
answer = "TODO: right"
explanation = "TODO: why."
"""

CHECK = '''"""{id}: TODO: what has to be so, in one sentence."""

from dlojz.labs.checking import expect


def check(probe):
    run = probe.run({run})  # TODO: the switches that ask for this technique
    model = run.need("model", training=True)
    expect(False, saw=f"the model got {{model.inputs[0]['dtype']}} images", expected="TODO: what has to be so", look="{fence}")
    probe.verified.append("TODO: what has been seen to be so")
'''


def new(lab: str) -> list[str]:
    """Make the folder and the notebook of a lab whose fences stand in files of ``dlojz/reference/``.

    Returns what was made, and what is to be done next, one line each. Raises UsageError.
    """
    if (paths.PACKAGE / "_share").is_dir():
        raise UsageError("labs are added in a checkout of the kit, and this is an installed one: clone the kit and work there")
    if not catalogue.is_id(lab):
        raise UsageError(f"{lab!r} can't be a lab's id: small letters, digits and _, a letter first")
    folder = catalogue.FOLDER / lab
    if folder.exists():
        raise UsageError(f"{folder} is there already: choose another id, or delete it")
    own: dict[str, fences.Fence] = {}
    files = []
    for file in catalogue.files():
        here = {name: fence for name, fence in catalogue.reference_fences(file).items() if name.split(".")[0] == lab}
        own |= here
        files += [file] if here else []
    if not own:
        pair = f"`# >>> {lab}.NAME: what it does` and `# <<< {lab}.NAME`"
        raise UsageError(f"there is no fence of {lab} yet: in a file of {catalogue.reference()} put {pair} round the lines "
                         "that a trainee shall write, then try again")
    place = max(((other.day, other.order) for other in catalogue.labs().values()), default=(1, 0))
    first = next(iter(own.values()))
    title = first.title or lab
    script = next((file for file in files if "__main__" in _text(file)), "train.py")  # what is imported does nothing by itself
    run = '"--device cpu"' + (f', script="{script}"' if script != files[0] else "")
    run += ", small=False" if script != "train.py" else ""  # it may not have the switches of train.py
    words = {"id": lab, "title": json.dumps(title, ensure_ascii=False), "day": place[0], "order": place[1] + 1,
             "files": f"files = {json.dumps(files)}" if len(files) > 1 else f'file = "{files[0]}"', "fence": first.id,
             "run": run}
    made: dict[Path, str] = {
        folder / "lab.toml": LAB.format(**words),
        folder / "stub.py": "\n".join(_fenced(name, _stub(lab, fence, file)) for file in files
                                      for name, fence in catalogue.reference_fences(file).items() if name in own),
        folder / "hints.md": HINTS.format(**words),
        folder / "quiz.toml": QUIZ,
        folder / "check.py": CHECK.format(**words),
        folder / "answers.py": f"# right: TODO: written otherwise\n{_fenced(first.id, first.body)}\n"
                               f"# wrong: TODO: a mistake · expect: TODO: what its message says\n{_fenced(first.id, 'pass')}",
        paths.share("notebooks", f"day{place[0]}_{place[1] + 1}_{lab}.ipynb"): _notebook(lab, title, files, script),
    }
    for path, content in made.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot make {path.parent}: {error.strerror}") from None
        textfile.write_bytes(path, content.encode())
    catalogue.read(folder)
    return [*(f"{path.relative_to(paths.PACKAGE.parent)}: new" for path in made),
            "Next: write the TODOs in them; docs/authoring.md says how, with an example."]


def _stub(lab: str, fence, file: str) -> str:
    imported = re.search(r"(?m)^from dlojz import .*\btodo\b", _text(file))
    return f"# TODO: {fence.title or fence.id}\n" + (f'todo("{lab}")\n' if imported else "pass\n")


def _text(file: str) -> str:
    return catalogue.reference(file).read_text(encoding="utf-8")


def _fenced(name: str, body: str) -> str:
    return f"# >>> {name}\n{body.rstrip()}\n# <<< {name}\n"


def _notebook(lab: str, title: str, files: list[str], script: str) -> str:
    links = " and ".join(f"[{file}]({file})" for file in files)
    cells = [
        ("markdown", f"# {title}\n\nTODO: what you will be able to do. Difficulty, minutes."),
        ("code", "from dlojz import check, edit, jobs, predict, quiz, submit"),
        ("markdown", "TODO: the idea, with a figure."),
        ("code", f'predict("{lab}", "How many times faster?")'),
        ("markdown", f'The next cell opens {links} where you write: search for `>>> {lab}`. Stuck? `hint("{lab}")`.'),
        ("code", f'edit("{lab}")'),
        ("code", f'check("{lab}")'),
        ("code", f'job = submit("{script}", name="{lab}")  # TODO: its switches'),
        ("code", f'quiz("{lab}")'),
        ("markdown", "TODO: what to conclude, going further."),
    ]
    rest = {"markdown": {}, "code": {"execution_count": None, "outputs": []}}
    return json.dumps({
        "cells": [{"cell_type": kind, "id": f"{lab}-{i}", "metadata": {}, "source": source.splitlines(True), **rest[kind]}
                  for i, (kind, source) in enumerate(cells)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4, "nbformat_minor": 5,
    }, indent=1) + "\n"
