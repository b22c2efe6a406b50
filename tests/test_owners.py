"""What lies above or beside a workspace and decides what runs: whose it may be, and that it does not change by itself."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from dlojz.jobs import submit
from dlojz.labs import workspace as laid_out
from dlojz.system import sites, workspace
from dlojz.system.errors import UsageError

NOBODY = 54321  # a user id that is neither root's nor that of whoever runs the tests


@pytest.fixture
def of_others(monkeypatch):
    """Files that look as if they were another user's: a test can give nothing away unless it is root's."""
    theirs, look, look_at_link = set(), os.stat, os.lstat

    def seen(true):
        def stat(path, *arguments, **options):
            found = true(path, *arguments, **options)
            if str(path) not in theirs:
                return found
            return os.stat_result([*found[:4], NOBODY, *found[5:]])
        return stat

    monkeypatch.setattr(os, "stat", seen(look))
    monkeypatch.setattr(os, "lstat", seen(look_at_link))
    return theirs


@pytest.fixture
def above(tmp_path, monkeypatch):
    """A folder of ours below one that holds a workspace.toml with a site of its own."""
    for name in [name for name in os.environ if name.startswith(("DLOJZ_", "SLURM_"))]:
        monkeypatch.delenv(name)
    (tmp_path / "sites").mkdir()
    (tmp_path / "workspace.toml").write_text('site = "evil"\n')
    (tmp_path / "sites" / "evil.toml").write_text(f'launcher = "local"\npython = "{tmp_path}/evil.sh"\n')
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path


@pytest.mark.parametrize("linked", [False, True])
def test_a_workspace_of_another_user_is_not_obeyed(above, of_others, linked):
    if linked:
        (above / "workspace.toml").rename(above / "real.toml")
        (above / "workspace.toml").symlink_to("real.toml")
    of_others.add(str(above / "workspace.toml"))
    for act in (workspace.find, lambda: submit("mine/a.py"), lambda: laid_out.create(above)):
        with pytest.raises(UsageError, match=r"workspace\.toml belongs to .*54321.*export DLOJZ_WORKSPACE="):
            act()
    assert sites.choose()[0] != "evil" and "evil" not in sites.available()
    assert not (above / "runs").exists() or not list((above / "runs").iterdir())


def test_a_workspace_that_is_named_is_trusted_but_a_site_in_it_is_named_by_itself(above, of_others, monkeypatch):
    of_others |= {str(above / "workspace.toml"), str(above / "sites" / "evil.toml")}
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(above))
    assert workspace.find() == above
    with pytest.raises(UsageError, match=r"evil\.toml belongs to .*copy it.*export DLOJZ_SITE="):
        sites.current()
    assert "broken" in sites.table()
    assert sites.load(str(above / "sites" / "evil.toml")).name == "evil"


def test_files_of_root_are_obeyed(above, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: NOBODY)  # in a test of root's all files are: another user looks
    if Path(above).stat().st_uid:
        pytest.skip("the files of this test are not root's")
    assert workspace.find() == above and sites.current().name == "evil"


def test_a_site_of_the_kits_that_is_replaced_is_said(above, capsys):
    (above / "workspace.toml").write_text('site = "laptop"\n')
    (above / "sites" / "laptop.toml").write_text('launcher = "local"\n')
    said = f"laptop is {above}/sites/laptop.toml, in place of the kit's site of that name"
    assert said in sites.table()
    submit("mine/a.py", dry_run=True)
    assert said in capsys.readouterr().err


def command(folder, name, body):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def test_a_workspace_keeps_the_site_that_it_was_made_with(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("DLOJZ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    laid_out.create(tmp_path / "ws")
    assert tomllib.loads((tmp_path / "ws" / "workspace.toml").read_text())["site"] == "laptop"
    command(tmp_path / "bin", "sbatch", "echo slurm 23.02.7")
    monkeypatch.chdir(tmp_path / "ws")
    sites._current.cache_clear()
    assert sites.choose()[0] == "laptop"
    laid_out.create(tmp_path / "there")
    assert tomllib.loads((tmp_path / "there" / "workspace.toml").read_text())["site"] == "slurm"


def test_submit_says_when_jobs_go_elsewhere_than_the_last_run(above, monkeypatch, capsys):
    (above / "workspace.toml").write_text('version = "0"\n')
    folder = above / "runs" / "amp-003"
    folder.mkdir(parents=True)
    request = {"name": "amp", "command": ["a.py"], "site": "laptop"}
    facts = {"id": "3", "launcher": "local", "submitted": 1.0, "request": request, "status": {"state": "COMPLETED"}}
    (folder / "job.json").write_text(json.dumps({**facts, "site": "laptop"}))
    command(above / "bin", "sbatch", "echo slurm 23.02.7")
    command(above / "bin", "sinfo", "echo 'normal*|up|1:00:00|8|gpu:4'")
    monkeypatch.setenv("PATH", f"{above / 'bin'}:/usr/bin:/bin")
    submit("mine/a.py", dry_run=True)
    said = capsys.readouterr().err
    assert "jobs go to the site slurm (detected: there is an sbatch command here); the last run, amp-003, went to laptop" in said
    assert 'site = "laptop" in workspace.toml' in said
    submit("mine/a.py", dry_run=True, site="slurm")
    assert "last run" not in capsys.readouterr().err


def test_a_controller_that_is_away_offers_the_machines_own_queue(above, monkeypatch):
    (above / "workspace.toml").write_text('version = "0"\n')
    command(above / "bin", "sbatch", "echo slurm 23.02.7")
    command(above / "bin", "sinfo", "echo 'Welcome' >&2; echo 'slurm_load_partitions error: no contact' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{above / 'bin'}:/usr/bin:/bin")
    with pytest.raises(UsageError, match=r'sinfo fails \(slurm_load_partitions error: no contact\).*site = "laptop"'):
        submit("mine/a.py")


# --- one bad file of the course ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("update", [False, True])
def test_a_file_that_became_a_folder_is_named_and_the_others_are_done(tmp_path, update):
    laid_out.create(tmp_path)
    (tmp_path / "train.py").unlink()
    (tmp_path / "train.py").mkdir()
    (tmp_path / "loading.py").unlink()
    for file in (tmp_path / "hunt").iterdir():
        file.unlink()
    (tmp_path / "hunt").rmdir()
    (tmp_path / "hunt").write_text("a file")
    with pytest.raises(laid_out.Incomplete) as error:
        laid_out.create(tmp_path, update=update)
    assert "train.py: Is a directory" in str(error.value) and "hunt: is a file" in str(error.value)
    assert any(line.startswith("loading.py: was missing") for line in error.value.said)
    assert (tmp_path / "loading.py").is_file()


def test_runs_may_be_a_link_to_a_folder_that_was_purged(tmp_path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "runs").symlink_to(tmp_path / "scratch" / "runs")
    laid_out.create(tmp_path / "ws")
    assert (tmp_path / "scratch" / "runs").is_dir()
