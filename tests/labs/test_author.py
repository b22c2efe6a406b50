"""The guide for authors is followed to the letter: what it shows works, on a copy of the kit."""

import contextlib
import json
import os
import re
import subprocess
import sys

import pytest
from patience import LIMIT

from dlojz.labs import notebooks, proof
from dlojz.labs.answers import Answer
from dlojz.labs.outcome import CANNOT_CHECK, SOLVED, WRONG, Outcome
from dlojz.labs.probe import observe
from dlojz.system import paths

GUIDE = (paths.PACKAGE.parent / "docs" / "authoring.md").read_text()
BLOCK = re.compile(r"^```(\w+) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def apply(text, patch):
    """A diff without line numbers: what it removes and keeps must be there exactly once."""
    lines = [line for line in patch.splitlines(True) if line.strip()]
    old = "".join(line[1:] for line in lines if line[0] in " -")
    new = "".join(line[1:] for line in lines if line[0] in " +")
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_guide_s_examples_work_step_by_step(kit, tmp_path):
    ran = []
    for kind, name, content in BLOCK.findall(GUIDE):
        target = kit.root / name
        if kind == "diff":
            target.write_text(apply(target.read_text(), content))
        elif name:
            assert target.exists(), f"the skeleton has no {name}"
            target.write_text(content)
        else:
            ran.append(shell(kit, content.replace("/tmp/try", str(tmp_path / "try"))))
    new, proved, trainee, new_function, proved_function = ran
    assert "dlojz/labs/evaluation/check.py: new" in new and "README.md: its row is" in new
    assert "renamed to day4_50_evaluation.ipynb" in proved and "Validate with what was learned" in proved
    assert "3 runs of right answers accepted, 4 wrong answers refused" in proved
    assert re.search(r"evaluation: not attempted.*evaluation: solved", trainee, re.DOTALL), trainee
    assert "dlojz/reference/softmax.py: new" in new_function
    assert "3 runs of right answers accepted, 4 wrong answers refused" in proved_function
    left = kit.run("lab", "test", "evaluation", "--only", "files", code=1).splitlines()
    assert all(re.match(r"✗ notebooks/day4_50_evaluation.ipynb, cell \d+: .*TODO", line) for line in left if line[0] == "✗"), left
    assert "`" not in kit.run("lab", "sync"), "following the guide leaves nothing to sync"


def shell(kit, commands):
    """What a shell says to these lines; a command that fails ends the test, but for the exit code its comment names."""
    said, folder = "", kit.root
    programs = kit.root / "bin"
    programs.mkdir(exist_ok=True)
    for name, words in (("dlojz", "-m dlojz.cli"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(kit.root), "DLOJZ_PLAIN": "1", "PATH": f"{programs}:{os.environ['PATH']}"}
    for line in commands.splitlines():
        command, _, comment = line.partition("  #")
        if command.startswith("sh tools/setup.sh"):
            continue  # what this test runs in is installed
        if command.startswith("cd "):
            folder = command[3:]
            continue
        done = subprocess.run(command, shell=True, cwd=folder, env=env, text=True, capture_output=True, timeout=800, check=False)
        code = int(comment.strip()[0]) if comment else 0
        assert done.returncode == code, (command, done.returncode, done.stdout, done.stderr)
        said += done.stdout
    return said


def test_a_lab_needs_its_fences_first(kit):
    said = kit.run("lab", "new", "evaluation", code=2)
    assert "there is no fence of evaluation yet" in said and said.count("\n") == 1
    assert "`# >>> evaluation.NAME: what it does`" in said
    assert not (kit.package / "labs" / "evaluation").exists()


def test_a_new_lab_is_one_at_once(kit):
    fenced = '    # >>> evaluation: the "mode"\n    net.eval()\n    # <<< evaluation\n'
    kit.edit("reference/train.py", "    net.eval()\n", fenced)
    said = kit.run("lab", "new", "evaluation")
    assert said.count(": new") == 7
    work = kit.root / "work"
    kit.run("workspace", work)
    assert '    # >>> evaluation: the "mode"\n    # TODO: the "mode"\n    todo("evaluation")\n' in (work / "train.py").read_text()
    assert "not attempted" in kit.run("check", "evaluation", folder=work, code=3)
    assert "evaluation" in kit.run("progress", folder=work)
    assert "views.dashboard(job.wait())" in next(work.glob("day*_evaluation.ipynb")).read_text(), "it waits for its job"
    assert "is there already" in kit.run("lab", "new", "evaluation", code=2)


@pytest.mark.long
def test_a_new_lab_in_a_file_that_train_py_imports(kit):
    """With its stub it can be imported, and its first check runs the training."""
    fenced = "    # >>> scaled: by images\n    images = args.batch_size * args.accumulate * processes\n    # <<< scaled\n"
    kit.edit("reference/optimizers.py", "    images = args.batch_size * args.accumulate * processes\n", fenced)
    kit.run("lab", "new", "scaled")
    work = kit.root / "work"
    kit.run("workspace", work)
    assert "    # >>> scaled: by images\n    # TODO: by images\n    todo(\"scaled\")\n" in (work / "optimizers.py").read_text()
    kit.run("solve", "--yes", "scaled", folder=work)
    assert "Verified: TODO: what is so where nothing differs" in kit.run("check", "scaled", folder=work)
    assert 'submit(\\"train.py --test\\", name=' in next(work.glob("day*_scaled.ipynb")).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["function", pytest.param("script", marks=pytest.mark.long)])
def test_a_skeleton_passes_its_own_test_but_for_its_todos(kit, form):
    made = kit.run("lab", "new", "rows", f"--{form}")
    assert "dlojz/reference/rows.py: new" in made and "README.md: its row is" in made
    said = kit.run("lab", "test", "rows", "--only", "files", "--only", "check", code=1).splitlines()
    faults = [line for line in said if line.startswith("✗")]
    assert faults and all("TODO" in line and line.endswith("is still to be written") for line in faults), faults
    assert any("3 runs of right answers accepted, 4 wrong answers refused" in line for line in said), said
    assert "is there already" in kit.run("lab", "new", "rows", f"--{form}", code=2)


@pytest.mark.parametrize("name", ["Validation", "../x", "1st", "a b", ""])
def test_ids_that_cannot_be(kit, name):
    assert "can't be a lab's id" in kit.run("lab", "new", name, code=2)


def test_an_installed_kit_is_not_changed(kit):
    (kit.package / "_share").mkdir()
    assert "clone the kit" in kit.run("lab", "new", "evaluation", code=2)


def test_a_kit_with_a_broken_lab_says_where(kit):
    path = kit.package / "labs" / "amp" / "lab.toml"
    path.write_text(path.read_text().replace("minutes = 45", "minutes = 0"))
    said = kit.run("workspace", kit.root / "work", code=2)
    assert "amp/lab.toml, line 7: minutes = 0 is not possible: expected a whole number from 1 to 600" in said


# --- sync ----------------------------------------------------------------------------------------------------------------


def notebook(kit, name):
    return json.loads((kit.root / "notebooks" / name).read_text())


def source(content, cell):
    return "".join(content["cells"][cell]["source"])


def test_sync_writes_what_lab_toml_says_and_nothing_else(kit):
    before = {path: path.read_bytes() for path in [*kit.root.glob("notebooks/*"), kit.root / "README.md"]}
    assert kit.run("lab", "sync") == ""
    kit.edit("labs/amp/lab.toml", "order = 2", "order = 8")
    kit.edit("labs/amp/lab.toml", "minutes = 45", "minutes = 50")
    kit.edit("labs/amp/lab.toml", 'title = "Automatic mixed precision"', 'title = "Half the bits"')
    kit.edit("labs/amp/lab.toml", "How many times faster than your run without it?", "How many times as \\\"fast\\\"?")
    said = kit.run("lab", "sync", "amp")
    assert "notebooks/day1_2_amp.ipynb: renamed to day1_8_amp.ipynb, and the links to it" in said
    content = notebook(kit, "day1_8_amp.ipynb")
    assert source(content, 0).startswith("# Day 1, lab 8: Half the bits\n") and " · 50 minutes, " in source(content, 0)
    assert any('predict("amp", "How many times as \\"fast\\"?")' in source(content, at) for at in range(len(content["cells"])))
    rows = [line for line in (kit.root / "README.md").read_text().splitlines() if line.startswith("| 1 |")]
    assert rows[-1] == "| 1 | [Half the bits](notebooks/day1_8_amp.ipynb) (`amp`) | 50 |" and len(rows) == 5
    assert "](day1_8_amp.ipynb)" in (kit.root / "notebooks/day1_3_channels_last.ipynb").read_text()
    assert kit.run("lab", "sync") == "", "it is idempotent"
    for path, content in before.items():
        linked = b"day1_2_amp.ipynb" in content or path.name == "day1_2_amp.ipynb"
        assert linked == (not path.exists() or path.read_bytes() != content), path.name


def test_sync_keeps_a_row_for_each_fence(kit):
    kit.edit("reference/train.py", "# >>> amp.forward:", "# >>> amp.pass:")
    kit.edit("reference/train.py", "# <<< amp.forward", "# <<< amp.pass")
    text = (kit.package / "labs/amp/stub.py").read_text()
    (kit.package / "labs/amp/stub.py").write_text(text.replace("amp.forward", "amp.pass"))
    assert "rows of the table of fences: 1 new (amp.pass), 1 removed (amp.forward)" in kit.run("lab", "sync", "amp")
    table = re.findall(r"\| `(amp\.\w+)` \| (.*) \|", notebooks.text(notebook(kit, "day1_2_amp.ipynb")))
    assert [fence for fence, _ in table] == ["amp.dtype", "amp.pass", "amp.backward", "amp.update"]
    assert "nscale" in table[3][1], "the author's words stay"
    assert table[1][1] == "half precision where it is safe"


# --- lab test ------------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_named_in_a_line_each(kit):
    folder = kit.package / "labs" / "amp"
    kit.edit("labs/amp/stub.py", "# >>> amp.dtype\n", "# >>> amp.dtyp\n")
    kit.edit("labs/amp/stub.py", "# <<< amp.dtype\n", "# <<< amp.dtyp\n")
    with (folder / "answers.py").open("a") as file:
        file.write("\n# wrong: mine\n# >>> amp.update\n# <<< amp.update\n\n# right: yours\n# >>> amp.none\n# <<< amp.none\n")
    with (folder / "check.py").open("a") as file:
        file.write("# TODO: more\n")
    kit.edit("labs/amp/check.py", '"loss.target"', '"loss.targets"')
    kit.edit("labs/amp/check.py", '"recorded.loss"', '"recordde.loss", "update.missing", "batch.indices", "model.inputs.mark"')
    with (kit.package / "reference/loading.py").open("a") as file:
        file.write("# >>> amp.more\n# <<< amp.more\n")
    kit.edit("reference/train.py", "    net.eval()\n", "    # >>> ampp.mode\n    net.eval()\n    # <<< ampp.mode\n")
    (folder / "hint.md").touch()
    (folder / "unused.py").touch()
    (folder / "wrong").mkdir()
    (folder / "quiz.toml").unlink()
    readme = kit.root / "README.md"
    readme.write_text(readme.read_text().replace("(`amp`) | 45 |", "(`amp`) | 4 |"))
    content = notebook(kit, "day1_2_amp.ipynb")
    content["cells"][1] |= {"execution_count": 3, "source": ["solve('amp')"]}
    (kit.root / "notebooks/day1_2_amp.ipynb").write_text(json.dumps(content))
    found = kit.run("lab", "test", "amp", code=1)
    for said in (
        r"labs/amp/quiz.toml is missing",
        r"labs/amp/hint.md is read by nothing: did you mean 'hints.md'\?",
        r"labs/amp/unused.py is read by nothing: neither the check nor the notebook imports it",
        r"labs/amp/wrong is a folder, and a lab has none",
        r"reference/loading.py, line \d+: the fence amp.more is of this lab, but lab.toml does not name loading.py in `files`",
        r"reference/train.py, line \d+: the fence ampp.mode is of no lab: did you mean 'amp'\?",
        r"labs/amp/stub.py, line \d+: the fence amp.dtyp is not a fence of this lab",
        r"labs/amp/stub.py: the fence amp.dtype has no stub: add one between",
        r"labs/amp/answers.py, line \d+: say what the message of the check must match: `# wrong: mine · expect: REGEX`",
        r"labs/amp/answers.py, line \d+: the fence amp.none is in no file of the reference",
        r"labs/amp/check.py, line \d+: `TODO: more` is still to be written",
        r"labs/amp/check.py, line \d+: a fact `loss` has no `targets`: `dlojz lab facts loss` says what it has$",
        r"labs/amp/check.py, line \d+: no fact is called `recordde.loss`: did you mean 'recorded'\? `dlojz lab facts` lists all$",
        r"README.md: its row is .* \| 45 \|: `dlojz lab sync amp` does it",
        r"notebooks/day1_2_amp.ipynb: cell 2 has an output or an execution count",
        r"notebooks/day1_2_amp.ipynb: cell 2 calls solve\(…\): only the trainee does this",
    ):
        assert re.search(rf"(?m)^✗ (dlojz/)?{said}", found), (said, found)
    assert found.count("no fact is called") == found.count("a fact `") == 1, "the other names are those of facts"
    assert "check and notebook: not tried, for " in found and "things are missing or wrong" in found


def test_what_a_check_says_of_an_answer_is_judged():
    def said(kind, state, message="", verified=("it works",)):
        answer = Answer(kind, "mine", "mine", "never.*seen" if kind == "wrong" else "", {}, 1)
        return proof.fault(answer, Outcome("amp", state, message, verified))

    assert said("right", SOLVED) == "" and said("wrong", WRONG, "never\nseen\nWhere to look: here") == ""
    assert said("right", WRONG, "Seen: this.\nThat.") == "must be SOLVED, and the check says WRONG: Seen: this. That."
    assert said("right", SOLVED, verified=()) == "is SOLVED, but the check says nothing of what it has verified"
    assert said("wrong", SOLVED) == "must be WRONG, and the check says SOLVED: amp: solved"
    assert said("wrong", CANNOT_CHECK, "never seen").startswith("must be WRONG, and the check says CANNOT_CHECK: ")
    assert said("wrong", WRONG, "Where to look: ").startswith("is refused, but not with a message that matches `never.*seen`")
    assert said("wrong", WRONG, "never seen") == "is refused, but not told where to look: never seen"


@pytest.mark.parametrize("words, said", [
    (["lab", "test", "apm"], "there is no lab 'apm': did you mean 'amp'"), (["lab", "sync", "apm"], "there is no lab 'apm'"),
    (["lab", "test", "apm", "--only", "notebook"], "there is no lab 'apm'"),
    (["lab", "test", "gpu", "--answer", "mine"], "no answer of gpu has 'mine' in its first line: there is `right: "),
    (["lab", "facts", "los"], "no fact is called 'los': did you mean 'loss'? Choose from batch, "),
    (["lab", "test", "amp", "--only", "all"], "Choose from files, check, notebook"), (["lab"], "new|sync|test"),
    (["lab", "new", "x", "--function", "--script"], "not allowed with"),
])
def test_bad_usage_has_the_exit_code_2(kit, words, said):
    assert said in kit.run(*words, code=2)


def test_one_answer_is_tried_and_what_the_check_says_is_shown(monkeypatch):
    tried = []

    def run_check(lab, folder, limits, session):
        tried.append((folder / "train.py").read_text())
        return Outcome(lab, WRONG, "Seen: the model gets images that are on cpu.\nWhere to look: the fence gpu.batch")

    monkeypatch.setattr("dlojz.labs.checking.run_check", run_check)
    monkeypatch.setattr("dlojz.labs.probe.Session", contextlib.nullcontext)
    lines = list(proof.test("gpu", words="wrong: images stay"))
    assert len(tried) == 1 and "images = images.to(" not in tried[0]
    assert [well for well, _ in lines] == [True, True]
    assert re.match(r"answers.py, line \d+: `wrong: images stay`\n(.|\n)*images that are on cpu", lines[0][1])
    assert "1 wrong answers refused" in lines[1][1] and "the stub" not in lines[1][1]
    assert [well for well, _ in proof.test("gpu", words="right: copies")] == [False, False, True], "later labs stubbed and solved"


def test_facts_are_listed_with_their_keys(kit):
    said = kit.run("lab", "facts", "validation", "overflow")
    assert said.startswith("validation: loss, accuracy, images. Compared: loss, accuracy, images.\noverflow: the probe has made ")
    assert said.endswith("Compared: no key unless a row names one.\n")
    assert re.findall(r"(?m)^(?:update|loader|model.move)(?=: )", kit.run("lab", "facts")) == ["loader", "model.move", "update"]
    assert set(observe.compared()) <= set(observe.documented()), "what is compared is documented"


def test_a_complete_lab_has_the_exit_code_0(kit):
    said = kit.run("lab", "test", "profiler_hunt", "--only", "files")
    assert said.endswith("profiler_hunt: nothing is missing or wrong in files\n") and "✗" not in said


def test_a_notebook_that_is_executed_says_what_went_wrong(here):
    cells = ["from dlojz import check", 'check("gpu")', "1 / 0"]
    code = [notebooks.cell(f"cell-{at}", "code", text) for at, text in enumerate(cells)]
    (here / "mine.ipynb").write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert notebooks.execute(here, "mine.ipynb", "NOT_ATTEMPTED") == "cell 3 stops with ZeroDivisionError: division by zero"
    code[-1] = notebooks.cell("cell-2", "code", 'from dlojz import submit\nsubmit("train.py --test", name="left")')
    (here / "mine.ipynb").write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    said = notebooks.execute(here, "mine.ipynb", "NOT_ATTEMPTED")
    assert said == "after its last cell: left-001 has not ended: let a cell wait for it, `job.wait()`"
    said = notebooks.execute(here, "mine.ipynb", "SOLVED")
    assert said.startswith("cell 2 stops with AssertionError: check('gpu') says NOT_ATTEMPTED, expected SOLVED")


def test_a_kernel_that_dies_is_said(here):
    """As where it is killed for its memory: the proof of a whole course goes on with the next notebook."""
    killed = notebooks.cell("cell-1", "code", "import os; os.kill(os.getpid(), 9)")
    (here / "mine.ipynb").write_text(json.dumps({"cells": [killed], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert notebooks.execute(here, "mine.ipynb", "SOLVED") == "cell 1: the kernel died; was it killed for its memory?"


def test_interrupted_it_stops(here):
    """And does not go on with the next notebook, as nbclient would: it takes SIGINT for itself."""
    cell = notebooks.cell("cell-1", "code", "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(600)")
    (here / "mine.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    program = ("import pathlib; from dlojz.labs import notebooks\n"
               f"print(notebooks.execute(pathlib.Path({str(here)!r}), 'mine.ipynb', ''))")
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=LIMIT)
    assert not done.stdout and done.stderr.rstrip().endswith("KeyboardInterrupt"), done.stdout + done.stderr
