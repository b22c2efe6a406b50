"""The guide for authors is followed to the letter: what it shows works, on a copy of the kit."""

import os
import re
import shutil
import subprocess
import sys

import pytest

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
def test_the_guide_s_example_works_step_by_step(kit, tmp_path):
    tests = paths.PACKAGE.parent / "tests" / "labs"
    shutil.copytree(tests, kit.root / "tests" / "labs", ignore=shutil.ignore_patterns("__pycache__"))
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
    new, proof, trainee = ran
    assert "dlojz/labs/evaluation/check.py: new" in new and "day" in new
    passed, deselected = re.search(r"(\d+) passed, (\d+) deselected", proof).groups()
    assert int(passed) >= 6 + 3 * 2 + 2 + 1 + 1 + 2 and int(deselected) > 0, proof
    assert re.search(r"evaluation: not attempted.*Hint 1 of 3 for evaluation.*evaluation: solved", trainee, re.DOTALL), trainee
    files = [path for path in (kit.package / "labs/evaluation").glob("*.*") if path.name != "stub.py"]
    assert files and "TODO" not in "".join(path.read_text() for path in files)


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
        done = subprocess.run(command, shell=True, cwd=folder, env=env, text=True, capture_output=True, timeout=280, check=False)
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
    assert list(work.glob("day*_evaluation.ipynb"))
    assert "is there already" in kit.run("lab", "new", "evaluation", code=2)


def test_a_new_lab_in_a_file_that_train_py_imports(kit):
    """With its stub it can be imported, and its first check runs the training."""
    fenced = "    # >>> scaled: by images\n    images = args.batch_size * args.accumulate * processes\n    # <<< scaled\n"
    kit.edit("reference/optimizers.py", "    images = args.batch_size * args.accumulate * processes\n", fenced)
    kit.run("lab", "new", "scaled")
    work = kit.root / "work"
    kit.run("workspace", work)
    assert "    # >>> scaled: by images\n    # TODO: by images\n    pass\n" in (work / "optimizers.py").read_text()
    kit.run("solve", "--yes", "scaled", folder=work)
    assert "Seen: the model got float32 images" in kit.run("check", "scaled", folder=work, code=1)
    assert 'submit(\\"train.py\\", name=' in next(work.glob("day*_scaled.ipynb")).read_text()


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
