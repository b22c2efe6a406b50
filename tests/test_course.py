"""`dlojz course`, step by step: what it starts, and what it says where a step cannot be done."""

import importlib
import os
import sys
from types import SimpleNamespace

import pytest

from dlojz import cli, course
from dlojz.data import photos
from dlojz.labs import workspace
from dlojz.system import sites


@pytest.fixture
def started(monkeypatch):
    """The command line with which this process would become JupyterLab."""
    commands = []
    monkeypatch.setattr(course.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(os, "execv", lambda program, words: commands.append(words))
    return commands


@pytest.mark.parametrize("user, allowed", [(0, True), (1000, False)])
def test_jupyterlab_starts_for_root_too_and_says_so(started, monkeypatch, capsys, tmp_path, user, allowed):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    course._jupyter(tmp_path)
    assert started[0][:3] == [sys.executable, "-m", "jupyterlab"]
    assert ("--allow-root" in started[0]) == allowed == ("You are root" in capsys.readouterr().out)
    assert course._open_jupyter(tmp_path).endswith(f"cd {tmp_path} && jupyter lab" + " --allow-root" * allowed)


@pytest.fixture
def silent_slurm(tmp_path, monkeypatch):
    """Slurm's commands on a machine where no controller answers them, and no choice of a site."""
    silent = "echo 'sinfo: error: Unable to contact slurm controller' >&2; exit 1"
    for name, script in {"sbatch": "echo slurm 24.05.1", "sinfo": silent}.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for name in ("DLOJZ_SITE", "DLOJZ_WORKSPACE", "SLURM_CLUSTERS", "SBATCH_CLUSTERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def quick(monkeypatch):
    """`dlojz course` without what takes long; ``quick(submit)`` gives it a queue."""
    inspected = SimpleNamespace(text=lambda width: "inspected")
    monkeypatch.setattr(importlib.import_module("dlojz.doctor"), "doctor", lambda: inspected)  # dlojz.doctor is the verb, too
    monkeypatch.setattr(course.inductor, "warm", lambda: "warm")
    monkeypatch.setattr(course, "_draw_photos", lambda: None)
    monkeypatch.chdir(os.getcwd())  # so that it is set back: course goes into the workspace
    return lambda submit: monkeypatch.setattr(importlib.import_module("dlojz.jobs"), "submit", submit)


@pytest.fixture
def up_to_the_baseline(quick):
    """Returns the site with which `dlojz course` would submit the baseline."""
    class Reached(Exception):
        pass

    def submit(*words, **more):
        raise Reached

    def run(folder):
        quick(submit)
        with pytest.raises(Reached):
            course.start(folder)
        return sites.current().name

    return run


def test_a_new_workspace_gets_the_machine_s_own_queue_where_slurm_is_silent(silent_slurm, up_to_the_baseline, tmp_path, capsys):
    folder = tmp_path / "course"
    assert up_to_the_baseline(folder) == "laptop"
    marker = (folder / "workspace.toml").read_text()
    assert [line for line in marker.splitlines() if "site" in line] == ['site = "laptop"   # see `dlojz sites`']
    told = [line for line in capsys.readouterr().out.splitlines() if str(folder / "workspace.toml") in line]
    assert cli.main(["workspace", str(tmp_path / "other")]) == 0
    assert "Go there and begin: with day0_start.ipynb" in capsys.readouterr().out
    assert 'site = "laptop"' in (tmp_path / "other" / "workspace.toml").read_text()
    assert len(told) == 1 and "Unable to contact slurm controller" in told[0] and "own queue" in told[0]
    assert up_to_the_baseline(folder) == "laptop" and (folder / "workspace.toml").read_text() == marker


@pytest.mark.parametrize("chosen, mend", [
    ("workspace.toml", 'write site = "laptop" into {folder}/workspace.toml'), ("DLOJZ_SITE", "export DLOJZ_SITE=laptop")])
def test_a_site_that_was_chosen_stays_and_is_named(silent_slurm, quick, tmp_path, capsys, monkeypatch, chosen, mend):
    folder = tmp_path / "course"
    if chosen == "DLOJZ_SITE":
        monkeypatch.setenv("DLOJZ_SITE", "slurm")
    else:
        workspace.create(folder)
    assert cli.main(["course", str(folder)]) == 2
    said = capsys.readouterr()
    assert "inspected" in said.out, "the doctor says more of it"
    assert said.err.endswith(f"{mend.format(folder=folder)}, then run `make course` again\n")
    assert 'site = "slurm"' in (folder / "workspace.toml").read_text()


@pytest.mark.parametrize("site, drawn", [("laptop", True), ("slurm", False)])
def test_photos_are_drawn_in_sight_but_not_on_a_login_node(monkeypatch, tmp_path, capsys, site, drawn):
    called = []
    monkeypatch.setenv("DLOJZ_SITE", site)
    monkeypatch.setenv("DLOJZ_CACHE", str(tmp_path))
    monkeypatch.setattr(photos, "folder", lambda: called.append("drawn"))
    course._draw_photos()
    assert called == ["drawn"] * drawn
    assert ("200 MB" if drawn else "dlojz log --err -f baseline") in capsys.readouterr().out
    photos.place().mkdir()
    (photos.place() / photos.MANIFEST).touch()
    course._draw_photos()
    assert called == ["drawn"] * drawn and capsys.readouterr().out == ""


@pytest.mark.parametrize("found", [False, True])
def test_ctrl_c_during_the_baseline_says_how_to_go_on(found, quick, tmp_path, monkeypatch, capsys):
    def follow(job):
        yield "step 1\n"
        raise KeyboardInterrupt

    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    monkeypatch.setattr(course, "_follow", follow)
    quick(lambda *words, **more: SimpleNamespace(found=found, status=SimpleNamespace(active=True), run="baseline-001"))
    assert course.start(tmp_path / "my course") == 130
    said = capsys.readouterr().out
    after = said[said.index("step 1"):]
    assert "goes on as the job baseline-001" in after and "dlojz log -f baseline-001" in after
    assert after.count(f"cd '{tmp_path}/my course' && ") == 2 and "&& jupyter lab" in after
