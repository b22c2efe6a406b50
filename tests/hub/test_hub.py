"""`dlojz hub`: what it writes for all users of a JupyterHub, and for one account. No hub runs here."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlojz import cli, hub
from dlojz.data import photos
from dlojz.labs import workspace

CONFIG = 'c = get_config()\nc.JupyterHub.spawner_class = "systemd"\nc.Spawner.environment = {"HTTPS_PROXY": "http://proxy:3128"}\n'



class Config:
    """As traitlets' Config: sections and values come into being when they are named."""

    def __init__(self):
        self.__dict__["environment"] = {}

    def __getattr__(self, name):
        self.__dict__[name] = Config()
        return self.__dict__[name]


def read(config):
    found = Config()
    exec(compile(config.read_text(), str(config), "exec"), {"get_config": lambda: found})
    return found


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An environment of the kit that a test may write to, a home, and a hub's configuration."""
    for name in ("prefix", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("JUPYTER_DATA_DIR", "DLOJZ_SITE", "DLOJZ_WORKSPACE", "DLOJZ_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(photos, "share", lambda: None)
    (tmp_path / "config.py").write_text(CONFIG)
    return tmp_path


def test_for_all_users_of_a_hub(here, capsys):
    config = here / "config.py"
    assert cli.main(["hub", str(config), "--site", "laptop", "--cores", "2"]) == 0
    said, folder = capsys.readouterr().out, here / "prefix/hub"
    found = read(config).Spawner
    assert (found.cpu_limit, found.mem_limit) == (2, "5G")
    ours = {"JUPYTER_PATH": str(folder), "JUPYTER_CONFIG_PATH": str(folder)}
    assert found.environment == {"HTTPS_PROXY": "http://proxy:3128"} | ours
    kernel = json.loads((folder / "kernels/dlojz/kernel.json").read_text())
    assert kernel["argv"][:3] == [sys.executable, "-m", "ipykernel_launcher"]
    assert "systemd" in said and "holds servers to these limits" in said and "lab/tree/dlojz-course/day0_start.ipynb" in said

    once = config.read_text()
    assert cli.main(["hub", str(config), "--site", "laptop", "--cores", "2"]) == 0 and config.read_text() == once
    assert cli.main(["hub", str(config), "--remove"]) == 0 and config.read_text() == CONFIG
    assert cli.main(["hub", str(config), "--remove"]) == 2 and "has no block" in capsys.readouterr().err


@pytest.mark.parametrize("spawner, says", [
    ('"docker"', "docker holds"), ("dockerspawner.SystemUserSpawner", "dockerspawner.SystemUserSpawner holds"),
    ("MyOwn", "may or may not"), ("", "LocalProcessSpawner does not hold"),
])
def test_who_holds_servers_to_their_limits_is_said(here, spawner, says, capsys):
    (here / "config.py").write_text(f"c.JupyterHub.spawner_class = {spawner}\n" if spawner else "")
    assert cli.main(["hub", str(here / "config.py")]) == 0
    assert says in capsys.readouterr().out.replace('"', "")


def test_a_server_makes_the_workspace_once_as_its_user(here, monkeypatch):
    list(hub.for_all(str(here / "config.py"), site="laptop"))
    text = (here / "prefix/hub/jupyter_server_config.py").read_text()
    start = [sys.executable, "-c", text + "\nprint(os.environ['PATH'])"]
    environment = {**os.environ, "PYTHONPATH": str(Path(hub.__file__).parent.parent)}
    done = subprocess.run(start, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith(str(Path(sys.executable).parent))
    home = here / "home/dlojz-course"
    assert 'site = "laptop"' in (home / "workspace.toml").read_text() and (home / "train.py").is_file()
    kernels = {json.loads((home / name).read_text())["metadata"]["kernelspec"]["name"] for name in workspace.notebooks()}
    assert kernels == {"dlojz"}
    (home / "train.py").write_text("mine")
    subprocess.run(start, env=environment, check=True, capture_output=True)
    assert (home / "train.py").read_text() == "mine"


def test_a_server_starts_without_a_workspace_too(here):
    """A full quota, an environment that is gone: the user gets a server, and its log says why there is no workspace."""
    list(hub.for_all(str(here / "config.py"), site="laptop"))
    text = (here / "prefix/hub/jupyter_server_config.py").read_text().replace(sys.executable, "/no/such/python")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "no workspace in" in done.stdout and ast.parse(text)


def test_a_workspace_for_a_group_only(here):
    with pytest.raises(hub.UsageError, match="no Unix group 'nobody-has-this'"):
        list(hub.for_all(str(here / "config.py"), group="nobody-has-this"))
    list(hub.for_all(str(here / "config.py"), group="daemon", site="laptop"))
    text = (here / "prefix/hub/jupyter_server_config.py").read_text().replace("os.getgroups()", "[-1]")
    subprocess.run([sys.executable, "-c", text], check=True)
    assert not (here / "home/dlojz-course").exists()


def test_for_one_account(here, capsys):
    assert cli.main(["hub", "--site", "laptop"]) == 0
    assert (here / "home/.local/share/jupyter/kernels/dlojz/kernel.json").is_file()
    home = here / "home/dlojz-course"
    assert 'kernel = "dlojz"' in (home / "workspace.toml").read_text()
    notebook = home / "day0_start.ipynb"
    assert json.loads(notebook.read_text())["metadata"]["kernelspec"]["name"] == "dlojz"
    before = notebook.read_text()
    assert workspace.create(home, update=True) == [] and notebook.read_text() == before


@pytest.mark.parametrize("words, says", [
    (["/no/such/config.py"], "is not there"), (["--remove"], "from which configuration"),
    (["config.py", "--site", "nowhere"], "nowhere"),
])
def test_what_cannot_be_done_is_said(here, words, says, monkeypatch, capsys):
    monkeypatch.chdir(here)
    assert cli.main(["hub", *words]) == 2
    assert says in capsys.readouterr().err and (here / "config.py").read_text() == CONFIG


def test_photos_of_the_environment_serve_all_its_users(here):
    assert photos.place().is_relative_to(here / "home")
    photos.for_all().mkdir(parents=True)
    (photos.for_all() / photos.MANIFEST).write_text("{}")
    assert photos.place() == photos.for_all() and photos.folder() == photos.for_all()
