"""A lab with fences in several files, one of them in a subfolder; and what the probe runs and calls in them."""

import json
import re

import pytest

from dlojz.labs import author, catalogue, events, fences, verbs, workspace
from dlojz.labs.checking import run_check
from dlojz.labs.outcome import CANNOT_CHECK, NOT_ATTEMPTED, SOLVED, WRONG
from dlojz.labs.probe import Limits, Probe, Session
from dlojz.system import paths
from dlojz.system.errors import UsageError

PLENTY = Limits(seconds=60)
FILES = {
    "reference/mix.py": """
import torch


# >>> pair.mix: the mean of two
def mix(a, b):
    return (a + b) / 2
# <<< pair.mix
""",
    "reference/hunt/count.py": """
import sys

from dlojz import todo
from torch import nn

steps = 0
model = nn.Linear(2, 1)
model(model.weight)
# >>> pair.count: as many steps as asked for
for _ in range(int(sys.argv[1])):
    steps += 1
# <<< pair.count
print(steps, "steps")
# >>> seek: the end
print("found")
# <<< seek
""",
    "labs/pair/lab.toml": """
id = "pair"
title = "Two files"
day = 1
order = 1
difficulty = 1
importance = 1
minutes = 5
files = ["mix.py", "hunt/count.py"]
""",
    "labs/seek/lab.toml": """
id = "seek"
title = "In the notebook of another"
day = 1
order = 2
difficulty = 1
importance = 1
minutes = 5
needs = ["pair"]
file = "hunt/count.py"
notebook = "pair"
""",
    "labs/pair/stub.py": """
# >>> pair.mix
# TODO: the mean
def mix(a, b):
    return a
# <<< pair.mix

# >>> pair.count
# TODO: count
todo("pair")
# <<< pair.count
""",
    "labs/seek/stub.py": """
# >>> seek
# TODO: the end
todo("seek")
# <<< seek
""",
    "labs/pair/calls.py": """
import torch


def mixed(module, note):
    result = module.mix(torch.ones(2), torch.zeros(2))
    note("mixed", values=result.tolist())
""",
    "labs/pair/check.py": """
from dlojz.labs.checking import expect


def check(probe):
    mixed = probe.call("mix.py", "mixed").need("mixed")
    expect(mixed.values == [0.5, 0.5], saw=f"{mixed.values}", expected="their mean", look="pair.mix")
    run = probe.run("3", script="hunt/count.py", small=False)
    said = run.need("print", text=lambda text: text.endswith("steps"))
    expect(said.text == "3 steps", saw=said.text, expected="3 steps", look="pair.count")
    probe.verified.append("both")
""",
    "labs/seek/check.py": """
def check(probe):
    probe.run("1", small=False).need("print", text="found")
    probe.verified.append("it is found")
""",
}


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """A kit with these two labs alone."""
    package = tmp_path / "kit" / "dlojz"
    for name, text in FILES.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (tmp_path / "kit" / "notebooks").mkdir()
    monkeypatch.setattr(paths, "PACKAGE", package)
    monkeypatch.setattr(catalogue, "FOLDER", package / "labs")
    return package


@pytest.fixture
def here(kit, tmp_path, monkeypatch):
    folder = tmp_path / "work"
    workspace.create(folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    monkeypatch.setenv("DLOJZ_PLAIN", "1")
    return folder


@pytest.fixture(scope="module")
def session():
    with Session(PLENTY) as session:
        session.ready()
        yield session


def write(here, name, body):
    path = here / catalogue.lab(name.split(".")[0]).file_of(name)
    path.write_text(fences.replace(path.read_text(), {name: body}))


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


# --- lab.toml ------------------------------------------------------------------------------------------------------------


def test_a_lab_owns_fences_in_all_its_files(kit):
    lab = catalogue.lab("pair")
    assert lab.files == ("mix.py", "hunt/count.py") and lab.file == "mix.py"
    assert list(lab.fences) == ["pair.mix", "pair.count"] and lab.file_of("pair.count") == "hunt/count.py"
    assert [lab.id for lab in catalogue.in_file("hunt/count.py")] == ["pair", "seek"]
    assert catalogue.files() == ["hunt/count.py", "mix.py"] and catalogue.lab("seek").notebook == "pair"


@pytest.mark.parametrize("old, new, said", [
    ('files = ["mix.py", "hunt/count.py"]', 'files = ["mix.py"]\nfile = "mix.py"', "line 9: a lab has either file or files"),
    ('"hunt/count.py"]', '"hunt/found.py"]', 'line 9: files: "hunt/found.py" is not in '),
    ('"hunt/count.py"]', '"../count.py"]', "line 9: files = ['mix.py', '../count.py'] is not possible: expected a list of files"),
    ('"hunt/count.py"]', '"mix.py"]', "line 9: files = ['mix.py', 'mix.py'] is not possible"),
    ("files = [", 'notebook = "seek"\nfiles = [', "line 9: notebook = 'seek', which has none of its own"),
    ("files = [", 'notebook = "hunts"\nfiles = [', "line 9: notebook = 'hunts', which is not a lab: there are pair, seek"),
])
def test_what_is_wrong_is_named_with_its_line(kit, old, new, said):
    edit(kit / "labs/pair/lab.toml", old, new)
    with pytest.raises(UsageError) as raised:
        catalogue.labs()
    assert f"pair/lab.toml, {said}" in str(raised.value) and "\n" not in str(raised.value)


def test_a_fence_has_one_place(kit):
    edit(kit / "reference/mix.py", "import torch", "import torch\n# >>> pair.count: again\n# <<< pair.count")
    with pytest.raises(UsageError, match=r"line 9: the fence pair.count is in mix.py and in hunt/count.py: rename one"):
        catalogue.labs()


# --- the workspace -------------------------------------------------------------------------------------------------------


def test_a_workspace_has_the_subfolder(here):
    assert (here / "hunt/count.py").read_text() == catalogue.laid_out("hunt/count.py")
    assert 'todo("pair")' in (here / "hunt/count.py").read_text() and "return a\n" in (here / "mix.py").read_text()
    assert workspace.create(here, ["pair"]) == ["hunt/count.py: solved pair.count", "mix.py: solved pair.mix"]
    assert 'todo("seek")' in (here / "hunt/count.py").read_text()


def test_an_update_goes_round_what_was_written(here, kit):
    write(here, "pair.count", "steps = 7\n")
    edit(kit / "reference/hunt/count.py", 'print(steps, "steps")', 'print(steps, "steps")  # repaired')
    said = workspace.create(here, update=True)
    kept = f"with your code kept (pair.count); the previous version is in {_backup(here)}"
    assert said == [f"hunt/count.py: brought up to date, {kept}"]
    text = (here / "hunt/count.py").read_text()
    assert "steps = 7" in text and "# repaired" in text
    assert "repaired" not in (here / _backup(here) / "hunt/count.py").read_text()


def _backup(here):
    return str(next((here / "backup").iterdir()).relative_to(here))


def test_a_changed_file_stays_and_the_new_one_is_beside_it(here, kit):
    edit(here / "hunt/count.py", "steps = 0", "steps = 1")
    edit(kit / "reference/hunt/count.py", 'print(steps, "steps")', 'print(steps, "steps")  # repaired')
    said = "hunt/count.py: you have changed it outside its fences, so it stays unchanged; " \
           "the new version is next to it, hunt/count.new.py"
    [line] = workspace.create(here, update=True)
    assert line.startswith(said) and line.endswith("To use the new version: mv hunt/count.new.py hunt/count.py")


def test_a_file_that_was_moved_is_found_again(here):
    (here / "hunt/count.py").rename(here / "count.py")
    for verb in (verbs.diff, verbs.reset):
        with pytest.raises(UsageError, match=r"hunt/count.py is not in .*, but count.py has its fences: put it back \(mv"):
            verb("pair")
    outcome = verbs.check("pair")
    assert outcome.state == CANNOT_CHECK and "mv count.py hunt/count.py" in outcome.message
    (here / "count.py").unlink()
    (here / "hunt").rmdir()
    assert workspace.create(here) == ["hunt/count.py: was missing, so a new one was written"]


# --- the verbs -----------------------------------------------------------------------------------------------------------


def test_solve_and_reset_touch_the_files_that_hold_the_fences(here):
    before = {name: (here / name).read_bytes() for name in ("mix.py", "hunt/count.py")}
    write(here, "pair.count", "steps = 7\n")
    said = repr(verbs.solve("pair", yes=True))
    assert "mix.py and hunt/count.py now have the kit's solution. Your previous files: " in said
    assert b"steps = 7" in (here / _backup(here) / "hunt/count.py").read_bytes()
    assert (here / _backup(here) / "mix.py").read_bytes() == before["mix.py"]
    assert "steps += 1" in (here / "hunt/count.py").read_text() and "/ 2" in (here / "mix.py").read_text()
    assert "solution of" not in repr(verbs.solve("pair.count", yes=True)), "it stands there already"
    verbs.reset("pair.count")
    assert (here / "hunt/count.py").read_bytes() == before["hunt/count.py"] and "/ 2" in (here / "mix.py").read_text()
    said = repr(verbs.diff("pair"))
    assert "the mean of two (mix.py, lines" in said and "as many steps as asked for (hunt/count.py, lines" in said
    said = repr(verbs.catch_up("seek"))
    assert "hunt/count.py now has the kit's solution" in said or "mix.py and hunt/count.py now have the kit's solution" in said


def test_a_damaged_file_is_laid_out_anew(here):
    write(here, "pair.mix", "def mix(a, b): return b\n")
    edit(here / "hunt/count.py", "# <<< pair.count", "# oops")
    with pytest.raises(UsageError, match=r"hunt/count.py, line \d+: the fence pair.count begins here and ends nowhere"):
        verbs.diff("pair")
    said = repr(verbs.reset("pair.count", file=True))
    lost = "The stub is back in pair.count, whose comments were damaged or missing."
    assert said.startswith(f"hunt/count.py: rewritten. {lost} Your previous file: backup/")
    assert "return b" in (here / "mix.py").read_text()
    assert repr(verbs.reset("pair", file=True)).count(": rewritten") == 2


# --- the check -----------------------------------------------------------------------------------------------------------


def test_it_is_attempted_when_one_fence_of_one_file_is(here, session):
    outcome = run_check("pair", here, PLENTY, session)
    assert outcome.state == NOT_ATTEMPTED and "The first is pair.mix, line 5 of mix.py" in outcome.message
    text = (here / "mix.py").read_text()
    (here / "mix.py").write_text("x = 1\n" + text)
    outcome = run_check("pair", here, PLENTY, session)
    assert outcome.state == NOT_ATTEMPTED and "mix.py differs from the kit's, first in line 1, `x = 1`" in str(
        outcome.message)
    (here / "mix.py").write_text(text)
    write(here, "pair.count", catalogue.lab("pair").fences["pair.count"].body)
    outcome = run_check("pair", here, PLENTY, session)
    assert outcome.state == WRONG and "the fence pair.mix, line 5 of mix.py" in outcome.message
    assert "Not edited yet: pair.mix." in outcome.message
    verbs.solve("pair.mix", yes=True)
    assert run_check("pair", here, PLENTY, session).state == SOLVED
    write(here, "seek", "print('found')\n")
    assert verbs.check("seek").state == SOLVED and events.read(here)[-1]["lab"] == "seek"


@pytest.mark.parametrize("name, body, said", [
    ("pair.count", "steps = 1\n", "Seen: 1 steps.*the fence pair.count, line 10 of hunt/count.py"),
    ("pair.count", "1 / 0\n", r"`hunt/count.py 3` stops with ZeroDivisionError.*line 11 of hunt/count.py.*the fence pair.count"),
    ("pair.count", "while True: pass\n", "still running after 5 seconds, in line 11 of hunt/count.py, `while True: pass`"),
    ("pair.count", "exit()\n", r"ran to completion, in line 11 of hunt/count.py.*the fence pair.count"),
    ("pair.mix", "def mix(a, b):\n    return a / 'x'\n",
     r"the check's use of `mix.py` stops with TypeError.*line 7 of mix.py, `return a"),
    ("pair.mix", "def mix(a, b):\n    while True: pass\n", "still running after 5 seconds, in line 7 of mix.py"),
    ("pair.mix", "mix = None\n",
     r"stops with TypeError: 'NoneType' object is not callable, where the check has `result = module.mix\("
     r".*Expected: it ends without an error.*the fence pair.mix, line 5 of mix.py"),
    ("pair.mix", "def mixed(a, b): pass\n", "stops with AttributeError: module 'mix' has no attribute 'mix'.*the fence pair.mix"),
    ("pair.count", "for _ in range(int(sys.argv[1])):\n    steps += 1\ntodo('pair')\n",
     r"`todo\(\"pair\"\)` is still called, so `hunt/count.py 3` says that .*line 13 of hunt/count.py, `todo\('pair'\)`"),
    ("pair.mix", "from dlojz import todo\ndef mix(a, b):\n    todo('pair')\n    return (a + b) / 2\n",
     "is still called, so the check's use of `mix.py` says that pair is not.*line 8 of mix.py"),
    ("pair.mix", "import os\nos.kill(os.getpid(), 9)\n", "the check's use of `mix.py` was killed by the signal SIGKILL"),
    ("pair.mix", "raise SystemExit\n", "the check's use of `mix.py` ends with exit code 0"),
])
def test_what_is_wrong_is_named_with_its_file_and_line(here, session, name, body, said):
    workspace.create(here, ["pair"])
    write(here, name, body)
    outcome = run_check("pair", here, Limits(seconds=5) if "5 seconds" in said else PLENTY, session)
    assert outcome.state == WRONG and re.search(said, outcome.message, re.DOTALL), outcome.message
    assert not session.descendants()


@pytest.mark.parametrize("name, body", [
    ("pair.count", "for _ in range(int(sys.argv[1])):\n    steps += 1\nif steps > 9:\n    todo('pair')\n"),
    ("pair.count", "for _ in range(int(sys.argv[1])):\n    steps += 1\ntodo('seek')\n"),
], ids=["of what it can't do", "of another lab"])
def test_what_is_said_to_be_unwritten_counts_where_it_is_said(here, session, name, body):
    workspace.create(here, ["pair"])
    write(here, name, body)
    assert run_check("pair", here, PLENTY, session).state == SOLVED


def test_a_file_that_is_no_python_is_named(here, session):
    write(here, "pair.mix", "def mix(a, b): return b\n")
    edit(here / "hunt/count.py", "steps = 0", "steps = (")
    outcome = run_check("pair", here, PLENTY, session)
    assert outcome.state == CANNOT_CHECK and "hunt/count.py is not valid Python, line 7" in outcome.message


def test_what_is_wrong_outside_of_the_fences_is_not_the_lab_s(here, session):
    workspace.create(here, ["pair"])
    edit(here / "hunt/count.py", "steps = 0", "1 / 0")
    outcome = run_check("pair", here, PLENTY, session)
    assert outcome.state == CANNOT_CHECK and "in line 7 of hunt/count.py, `1 / 0`" in outcome.message


def test_a_lost_fence_is_noted_with_its_file(here, session):
    workspace.create(here, ["pair"])
    edit(here / "hunt/count.py", "# <<< pair.count\n", "")
    outcome = run_check("pair", here, PLENTY, session)
    assert outcome.state == SOLVED and "Note: hunt/count.py, line 10: the fence pair.count begins here" in outcome.message


# --- calls in several processes ------------------------------------------------------------------------------------------


def test_a_call_in_two_processes(tmp_path, session):
    (tmp_path / "sums.py").write_text("import torch.distributed as dist\n\ndef total(value):\n    dist.all_reduce(value)\n")
    (tmp_path / "calls.py").write_text(
        "import os\nimport torch\nimport torch.distributed as dist\ndef sums(module, note):\n"
        "    dist.init_process_group('gloo')\n    value = torch.tensor(dist.get_rank() + 1)\n    module.total(value)\n"
        "    note('total', value=value.item(), gpus=os.environ.get('CUDA_VISIBLE_DEVICES'))\n")
    session.begin(PLENTY)
    facts = Probe(session, tmp_path, "sums.py", tmp_path / "calls.py").call("sums.py", "sums", ranks=2)
    assert [rank.need("total").value for rank in facts.ranks] == [3, 3] and facts.completed
    assert [rank.need("total").gpus for rank in facts.ranks] == ["", ""], "there may be one GPU for both of them"


def test_a_call_is_named_as_the_check_says(tmp_path, session):
    (tmp_path / "sums.py").write_text("total = None\n")
    calls = tmp_path / "lab" / "calls.py"
    calls.parent.mkdir()
    calls.write_text("def sums(module, note):\n    half(module)\n\ndef half(it):\n    return max(it.total)\n")
    session.begin(PLENTY)
    probe = Probe(session, tmp_path, "sums.py", calls)
    facts = probe.call("sums.py", "sums", "a sum of `sums.py`", ranks=2)
    assert [rank.said for rank in facts.ranks] == ["a sum of `sums.py`", "a sum of `sums.py` (rank 1)"]
    why = "TypeError: 'NoneType' object is not iterable, where the check has `return max(it.total)`"
    assert facts.ended.message == f"stops with {why}"


# --- for authors ---------------------------------------------------------------------------------------------------------


def test_the_skeleton_of_a_lab_with_several_files(kit, here):
    for name in ("mix.py", "hunt/count.py"):
        path = kit / "reference" / name
        path.write_text(path.read_text() + f"# >>> new.{path.stem}: one more\nx = 1\n# <<< new.{path.stem}\n")
    author.new("new")
    lab = catalogue.lab("new")
    assert lab.files == ("hunt/count.py", "mix.py") and set(lab.stubs) == {"new.count", "new.mix"}
    text = json.dumps(json.loads(next((kit.parent / "notebooks").glob("*_new.ipynb")).read_text()))
    assert "[hunt/count.py](hunt/count.py)" in text and "[mix.py](mix.py)" in text
