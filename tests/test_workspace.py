"""Workspaces: made, completed, brought up to date, and what the trainee wrote never touched."""

import json
import os
import re
import shutil

import pytest

from dlojz import cli
from dlojz.labs import catalogue, fences, workspace
from dlojz.system import paths
from dlojz.system.errors import UsageError
from dlojz.system.workspace import find

MINE = "net = net.to(device)  # as I like it\n"


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """The kit's reference, labs and notebooks as a copy that a test may change: what another version would bring."""
    package, share = tmp_path / "kit" / "dlojz", tmp_path / "kit"
    shutil.copytree(paths.PACKAGE / "reference", package / "reference")
    shutil.copytree(catalogue.FOLDER, package / "labs")
    (share / "notebooks").mkdir()
    (share / "notebooks" / "day9_test.ipynb").write_text(notebook("first"))
    monkeypatch.setattr(paths, "PACKAGE", package)
    monkeypatch.setattr(catalogue, "FOLDER", package / "labs")
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    return share


def notebook(*sources, outputs=()):
    rest = {"metadata": {}, "execution_count": None, "outputs": list(outputs)}
    cells = [{"cell_type": "code", "source": source.splitlines(True), **rest} for source in sources]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def write_in_fence(path, name, body):
    path.write_text(fences.replace(path.read_text(), {name: body}))


def kit_fix(kit):
    """A later version repairs a line outside of all fences."""
    edit(kit / "dlojz/reference/train.py", "net.eval()\n", "net.eval()  # repaired\n")


def updated(folder):
    catalogue._read.cache_clear()  # another version would run in another process
    return " / ".join(workspace.create(folder, update=True))


def snapshot(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_that_is_gone(tmp_path, monkeypatch):
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "work").rmdir()
    with pytest.raises(UsageError, match="has been deleted"):
        find()


# --- made and completed --------------------------------------------------------------------------------------------------


def test_a_new_workspace_has_stubbed_files_notebooks_and_a_folder_for_runs(kit, tmp_path):
    folder = tmp_path / "work"
    said = workspace.create(folder)
    assert said == [f"{name}: new" for name in (*catalogue.files(), "day9_test.ipynb")] and "train.py: new" in said
    text = (folder / "train.py").read_text()
    assert text == catalogue.laid_out("train.py") and 'todo("amp")' in text and "scaler.scale(" not in text
    assert (folder / "runs").is_dir() and find(folder / "runs") == folder
    assert workspace.version(folder) == workspace.__version__


def test_again_it_changes_nothing_and_says_nothing(kit, tmp_path):
    workspace.create(tmp_path / "work")
    before = snapshot(tmp_path / "work")
    assert workspace.create(tmp_path / "work") == [] and workspace.create(tmp_path / "work", update=True) == []
    assert snapshot(tmp_path / "work") == before


def test_what_was_deleted_comes_back_and_nothing_else_changes(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    edit(folder / "train.py", "net.eval()", "net.eval()  # mine")
    (folder / "optimizers.py").unlink()
    (folder / workspace.MARKER).unlink()
    mine = (folder / "train.py").read_bytes()
    assert workspace.create(folder) == ["optimizers.py: was missing, so a new one was written"]
    assert (folder / "train.py").read_bytes() == mine and find(folder) == folder


def test_solved_labs_hold_the_solution(kit, tmp_path):
    workspace.create(tmp_path / "one", ["gpu"])
    workspace.create(tmp_path / "all", ["all"])
    assert (tmp_path / "one/train.py").read_text() == catalogue.laid_out("train.py", ["gpu"])
    assert (tmp_path / "all/train.py").read_text() == catalogue.reference("train.py").read_text()


def test_solved_fills_what_is_not_written_yet_in_a_workspace_that_is_there(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    write_in_fence(folder / "train.py", "gpu.model", MINE + "net.mine = 1\n")
    said = " / ".join(workspace.create(folder, ["gpu"]))
    assert "solved gpu.device, gpu.batch" in said and "gpu.model contains your own code, which stays" in said
    found = fences.find((folder / "train.py").read_text())
    assert found["gpu.model"].body == MINE + "net.mine = 1\n" and "torch.cuda.device_count()" in found["gpu.device"].body


def test_an_unknown_lab_is_refused_before_anything_is_made(kit, tmp_path):
    with pytest.raises(UsageError, match="did you mean 'amp'"):
        workspace.create(tmp_path / "work", ["apm"])
    assert not (tmp_path / "work").exists()


def test_a_file_of_somebody_elses_is_left_alone(kit, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text("print('mine')\n")
    assert "train.py already exists and stays unchanged" in workspace.create(folder)
    assert "the new version is next to it, train.new.py" in updated(folder)
    assert (folder / "train.py").read_text() == "print('mine')\n"


# --- updates -------------------------------------------------------------------------------------------------------------


def test_an_untouched_file_is_brought_up_to_date(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    kit_fix(kit)
    assert updated(folder) == "train.py: brought up to date"
    assert "# repaired" in (folder / "train.py").read_text() and updated(folder) == "" and not (folder / "backup").exists()


def test_a_solved_file_stays_solved(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder, ["amp"])
    kit_fix(kit)
    assert updated(folder) == "train.py: brought up to date"
    assert (folder / "train.py").read_text() == catalogue.laid_out("train.py", ["amp"])


def test_an_update_goes_round_the_fences_that_were_written(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    write_in_fence(folder / "train.py", "gpu.model", MINE)
    before = (folder / "train.py").read_bytes()
    kit_fix(kit)
    edit(kit / "dlojz/labs/amp/stub.py", "# >>> amp.dtype\n# TODO:", "# >>> amp.dtype\n# TODO (reworded):")
    said = updated(folder)
    assert said.startswith("train.py: brought up to date, with your code kept (gpu.model); the previous version is in backup/")
    text = (folder / "train.py").read_text()
    assert MINE in text and "# repaired" in text and "(reworded)" in text
    assert next((folder / "backup").glob("*/train.py")).read_bytes() == before
    assert updated(folder) == ""


def test_windows_line_ends_in_fences_survive_an_update(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    write_in_fence(folder / "train.py", "gpu.model", MINE)
    (folder / "train.py").write_bytes((folder / "train.py").read_bytes().replace(b"\n", b"\r\n"))
    kit_fix(kit)
    assert "with your code kept (gpu.model)" in updated(folder)
    text = (folder / "train.py").read_bytes()
    assert b"as I like it\r\n" in text and b"# repaired" in text and text.count(b"\n") == text.count(b"\r\n")


def test_a_file_changed_outside_of_fences_gets_the_new_one_beside_it_once(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    edit(folder / "train.py", "def validate(", "def validate_(")
    mine = (folder / "train.py").read_bytes()
    kit_fix(kit)
    assert updated(folder) == ("train.py: you have changed it outside its fences, so it stays unchanged; the new version is next "
                               "to it, train.new.py. Your file alone has your changes outside the fences. "
                               "To use the new version: mv train.new.py train.py")
    assert (folder / "train.py").read_bytes() == mine and "# repaired" in (folder / "train.new.py").read_text()
    assert updated(folder) == "", "said once"
    edit(kit / "dlojz/reference/train.py", "# repaired", "# repaired again")
    assert "train.new.py" in updated(folder) and "again" in (folder / "train.new.py").read_text()
    (folder / "train.new.py").write_text("my notes on it\n")
    edit(kit / "dlojz/reference/train.py", "# repaired again", "# repaired for good")
    assert "train.new-2.py" in updated(folder) and (folder / "train.new.py").read_text() == "my notes on it\n"
    assert (folder / "train.py").read_bytes() == mine


def test_taking_the_new_file_ends_the_matter(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    edit(folder / "train.py", "def validate(", "def validate_(")
    kit_fix(kit)
    updated(folder)
    os.replace(folder / "train.new.py", folder / "train.py")
    assert updated(folder) == ""
    edit(kit / "dlojz/reference/train.py", "# repaired", "# repaired again")
    assert updated(folder) == "train.py: brought up to date"


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("update_between", [True, False])
def test_the_new_file_holds_what_was_written_in_fences(kit, tmp_path, end, update_between):
    folder = tmp_path / "work"
    workspace.create(folder, ["amp"])
    write_in_fence(folder / "train.py", "gpu.model", MINE)
    edit(folder / "train.py", "def validate(", "def validate_(")
    (folder / "train.py").write_bytes((folder / "train.py").read_bytes().replace(b"\n", end.encode()))
    kit_fix(kit)
    said = updated(folder)
    assert "train.new.py, with your code from gpu.model. " in said and said.endswith("mv train.new.py train.py")
    new = (folder / "train.new.py").read_bytes().decode()
    wanted = fences.replace(catalogue.laid_out("train.py", ["amp"]), {"gpu.model": MINE})
    assert new == wanted.replace("\n", end) and "# repaired" in new
    os.replace(folder / "train.new.py", folder / "train.py")
    assert not update_between or updated(folder) == ""
    edit(kit / "dlojz/reference/train.py", "# repaired", "# repaired again")
    assert updated(folder).startswith("train.py: brought up to date, with your code kept (gpu.model)")
    text = (folder / "train.py").read_text()
    assert "# repaired again" in text and MINE in text and "validate_(" not in text


def test_a_damaged_fence_is_not_in_the_new_file_and_that_is_said(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    write_in_fence(folder / "train.py", "gpu.batch", "images = 1  # mine\n")
    edit(folder / "train.py", "# <<< gpu.model", "# ends here")
    kit_fix(kit)
    said = updated(folder)
    assert "with your code from gpu.batch, without gpu.model, whose comments are damaged or missing in yours" in said
    assert "images = 1  # mine" in (folder / "train.new.py").read_text()


def test_a_broken_fence_counts_as_changed(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    edit(folder / "train.py", "# <<< gpu.model", "# ends here")
    mine = (folder / "train.py").read_bytes()
    kit_fix(kit)
    assert "train.new.py" in updated(folder) and (folder / "train.py").read_bytes() == mine


def test_a_lab_that_is_new_gets_its_stub(kit, tmp_path):
    folder = tmp_path / "work"
    shutil.move(kit / "dlojz/labs/channels_last", tmp_path / "later")
    for lab in (kit / "dlojz/labs").glob("*/lab.toml"):  # none may need what is not there yet
        lab.write_text(lab.read_text().replace(', "channels_last"', ""))
    workspace.create(folder)
    assert "images.to(memory_format=torch.channels_last)" in (folder / "train.py").read_text()
    write_in_fence(folder / "train.py", "gpu.model", MINE)
    shutil.move(tmp_path / "later", kit / "dlojz/labs/channels_last")
    assert "with your code kept (gpu.model)" in updated(folder)
    text = (folder / "train.py").read_text()
    assert 'todo("channels_last")' in text and "images.to(memory_format=torch.channels_last)" not in text and MINE in text


def test_a_fence_that_is_no_more_but_was_written_keeps_the_file(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    write_in_fence(folder / "train.py", "ddp.sync_bn", "pass  # mine\n")
    for path in (kit / "dlojz/reference/train.py", kit / "dlojz/labs/ddp/stub.py"):
        path.write_text(re.sub(r"(?ms)^ *# >>> ddp.sync_bn.*?# <<< ddp.sync_bn\n", "", path.read_text()))
    assert "train.new.py" in updated(folder) and "pass  # mine" in (folder / "train.py").read_text()


def test_a_notebook_that_was_only_run_is_renewed_and_its_outputs_are_kept(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    ran = notebook("first", outputs=[{"output_type": "stream", "name": "stdout", "text": ["42"]}])
    (folder / "day9_test.ipynb").write_text(ran)
    assert updated(folder) == "" and (folder / "day9_test.ipynb").read_text() == ran
    (kit / "notebooks/day9_test.ipynb").write_text(notebook("second"))
    assert updated(folder).startswith("day9_test.ipynb: brought up to date; the previous version is in backup/")
    assert (folder / "day9_test.ipynb").read_text() == notebook("second")
    assert next((folder / "backup").glob("*/day9_test.ipynb")).read_text() == ran


@pytest.mark.parametrize("theirs", [notebook("first", "my notes"), "{torn", "[]", ""])
def test_a_notebook_with_words_of_the_trainee_stays(kit, tmp_path, theirs):
    folder = tmp_path / "work"
    workspace.create(folder)
    (folder / "day9_test.ipynb").write_text(theirs)
    (kit / "notebooks/day9_test.ipynb").write_text(notebook("second"))
    assert "day9_test.new.ipynb" in updated(folder) and (folder / "day9_test.ipynb").read_text() == theirs


def test_a_notebook_that_is_no_longer_shipped_stays(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    os.rename(kit / "notebooks/day9_test.ipynb", kit / "notebooks/day9_other.ipynb")
    said = updated(folder)
    assert "day9_other.ipynb: new" in said and "day9_test.ipynb: no longer a part of the course; yours stays" in said
    assert (folder / "day9_test.ipynb").exists()


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"files": []}', '{"files": {"train.py": 3}}', '{"files": {"train.py": {}}}'])
def test_without_its_manifest_an_update_is_careful(kit, tmp_path, torn):
    folder = tmp_path / "work"
    workspace.create(folder)
    write_in_fence(folder / "train.py", "gpu.model", MINE)
    (folder / workspace.MANIFEST).write_text(torn)
    mine = (folder / "train.py").read_text()
    lost = r".dlojz.json, the list of the files that the kit wrote, could .*: files that differ from the kit's stay unchanged"
    assert re.fullmatch(lost, updated(folder))
    assert (folder / "train.py").read_text() == mine and updated(folder) == "", "said once"
    kit_fix(kit)
    updated(folder)
    assert MINE in (folder / "train.py").read_text()


def test_without_its_manifest_nothing_is_said_to_be_changed_and_nothing_piles_up(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    kit_fix(kit)
    (kit / "notebooks/day9_test.ipynb").write_text(notebook("second"))
    for _ in range(3):
        (folder / workspace.MANIFEST).unlink()
        said = updated(folder)
        assert said.startswith(".dlojz.json, the list of the files that the kit wrote, is missing")
        assert ": you have changed" not in said
        assert "train.py: whether you have changed it is not known, so it stays unchanged; the new version is next to it, " \
               "train.new.py" in said
    assert sorted(path.name for path in folder.glob("*.new*")) == ["day9_test.new.ipynb", "train.new.py"]


def test_without_its_manifest_what_is_the_kit_s_is_known_again(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    (folder / workspace.MANIFEST).unlink()
    said = workspace.create(folder)
    assert len(said) == 1 and "is missing" in said[0]
    kit_fix(kit)
    assert updated(folder) == "train.py: brought up to date"


@pytest.mark.parametrize("inside", [".", "runs", "hunt"])
def test_without_a_folder_it_is_the_workspace_that_we_are_in(kit, tmp_path, monkeypatch, capsys, inside):
    folder = tmp_path / "work"
    workspace.create(folder)
    (folder / "hunt").mkdir(exist_ok=True)
    kit_fix(kit)
    catalogue._read.cache_clear()
    (folder / "augment.py").unlink()
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    monkeypatch.chdir(folder / inside)
    assert cli.main(["workspace"]) == 0
    assert capsys.readouterr().out == f"augment.py: was missing, so a new one was written\nThe workspace is {folder}\n"
    assert cli.main(["workspace", "--update"]) == 0
    assert capsys.readouterr().out == f"train.py: brought up to date\nThe workspace is {folder}\n"


@pytest.mark.parametrize("command", ["workspace", "workspace --update", "workspace --solved all", "course"])
def test_without_a_folder_outside_of_a_workspace(tmp_path, monkeypatch, capsys, command):
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.split()) == 2
    said = f"dlojz: {tmp_path} is not in a workspace: make one with `dlojz workspace DIR` or go to yours, then work inside it\n"
    assert capsys.readouterr().err == said and not list(tmp_path.iterdir())


# --- versions ------------------------------------------------------------------------------------------------------------


def versioned(folder, line):
    workspace.create(folder)
    (folder / workspace.MARKER).write_text(line)


@pytest.mark.parametrize("line, words", [
    ('version = "0.0.3"\n', "dlojz 0.0.3"), ("", "an early version"), ("version = 3\n", "an early version")])
def test_an_older_workspace_is_told_and_an_update_ends_it(kit, tmp_path, line, words):
    folder = tmp_path / "work"
    versioned(folder, line + 'site = "laptop"\n')
    said = workspace.create(folder)
    assert words in said[-1] and "--update" in said[-1]
    assert updated(folder) == "" and workspace.version(folder) == workspace.__version__ and workspace.older(folder) == ""
    assert 'site = "laptop"' in (folder / workspace.MARKER).read_text()


def test_a_newer_workspace_is_refused_and_left_alone(kit, tmp_path):
    folder = tmp_path / "work"
    versioned(folder, 'version = "99.1.0"\n')
    before = snapshot(folder)
    for update in (False, True):
        with pytest.raises(UsageError, match=r"of dlojz 99.1.0 and the kit here is .*pip install"):
            workspace.create(folder, update=update)
    assert snapshot(folder) == before


def test_a_broken_marker_says_how_to_mend_it(kit, tmp_path):
    workspace.create(tmp_path / "work")
    (tmp_path / "work" / workspace.MARKER).write_text("version = \n")
    with pytest.raises(UsageError, match=r"workspace.toml cannot be read.*dlojz workspace"):
        workspace.create(tmp_path / "work")


# --- found, or not -------------------------------------------------------------------------------------------------------


def test_it_is_found_from_inside_and_by_its_variable(kit, tmp_path, monkeypatch):
    folder = tmp_path / "work"
    workspace.create(folder)
    (folder / "deep/er").mkdir(parents=True)
    assert find(folder / "deep/er") == folder
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="make one with"):
        find()
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(folder))
    assert find() == folder
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(tmp_path))
    with pytest.raises(UsageError, match="which is not a workspace"):
        find()


def test_a_renamed_file_is_recognised(kit, tmp_path):
    folder = tmp_path / "work"
    workspace.create(folder)
    os.rename(folder / "train.py", folder / "my_train.py")
    assert "mv my_train.py train.py" in str(workspace.missing(folder, "train.py"))
    (folder / "old").mkdir()
    os.rename(folder / "my_train.py", folder / "old" / "my train.py")
    assert "(mv 'old/my train.py' train.py)" in str(workspace.missing(folder, "train.py"))
    os.remove(folder / "old" / "my train.py")
    assert str(workspace.missing(folder, "train.py")) == \
        f"train.py is not in {folder}: `dlojz workspace {folder}` puts a new one there and touches nothing else"


def test_a_folder_that_cannot_be_written_is_said_in_one_line(kit, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Choose a folder that you may write to") as raised:
        workspace.create(tmp_path / "file" / "work")
    assert "\n" not in str(raised.value)
