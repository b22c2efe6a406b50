"""lab.toml, quiz.toml, hints.md and stubs: what is not in order is named with its file, its line and what was expected."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from dlojz.labs import catalogue, fences, proof, questions
from dlojz.system import paths
from dlojz.system.errors import UsageError
from dlojz.training import records, todos

LABS = catalogue.labs()


@pytest.fixture
def folder(tmp_path):
    """A copy of the folder of the lab amp."""
    return shutil.copytree(catalogue.FOLDER / "amp", tmp_path / "amp")


def refused(folder, name, old, new, read=catalogue.read):
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError) as raised:
        read(folder)
    said = str(raised.value)
    assert "\n" not in said and str(path) in said
    return said.removeprefix(str(path))


@pytest.mark.parametrize("lab", LABS)
def test_the_kit_s_labs_are_in_order(lab):
    assert not proof.problems(lab)


def test_they_come_in_the_order_of_the_course():
    assert list(LABS)[:3] == ["gpu", "amp", "channels_last"]
    assert [lab.id for lab in catalogue.before(LABS["channels_last"])] == ["gpu", "amp"] and catalogue.before(LABS["gpu"]) == []


def test_a_stubbed_file_is_valid_and_techniques_without_a_lab_stay():
    text = catalogue.laid_out("train.py")
    compile(text, "train.py", "exec")
    stubs = {name: stub for lab in catalogue.in_file("train.py") for name, stub in lab.stubs.items()}
    found = fences.all_of(text, "train.py")
    for name, fence in catalogue.reference_fences("train.py").items():
        assert found[name].body == stubs.get(name, fence.body)
    assert catalogue.laid_out("train.py", LABS) == catalogue.reference("train.py").read_text()


@pytest.mark.parametrize("name, old, new, said", [
    ("lab.toml", "difficulty = 2", "difficulty = 9",
     ", line 5: difficulty = 9 is not possible: expected a whole number from 1 to 5"),
    ("lab.toml", "difficulty = 2", "dificulty = 2", ", line 5: unknown key 'dificulty'; did you mean 'difficulty'?"),
    ("lab.toml", "difficulty = 2", "", ": difficulty is missing: expected a whole number from 1 to 5"),
    ("lab.toml", 'needs = ["gpu"]', 'needs = "gpu"',
     """, line 9: needs = 'gpu' is not possible: expected a list of labs, such as ["gpu"]"""),
    ("lab.toml", 'id = "amp"', 'id = "apm"', ', line 1: id = "apm" in a folder called amp: they must be the same'),
    ("lab.toml", 'id = "amp"', 'id = "../amp"', ", line 1: id = '../amp' is not possible: expected the name of its folder"),
    ("lab.toml", 'file = "train.py"', 'file = "trian.py"', ', line 11: file: "trian.py" is not in '),
    ("lab.toml", 'file = "train.py"', 'file = "optimizers.py"', ", line 1: optimizers.py has no fence `# >>> amp: …`"),
    ("lab.toml", 'file = "train.py"', 'file = "../x.py"', ", line 11: file = '../x.py' is not possible"),
    ("lab.toml", "gpu = 1.05,", "moon = 1.05,",
     ", line 19: at_least = {'moon': 1.05, 'cluster': 1.05} is not possible: expected a number above 0"),
    ("lab.toml", "{ laptop", "{ gpu", ", line 20: there is a goal for gpu, and a reason why there is none"),
    ("lab.toml", "at_least", "at_last", ", line 19: unknown key 'at_last'; did you mean 'at_least'?"),
    ("lab.toml", "at_least =", "# at_least =", ", line 16: a goal has either at_least or at_most"),
    ("lab.toml", "[goal]", "goal = 3\n[goals]", ", line 15: goal must be a table: [goal]"),
    ("lab.toml", "day = 1", "day = ", " is not valid TOML: Invalid value (at line 3, column 7)"),
    ("lab.toml", "day = 1", "day = true", ", line 3: day = true is not possible"),
])
def test_what_is_wrong_in_a_lab_is_named_with_its_line(folder, name, old, new, said):
    assert said in refused(folder, name, old, new)


@pytest.mark.parametrize("old, new, said", [
    ('kind = "one"', 'kind = "any"', """: kind = 'any' is not possible: expected one of "one", "several", "number\""""),
    ('answer = ["bf16", "tf32"]', 'answer = ["bf16", "tf33"]', ": 'tf33' is not one of the options"),
    ('answer = ["bf16", "tf32"]', 'answer = "bf16"', ": answer must be a list of options"),
    ("answer = 2", 'answer = "two"', ': answer must be a number where kind is "number"'),
    ("tolerance = 0", "tolerance = -1", ": tolerance = -1 is not possible: expected a number, at least 0"),
    ('options = ["fp16", "bf16", "tf32"]', 'options = ["bf16", "bf16", "tf32"]', ": options must be two or more different texts"),
    ('id = "scale"', 'id = "range"', ": the id 'range' is there twice"),
    ("explanation =", "because =", ": unknown key 'because'; known keys: id, kind"),
    ("why = [", 'why = ["one too many", ', ": why needs one text for each wrong option, in their order: 1, not 2"),
    ("tolerance = 0", 'why = ["?"]', ": a number has no why"),
])
def test_what_is_wrong_in_a_quiz_is_named_with_its_line(folder, old, new, said):
    before = (folder / "quiz.toml").read_text().split(old)[0].count("\n") + 1
    found = refused(folder, "quiz.toml", old, new, lambda folder: questions.read(catalogue.read(folder)))
    assert found.startswith(f", line {before}{said}"), found


def test_a_wrong_option_without_a_reason_is_named(folder):
    file = folder / "quiz.toml"
    file.write_text(re.sub(r"(?ms)^why = \[.*?\]$\n", "", file.read_text(), count=1))
    (said,) = proof._poor_quiz(catalogue.read(folder))
    assert said == f"{file}: the question 'range' needs `why`, a list with a reason for each wrong option"


def test_hints_need_three_steps(folder):
    found = refused(folder, "hints.md", "## 2:", "2:", lambda folder: catalogue.read(folder).hints)
    assert found == " has 2 steps: expected three, each a text under a heading `## …`"


@pytest.mark.parametrize("name", ["stub.py", "answers.py"])
def test_a_file_that_is_missing_or_no_text_is_named(folder, name):
    for spoil in ((folder / name).unlink, lambda: (folder / name).write_bytes(b"\xff")):
        spoil()
        with pytest.raises(UsageError, match=rf"amp/{name} cannot be read: "):
            _ = catalogue.read(folder).stubs if name == "stub.py" else catalogue.answers(catalogue.read(folder))


@pytest.mark.parametrize("old, new, said", [
    ("# >>> amp.forward", "# >>> amp.foward", "the fence amp.foward begins here and ends nowhere"),
    ("# <<< amp.dtype\n", "# <<< amp.dtype\n\nscaler = 1\n", "`scaler = 1` is outside of all fences"),
    ("# >>> amp.dtype", "# >>> gpu.model\n# <<< gpu.model\n\n# >>> amp.dtype", "the fence gpu.model is not a fence of this lab"),
    ("# >>> amp.dtype", "# >>> amp.forward\n# <<< amp.forward\n# >>> amp.dtype", "`# >>> amp.forward` is there twice, here"),
])
def test_what_is_wrong_in_a_stub_is_named_with_its_line(folder, old, new, said):
    found = refused(folder, "stub.py", old, new, lambda folder: catalogue.read(folder).stubs)
    assert re.match(r", line \d+: ", found) and said in found, found


def test_a_fence_without_a_stub_is_named(folder):
    text = (folder / "stub.py").read_text()
    (folder / "stub.py").write_text(text.split("# >>> amp.update")[0])
    with pytest.raises(UsageError, match=r"stub.py: the fence amp.update has no stub: add one between `# >>> amp.update` and"):
        _ = catalogue.read(folder).stubs


@pytest.mark.parametrize("text, line, said", [
    ("x = 1\n{}", 1, "`x = 1` is outside of all fences"),
    ("# >>> amp.update\n# <<< amp.update\n{}", 1, "the fence amp.update stands before the first answer"),
    ("# wrong: a b\n# >>> amp.update\n# <<< amp.update\n{}", 1,
     "say what the message of the check must match: `# wrong: a b · expect: REGEX`"),
    ("{}# wrong: a b · expect: (\n# >>> amp.update\n# <<< amp.update\n", 5, "`(` is not a regular expression: missing )"),
    ("{}# right: a b · expect: x\n# >>> amp.update\n# <<< amp.update\n", 5, "a right answer has no message to expect"),
    ("{}# right: By  HAND\n# >>> amp.update\n# <<< amp.update\n", 5, "there is an answer `by hand` already, in line 1"),
    ("{}# right:\n# >>> amp.update\n# <<< amp.update\n", 5, "an answer needs a name: `# right: what it does`"),
    ("{}# right: nothing\n", 5, "this answer has no fence"),
    ("{}# right: one\n# >>> amp.upgrade\n# <<< amp.upgrade\n", 6, "the fence amp.upgrade is in no file of the reference"),
    ("{}# right: one\n# >>> amp.update\n", 6, "the fence amp.update begins here and ends nowhere"),
    ("{}# wrnog: one · expect: x\n# >>> amp.dtype\n# <<< amp.dtype\n", 5, "`# wrnog: one · expect: x` is outside of all fences"),
])
def test_what_is_wrong_in_the_answers_is_named_with_its_line(folder, text, line, said):
    (folder / "answers.py").write_text(text.format("# right: by hand\n# >>> amp.update\n# right: here\n# <<< amp.update\n"))
    with pytest.raises(UsageError) as raised:
        catalogue.answers(catalogue.read(folder))
    assert str(raised.value).startswith(f"{folder}/answers.py, line {line}: {said}"), raised.value


def test_answers_are_read_with_their_fences_and_words(folder):
    (folder / "answers.py").write_text("# right: by hand\n# >>> gpu.model\n# right: here\n# <<< gpu.model\n\n"
                                       "# wrong: in two, by-passed · expect: a · b.*c\n# >>> amp.dtype\n    x\n\n"
                                       "# <<< amp.dtype\n# >>> amp.update\n# <<< amp.update\n")
    right, wrong = catalogue.answers(catalogue.read(folder))
    assert (right.kind, right.name, right.words, right.expect, right.line) == ("right", "by_hand", "by hand", "", 1)
    assert right.fences == {"gpu.model": "# right: here\n"}, "of another lab, too; a body may hold what looks like a head"
    assert (wrong.kind, wrong.name, wrong.expect, wrong.line) == ("wrong", "in_two_by_passed", "a · b.*c", 6)
    assert wrong.fences == {"amp.dtype": "    x\n\n", "amp.update": ""}


@pytest.mark.parametrize("needs, said", [('["channels_last"]', "needs 'channels_last', which comes later in the course"),
                                         ('["gpus"]', "needs 'gpus', which is not a lab: there are gpu, amp, channels_last")])
def test_needs_that_cannot_be_met(tmp_path, monkeypatch, needs, said):
    labs = tmp_path / "labs"
    for name in ("gpu", "amp", "channels_last"):
        shutil.copytree(catalogue.FOLDER / name, labs / name)
    monkeypatch.setattr(catalogue, "FOLDER", labs)
    (labs / "amp/lab.toml").write_text((labs / "amp/lab.toml").read_text().replace('["gpu"]', needs))
    with pytest.raises(UsageError) as raised:
        catalogue.labs()
    assert said in str(raised.value) and "amp/lab.toml, line 9" in str(raised.value)


@pytest.mark.parametrize("name, near", [
    ("apm", "amp"), ("channels-last", "channels_last"), ("GPU", "gpu"), ("channel_last", "channels_last")])
def test_an_unknown_lab_gets_the_nearest_name(name, near):
    with pytest.raises(UsageError, match=f"there is no lab '{name}': did you mean '{near}'"):
        catalogue.lab(name)


@pytest.mark.parametrize("name", ["zzzzzzzz", "", "../amp", "amp\n", None, 3])
def test_an_unknown_lab_like_no_other_gets_the_list(name):
    with pytest.raises(UsageError, match=r"Labs are gpu, amp, channels_last") as raised:
        catalogue.lab(name)
    assert "\n" not in str(raised.value)


def test_a_fence_has_one_lab_and_one_place():
    seen = set()
    for file in catalogue.files():
        for name in catalogue.reference_fences(file):
            assert name not in seen, f"{name} is in another file, too"
            seen.add(name)
            owners = [lab for lab in LABS.values() if lab.owns(name)]
            assert len(owners) <= 1 and all(file in lab.files for lab in owners), f"{name} of {file}"


# --- todo ----------------------------------------------------------------------------------------------------------------


def test_todo_says_so_once_for_each_lab_on_rank_0_only(capsys, monkeypatch):
    monkeypatch.setattr(todos, "_said", set())
    noted = []
    monkeypatch.setattr(todos.records, "note", lambda event, **fields: noted.append((event, fields)))
    monkeypatch.setenv("RANK", "1")
    todos.todo("amp")
    monkeypatch.delenv("RANK")
    for lab in ("amp", "amp", "gpu", "amp"):
        todos.todo(lab)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" (")[0] for line in lines] == ["todo: amp is not written yet", "todo: gpu is not written yet"]
    assert "test_catalogue.py, line " in lines[0] and lines[0].endswith("this run continues without it")
    assert [(event, fields["lab"]) for event, fields in noted] == [("todo", "amp"), ("todo", "gpu")]


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "_started", None)
    monkeypatch.setattr(records, "_noted", [])
    return records.Writer(tmp_path / records.NAME)


def test_what_was_noted_before_the_run_began_comes_right_after_its_start(record):
    records.note("todo", lab="gpu")
    record.write("start", total_steps=2)
    record.write("step", step=1)
    records.note("todo", lab="amp")
    record.flush()
    found = records.read(record.path)
    assert [event["event"] for event in found.events] == ["start", "todo", "step", "todo"]
    assert [event["lab"] for event in found.todos] == ["gpu", "amp"]


def test_only_the_last_attempt_s_todos_count(record):
    record.write("start")
    records.note("todo", lab="gpu")
    record.write("start", resumed_at=3)
    record.flush()
    assert records.read(record.path).todos == []


def test_a_run_that_meets_unwritten_fences_says_so_in_its_log_and_its_record(here):
    command = ("train.py --test --test-steps 2 --data random --model resnet18 --image-size 32 -b 2 --run-dir run --device cpu "
               "--amp bf16 --channels-last")
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    done = subprocess.run([sys.executable, *command.split()], cwd=here, env=env, text=True, capture_output=True, timeout=600,
                          check=False)
    assert done.returncode == 0, done.stderr
    for lab in ("amp", "channels_last"):
        assert done.stdout.count(f"todo: {lab} is not written yet (train.py, line ") == 1
    found = records.read(here / "run")
    assert {event["lab"] for event in found.todos} == {"amp", "channels_last"} and found.end["status"] == "completed"
    line = (here / "train.py").read_text().splitlines()[found.todos[0]["line"] - 1]
    assert line.strip() == f'todo("{found.todos[0]["lab"]}")'


def test_what_a_lab_asks_to_predict(folder):
    said = refused(folder, "lab.toml", "[prediction]\n", '[prediction]\nmeasure = "speed"\n')
    assert 'measure = \'speed\' is not possible: expected one of "ratio", "memory", "none"' in said
    assert "have a unit of their own" in refused(folder, "lab.toml", 'measure = "speed"', 'measure = "memory"\nunit = "MB"')
    assert LABS["gpu"].prediction.measure == "memory" and LABS["amp"].prediction.measure == "ratio"
