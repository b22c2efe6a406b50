"""hint, diff, solve, reset, catch_up and check, as a trainee meets them; nothing of theirs is ever lost."""

import os
import re

import pytest

from dlojz import cli
from dlojz.labs import catalogue, checking, events, fences, verbs, workspace
from dlojz.labs.outcome import CANNOT_CHECK, NOT_ATTEMPTED, SOLVED, WRONG, Outcome
from dlojz.system.errors import UsageError

MINE = "net = net.cuda()  # my own\n"
ENCODINGS = {"utf-8": "", "utf-8-sig": "", "latin-1": "# -*- coding: latin-1 -*-\n# élève\n"}


def bodies(here):
    return {name: fence.body for name, fence in fences.find((here / "train.py").read_text()).fences.items()}


def write(here, name, body):
    path = here / "train.py"
    path.write_text(fences.replace(path.read_text(), {name: body}))


def edit(here, old, new, count=1):
    path = here / "train.py"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, count))


def happened(here, *kinds):
    return [(event["event"], event["lab"]) for event in events.read(here) if not kinds or event["event"] in kinds]


@pytest.fixture
def judged(monkeypatch):
    """Checks that say what the test wants, without running anything: ``judged["gpu"] = WRONG``."""
    verdicts, asked = {}, []

    def run_check(lab, folder):
        asked.append(lab)
        return Outcome(lab, verdicts.get(lab, WRONG), "Seen: a made-up message")

    monkeypatch.setattr(checking, "run_check", run_check)
    verdicts["asked"] = asked
    return verdicts


# --- edit ----------------------------------------------------------------------------------------------------------------


def line_of(here, text):
    return next(number for number, line in enumerate((here / "train.py").read_text().split("\n"), 1) if text in line)


def test_edit_says_where_the_fences_are_now(here):
    edit(here, "import argparse\n", "import argparse  # one\n# two\n# lines more\n")
    write(here, "gpu.model", MINE)
    rows = [row.split("  ") for row in repr(verbs.edit("gpu")).split("\n")[1:]]
    names = catalogue.lab("gpu").fences
    assert [row[0].strip() for row in rows] == [f"train.py:{line_of(here, f'>>> {name}')}" for name in names]
    assert [row[-1].strip() for row in rows] == ["not edited yet", "written", "not edited yet"]
    assert "gpu.batch" not in repr(verbs.edit("gpu.model"))


def test_edit_links_to_the_last_line_inside_of_each_fence(here, monkeypatch):
    """JupyterLab's editor counts lines from 0 in a fragment, and shows that line as the lowest one."""
    (here / "mine").mkdir()
    monkeypatch.chdir(here / "mine")
    links = re.findall(r'href="(.+?)#line=(\d+)"', verbs.edit("amp")._repr_html_())
    lines = (here / "train.py").read_text().split("\n")
    assert [file for file, _ in links] == ["../train.py"] * 4
    assert [lines[int(line) + 1].strip() for _, line in links] == [f"# <<< {name}" for name in catalogue.lab("amp").fences]


def test_a_place_to_edit_stays_on_one_line(here):
    assert verbs.edit("amp")._repr_html_().count('<span style="white-space: nowrap"><a ') == 4


def test_edit_of_an_empty_fence_stays_inside(here):
    write(here, "gpu.model", "")
    line = int(re.search(r"#line=(\d+)", verbs.edit("gpu.model")._repr_html_())[1])
    assert line + 1 == line_of(here, "<<< gpu.model")


def test_places_in_a_message_are_links():
    said = Outcome("gpu", WRONG, "Seen: `a < b` in line 7 of hunt/a.py, and line 12 of train.py.\nline 3 of 4, line 2 of ../x.py")
    page = said._repr_html_()
    assert re.findall(r'<a href="(.+?)">(.+?)</a>', page) == [("hunt/a.py#line=6", "line 7 of hunt/a.py"),
                                                              ("train.py#line=11", "line 12 of train.py")]
    assert "a &lt; b" in page and "line 2 of ../x.py" in page


def test_edit_in_a_shell(here, capsys):
    assert cli.main(["edit", "amp"]) == 0
    assert "amp.forward   half precision where it is safe" in capsys.readouterr().out


# --- hint ----------------------------------------------------------------------------------------------------------------


def test_each_hint_is_the_next_one_until_there_are_no_more(here):
    said = [repr(verbs.hint("amp")) for _ in range(4)]
    assert [text.split("\n")[0] for text in said] == [f"Hint {n} of 3 for amp" for n in (1, 2, 3, 3)]
    assert 'hint("amp")' in said[0] and 'diff("amp")' in said[3]
    assert [event["step"] for event in events.read(here)] == [1, 2, 3], "the last one again is no new hint"
    assert repr(verbs.hint("amp", 1)).startswith("Hint 1") and repr(verbs.hint("gpu")).startswith("Hint 1")


@pytest.mark.parametrize("lab", catalogue.labs())
def test_code_in_a_hint_can_be_copied(here, lab):
    """Each block of code keeps the indentation of all its lines, the first one of the hint, too."""
    for step, text in enumerate(catalogue.lab(lab).hints, 1):
        said = repr(verbs.hint(lab)).split("\n\n", 1)[1].rsplit("\n\n", 1)[0]
        assert said == text, step
        for block in re.findall(r"(?m)^(?: {4}.*\n?|\n(?= {4}))+", said):
            first = next(line for line in block.split("\n") if line.strip())
            assert len(first) - len(first.lstrip()) == min(len(line) - len(line.lstrip())
                                                           for line in block.split("\n") if line.strip()), block
    raw = (catalogue.FOLDER / lab / "hints.md").read_text()
    assert all(text in raw for text in catalogue.lab(lab).hints) and not any(
        re.search(rf"(?m)^[ \t]+{re.escape(text)}", raw) for text in catalogue.lab(lab).hints)


def test_after_the_last_hint_there_is_none(here):
    for _ in range(3):
        verbs.hint("gpu")
    with pytest.raises(UsageError, match="there is no hint 7 of gpu: there are 3, and you have seen them all"):
        verbs.hint("gpu", 7)


@pytest.mark.parametrize("step", [2, 3, 0, -1, 99])
def test_a_hint_cannot_be_skipped_to(here, step):
    with pytest.raises(UsageError, match=f"there is no hint {step} of amp yet: the next one is 1"):
        verbs.hint("amp", step)
    assert events.read(here) == []


def test_a_hint_is_html_in_a_notebook(here):
    for _ in range(3):
        page = verbs.hint("amp")._repr_html_()
        assert "<code>" in page or "<pre" in page
        assert "**" not in re.sub(r"<pre.*?</pre>", "", page, flags=re.DOTALL) and "`" not in page


# --- diff ----------------------------------------------------------------------------------------------------------------


def test_diff_shows_the_fences_only_theirs_beside_the_kit_s(here):
    write(here, "gpu.model", MINE)
    said = repr(verbs.diff("gpu"))
    lines = said.split("\n")
    assert [line for line in lines if "train.py, lines" in line] and "optimizer" not in said.replace("the optimizer is made", "")
    row = next(line for line in lines if "my own" in line)
    assert row.startswith("net = net.cuda()  # my own") and row.endswith("| net = net.to(device)")
    assert "amp" not in said
    page = verbs.diff("gpu")._repr_html_()
    assert "net = net.cuda()  # my own" in page and "net = net.to(device)" in page
    assert happened(here) == [("looked", "gpu")] * 2


def test_diff_of_one_fence_and_of_a_solved_one(here):
    said = repr(verbs.diff("gpu.model"))
    assert said.count("train.py, lines") == 1 and "gpu.batch" not in said
    verbs.solve("gpu.model", yes=True)
    assert "The same program." in repr(verbs.diff("gpu.model"))


def test_diff_escapes_what_the_trainee_wrote(here):
    write(here, "gpu.model", 'net = "<script>alert(1)</script>"\n')
    assert "<script>" not in verbs.diff("gpu.model")._repr_html_()


# --- solve ---------------------------------------------------------------------------------------------------------------


def test_solve_asks_first_and_changes_nothing_meanwhile(here):
    before = (here / "train.py").read_bytes()
    asked = verbs.solve("amp")
    assert 'solve("amp", yes=True)' in repr(asked) and "yes=True" in asked._repr_html_()
    assert (here / "train.py").read_bytes() == before and happened(here) == []


def test_solve_puts_the_solution_into_the_fences_of_the_lab_alone(here):
    write(here, "gpu.model", MINE)
    before = bodies(here)
    said = repr(verbs.solve("amp", yes=True))
    assert "scaler.scale(loss / group).backward()" in said and "backup" not in said, "only stubs stood there"
    for name, body in bodies(here).items():
        assert body == (catalogue.lab("amp").fences[name].body if name.startswith("amp.") else before[name])
    assert happened(here) == [("looked", "amp")]
    assert "Nothing was changed" in repr(verbs.solve("amp", yes=True)) and happened(here) == [("looked", "amp")]


def test_solve_keeps_what_the_trainee_wrote(here):
    write(here, "gpu.model", MINE)
    before = (here / "train.py").read_bytes()
    said = repr(verbs.solve("gpu", yes=True))
    kept = here / re.search(r"backup/\S+/train\.py", said)[0]
    assert kept.read_bytes() == before and MINE not in (here / "train.py").read_text()


def test_solve_of_one_fence(here):
    verbs.solve("amp.forward", yes=True)
    changed = {name for name, body in bodies(here).items() if body != catalogue.lab("amp").stubs.get(name, body)}
    assert changed == {"amp.forward"}


@pytest.mark.parametrize("answer, solved", [("y", True), ("YES", True), ("", False), ("n", False)])
def test_solve_asks_in_a_terminal(here, monkeypatch, capsys, answer, solved):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda words: print(words) or answer)
    assert cli.main(["solve", "gpu"]) == 0
    said = capsys.readouterr().out
    assert "[y/N]" in said and ("train.py now has the kit's solution" in said) == solved
    assert (verbs.target("gpu").untouched(verbs.target("gpu").found(verbs.target("gpu").read()))) != solved


def test_solve_in_a_pipe_says_how_and_ends_with_2(here, capsys):
    assert cli.main(["solve", "gpu"]) == 2
    assert "dlojz solve --yes gpu" in capsys.readouterr().out


# --- reset ---------------------------------------------------------------------------------------------------------------


def test_reset_puts_the_stub_back_and_keeps_what_stood_there(here):
    before = (here / "train.py").read_bytes()
    write(here, "gpu.model", MINE)
    mine = (here / "train.py").read_bytes()
    said = repr(verbs.reset("gpu"))
    assert (here / re.search(r"backup/\S+/train\.py", said)[0]).read_bytes() == mine
    assert (here / "train.py").read_bytes() == before
    assert "Nothing was changed" in repr(verbs.reset("gpu"))


def test_reset_touches_no_other_lab(here):
    write(here, "gpu.model", MINE)
    verbs.solve("amp", yes=True)
    verbs.reset("amp")
    assert bodies(here)["gpu.model"] == MINE


def test_two_backups_in_one_second_are_two(here):
    for number in range(3):
        write(here, "gpu.model", f"net = {number}\n")
        verbs.reset("gpu.model")
    kept = [path.read_text() for path in sorted((here / "backup").glob("*/train.py"))]
    assert sorted(re.findall(r"net = (\d)", "".join(kept))) == ["0", "1", "2"]


# --- catch_up ------------------------------------------------------------------------------------------------------------


def test_catch_up_solves_what_comes_before_and_leaves_the_rest(here, judged):
    write(here, "channels_last.batch", "images = 1  # mine\n")
    edit(here, "def validate(", "def validate_mine(")
    said = repr(verbs.catch_up("channels_last"))
    assert all(f"{lab}: train.py now has the kit's solution" in said for lab in ("gpu", "amp")) and judged["asked"] == []
    found, labs = bodies(here), catalogue.labs()
    assert all(found[name] == fence.body for lab in ("gpu", "amp") for name, fence in labs[lab].fences.items())
    assert found["channels_last.batch"] == "images = 1  # mine\n" and "def validate_mine(" in (here / "train.py").read_text()
    assert not (here / "backup").exists() and happened(here) == [("looked", "gpu"), ("looked", "amp")]


def test_catch_up_keeps_what_works_and_replaces_what_does_not(here, judged):
    judged |= {"gpu": SOLVED, "amp": WRONG}
    write(here, "gpu.model", MINE)
    write(here, "amp.forward", "outputs = mine\n")
    said = repr(verbs.catch_up("channels_last"))
    assert "gpu: already solved, your way" in said
    assert "amp: train.py now has the kit's solution. Your previous file: backup/" in said
    assert bodies(here)["gpu.model"] == MINE and "autocast" in bodies(here)["amp.forward"]
    assert "outputs = mine" in next((here / "backup").glob("*/train.py")).read_text()
    judged["asked"].clear()
    assert repr(verbs.catch_up("channels_last")).count("already solved") == 2
    assert judged["asked"] == [], "what the check has accepted is not checked again"


def test_catch_up_leaves_alone_what_cannot_be_checked_or_read(here, judged):
    judged["gpu"] = CANNOT_CHECK
    write(here, "gpu.model", MINE)
    edit(here, "# <<< amp.update", "# gone")
    said = repr(verbs.catch_up("channels_last"))
    assert "gpu: left unchanged" in said and "amp: left unchanged" in said and "amp.update" in said
    assert bodies(here)["gpu.model"] == MINE
    assert said.startswith("Not ready for channels_last yet")


def test_catch_up_that_could_do_nothing_says_so_and_ends_with_2(here, capsys):
    assert cli.main(["catch-up", "amp"]) == 0 and capsys.readouterr().out.startswith("Ready for amp")
    os.remove(here / "train.py")
    assert cli.main(["catch-up", "amp"]) == 2
    said = capsys.readouterr().out
    assert said.startswith("Not ready for amp yet") and f"dlojz workspace {here}" in said


def test_nothing_comes_before_the_first_lab(here):
    assert repr(verbs.catch_up("gpu")) == "Nothing comes before gpu."


# --- check ---------------------------------------------------------------------------------------------------------------


def test_a_check_of_what_is_not_written_starts_no_process(here, monkeypatch, capsys):
    monkeypatch.setattr(checking, "_by_running", lambda *arguments: pytest.fail("it ran"))
    write(here, "gpu.model", "# my notes\n\n" + catalogue.lab("gpu").stubs["gpu.model"])
    assert cli.main(["check", "gpu"]) == 3
    assert "not attempted" in capsys.readouterr().out
    assert events.read(here)[-1]["outcome"] == "not_attempted"


@pytest.mark.parametrize("state, code", [(SOLVED, 0), (WRONG, 1), (NOT_ATTEMPTED, 3), (CANNOT_CHECK, 2)])
def test_exit_codes(here, judged, capsys, state, code):
    judged["gpu"] = state
    assert cli.main(["check", "gpu"]) == code
    assert capsys.readouterr().out.startswith("gpu: ") and events.read(here)[-1]["outcome"] == state.lower()


@pytest.mark.parametrize("left", ["", "\n \n"])
def test_an_emptied_file_is_called_empty_and_comes_back(here, capsys, left):
    verbs.solve("gpu", yes=True)
    (here / "train.py").write_text(left)
    for command in ("check gpu", "diff amp", "edit gpu", "solve -y gpu", "reset gpu", "submit -- train.py"):
        assert cli.main(command.split()) == 2, command
        said = "".join(capsys.readouterr())
        assert "train.py is empty. If your editor still shows what you wrote, save it again, or look for a copy in backup/; " \
               "`rm train.py && dlojz workspace` recreates it as new" in said, command
    assert (here / "train.py").read_text() == left and not list((here / "runs").iterdir())
    assert cli.main(["reset", "gpu", "--file"]) == 0
    assert (here / "train.py").read_text() == catalogue.laid_out("train.py")


@pytest.mark.parametrize("states, code", [
    ((SOLVED, SOLVED), 0), ((SOLVED, NOT_ATTEMPTED), 3), ((NOT_ATTEMPTED, WRONG), 1), ((WRONG, CANNOT_CHECK), 2)])
def test_several_labs_are_checked_one_after_the_other(here, judged, capsys, states, code):
    judged["gpu"], judged["amp"] = states
    assert cli.main(["check", "gpu", "amp"]) == code
    said = [line.split(":")[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert said == ["gpu", "amp"] == [event["lab"] for event in events.read(here)]


def test_no_lab_is_checked_where_one_is_not_there(here, judged, capsys):
    judged["gpu"] = SOLVED
    assert cli.main(["check", "gpu", "zzz"]) == 2
    assert "there is no lab 'zzz'" in capsys.readouterr().err and not events.read(here)


def test_a_check_really_runs_the_file(here):
    verbs.solve("gpu", yes=True)
    assert verbs.check("gpu").state == SOLVED
    write(here, "gpu.batch", "images.to(device)\nlabels.to(device)\n")
    outcome = verbs.check("gpu")
    assert outcome.state == WRONG and "gpu.batch" in outcome.message


def test_a_verdict_that_cannot_be_kept_is_shown_all_the_same(here, judged, capsys):
    (here / events.NAME).mkdir()
    judged["gpu"] = SOLVED
    assert cli.main(["check", "gpu"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("gpu: solved") and "Not kept in your progress: cannot write" in said


@pytest.fixture
def unkept(here):
    """A workspace in which progress.jsonl cannot be written, as in a folder for reading only."""
    (here / events.NAME).symlink_to(here / "no such folder" / events.NAME)
    return here


@pytest.mark.parametrize("command, first", [
    ("hint amp", "Hint 1 of 3 for amp"), ("diff gpu", "gpu.device: "), ("quiz amp range bf16 tf32", "Yours: "),
    ("reset gpu", "gpu: the stub is back in train.py.")])
def test_what_cannot_be_noted_is_shown_all_the_same(unkept, capsys, command, first):
    write(unkept, "gpu.device", 'device = "cuda"\n')
    assert cli.main(command.split()) == 0
    said = capsys.readouterr().out
    *_, last = said.strip().split("\n")
    assert said.startswith(first) and said.count("Not kept in your progress") == 1
    assert last == f"Not kept in your progress: cannot write {unkept / events.NAME}: No such file or directory. " \
                   "Free some space or fix its permissions."


def test_all_hints_can_be_read_where_none_can_be_noted(unkept):
    assert 'the next one: hint("amp", step=2)' in verbs.hint("amp").text
    for step in (2, 3):
        assert verbs.hint("amp", step).text.startswith(f"Hint {step} of 3 for amp")
    for step in (0, 4):
        with pytest.raises(UsageError, match=f"there is no hint {step} of amp"):
            verbs.hint("amp", step)


def test_catching_up_says_what_it_could_not_note(unkept):
    done = verbs.catch_up("amp")
    assert done.ready and "gpu: train.py now has the kit's solution. Not kept in your progress" in done.text


def test_an_unknown_lab_is_bad_usage_with_the_nearest_name(here, capsys):
    for verb in ("edit", "check", "hint", "diff", "solve", "reset", "catch-up"):
        assert cli.main([verb, "apm"]) == 2
        said = capsys.readouterr().err
        assert said == f"dlojz: there is no lab 'apm': did you mean 'amp'? Labs are {', '.join(catalogue.labs())}\n"
    assert happened(here) == []


@pytest.mark.parametrize("name", ["../x", ".", "", "./gpu", "/etc"])
def test_what_is_no_name_is_shown_as_it_was_given(here, name):
    with pytest.raises(UsageError, match=f"there is no lab {re.escape(repr(name))}"):
        verbs.check(name)


def test_an_unknown_fence_is_told_which_there_are(here):
    with pytest.raises(UsageError, match=r"no fence 'amp.fwd': did you mean 'amp.forward'\? Choose from amp.dtype, amp.forward"):
        verbs.diff("amp.fwd")


# --- files in a bad way --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["diff", "solve", "reset"])
def test_a_removed_fence_says_where_it_belongs_and_how_to_get_it_back(here, verb, capsys):
    edit(here, "    # >>> gpu.model: the model goes to the device\n", "")
    edit(here, "    # <<< gpu.model\n", "")
    mine = (here / "train.py").read_bytes()
    assert cli.main([verb, "gpu", *(["--yes"] if verb == "solve" else [])]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "the fence gpu.model is gone" in said and "`dlojz reset gpu --file`" in said
    number = int(re.search(r"after line (\d+)", said)[1])
    assert "get_model" in mine.decode().split("\n")[number - 1]
    assert (here / "train.py").read_bytes() == mine


def test_a_doubled_fence_names_its_lines(here, capsys):
    edit(here, "    # <<< gpu.model\n", "    # <<< gpu.model\n    # >>> gpu.model: again\n    # <<< gpu.model\n")
    assert cli.main(["solve", "--yes", "gpu"]) == 2
    assert "gpu.model` is there twice" in capsys.readouterr().err


def test_a_broken_fence_of_one_lab_does_not_stop_another(here):
    edit(here, "# <<< gpu.model", "# oops")
    verbs.solve("amp", yes=True)
    assert "# oops" in (here / "train.py").read_text() and "scaler.scale(" in (here / "train.py").read_text()


def test_reset_file_lays_it_out_anew_with_what_can_be_read(here):
    verbs.solve("amp", yes=True)
    write(here, "channels_last.batch", "images = 1  # mine\n")
    edit(here, "# <<< gpu.model", "# oops")
    edit(here, "def validate(", "def broken(:")
    write(here, "gpu.batch", "images = 2  # of the same lab\n")
    mine = (here / "train.py").read_bytes()
    said = repr(verbs.reset("gpu", file=True))
    assert "The stub is back in gpu.model, whose comments were damaged or missing." in said
    assert bodies(here)["gpu.batch"] == "images = 2  # of the same lab\n"
    assert (here / re.search(r"backup/\S+/train\.py", said)[0]).read_bytes() == mine
    text = (here / "train.py").read_text()
    compile(text, "train.py", "exec")
    assert "images = 1  # mine" in text and "scaler.scale(" in text
    assert bodies(here)["gpu.model"] == catalogue.lab("gpu").stubs["gpu.model"]
    assert "def broken" not in text


def test_a_deleted_file_is_said_and_comes_back(here, capsys):
    os.remove(here / "train.py")
    assert cli.main(["check", "gpu"]) == 2
    said = capsys.readouterr().out
    assert f"dlojz workspace {here}" in said and events.read(here)[-1]["outcome"] == "cannot_check"
    for verb in ("diff", "solve", "reset"):
        assert cli.main([verb, "gpu"]) == 2
        assert f"dlojz workspace {here}" in capsys.readouterr().err
    verbs.reset("gpu", file=True)
    assert (here / "train.py").read_text() == catalogue.laid_out("train.py")


def test_a_renamed_file_is_recognised(here, capsys):
    os.rename(here / "train.py", here / "train_fast.py")
    assert cli.main(["check", "gpu"]) == 2
    assert "mv train_fast.py train.py" in capsys.readouterr().out


@pytest.mark.parametrize("damage, said", [
    (lambda text: text.replace("def validate(", "def validate((", 1), "is not valid Python, line"),
    (lambda text: text.replace("    torch.manual_seed", "\ttorch.manual_seed", 1), "is not valid Python, line"),
    (lambda text: text + "\0", "is not valid Python"),
], ids=["a syntax error", "a tab among spaces", "a null byte"])
def test_a_file_that_is_no_python_is_not_checked_and_not_changed(here, capsys, damage, said):
    write(here, "gpu.model", MINE)
    (here / "train.py").write_text(damage((here / "train.py").read_text()))
    mine = (here / "train.py").read_bytes()
    assert cli.main(["check", "gpu"]) == 2
    assert said in capsys.readouterr().out and (here / "train.py").read_bytes() == mine
    verbs.solve("gpu", yes=True)
    assert next((here / "backup").glob("*/train.py")).read_bytes() == mine


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_other_encodings_and_line_ends_survive_solve_and_reset(here, encoding, end):
    text = ENCODINGS[encoding] + (here / "train.py").read_text()
    raw = text.replace("\n", end).encode(encoding)
    (here / "train.py").write_bytes(raw)
    verbs.solve("gpu", yes=True)
    solved = ENCODINGS[encoding] + catalogue.laid_out("train.py", ["gpu"])
    assert (here / "train.py").read_bytes() == solved.replace("\n", end).encode(encoding)
    verbs.reset("gpu")
    assert (here / "train.py").read_bytes() == raw


def test_tabs_for_spaces_are_kept(here):
    tabs = re.sub(r"(?m)^(?:    )+", lambda match: "\t" * (len(match[0]) // 4), (here / "train.py").read_text())
    (here / "train.py").write_text(tabs)
    verbs.solve("amp", yes=True)
    text = (here / "train.py").read_text()
    compile(text, "train.py", "exec")
    assert "\t\t\t\t\twith torch.autocast(" in text and "\n    " not in text.split("# >>> amp.forward")[1].split("# <<<")[0]


def test_a_folder_that_cannot_be_written_loses_nothing(here, monkeypatch):
    write(here, "gpu.model", MINE)
    mine = (here / "train.py").read_bytes()
    (here / "backup").write_text("a file where the folder should be")
    with pytest.raises(UsageError, match=r"cannot keep a copy of train.py.*Nothing was changed"):
        verbs.solve("gpu", yes=True)
    assert (here / "train.py").read_bytes() == mine


def test_outside_of_a_workspace(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for verb in ("edit gpu", "check gpu", "hint gpu", "diff gpu", "solve gpu", "reset gpu", "catch-up amp", "progress"):
        assert cli.main(verb.split()) == 2
        assert "is not in a workspace: make one with `dlojz workspace DIR`" in capsys.readouterr().err


def test_a_workspace_of_another_version(here, capsys, judged):
    marker = here / workspace.MARKER
    marker.write_text('version = "99.0"\n')
    for verb in (["check", "gpu"], ["hint", "gpu"], ["solve", "gpu"], ["progress"]):
        assert cli.main(verb) == 2
        assert "update the kit" in capsys.readouterr().err
    marker.write_text('version = "0.0.1"\n')
    assert cli.main(["progress"]) == 0
    assert "--update" in capsys.readouterr().out
    judged["gpu"] = SOLVED
    assert cli.main(["check", "gpu"]) == 0 and "--update" in capsys.readouterr().out
    judged["asked"].clear()
    edit(here, "    # >>> gpu.model: the model goes to the device\n", "")
    edit(here, "    # <<< gpu.model\n", "")
    assert cli.main(["diff", "gpu"]) == 2
    assert "--update" in capsys.readouterr().err
    assert cli.main(["check", "gpu"]) == 2 and judged["asked"] == []
    assert "The fence gpu.model is not there: this workspace is of dlojz 0.0.1" in capsys.readouterr().out
