"""`make setup` on a machine that has a torch of its own."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from patience import LIMIT

ROOT = Path(__file__).resolve().parent.parent
SETUP = ROOT / "tools" / "setup.sh"


def fake_package(site: Path, name: str, version: str) -> None:
    """What pip and importlib take for an installed package."""
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(f"__version__ = {version!r}\n")
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "INSTALLER").write_text("site\n")
    (info / "RECORD").write_text("")


@pytest.fixture
def site_python(tmp_path):
    """A Python that has torch 2.9.0+site and torchvision 0.24.0, as a cluster's module has."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "site"], check=True)
    python = tmp_path / "site" / "bin" / "python"
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = subprocess.run([python, "-c", purelib], capture_output=True, text=True)
    for name, version in (("torch", "2.9.0+site"), ("torchvision", "0.24.0+site")):
        fake_package(Path(asked.stdout.strip()), name, version)
    return python


@pytest.mark.long
@pytest.mark.slow
def test_the_site_s_torch_is_used_and_not_replaced(site_python, tmp_path):
    venv = tmp_path / "venv"
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    said = subprocess.run(["sh", SETUP, venv, "data"], env={**env, "PYTHON": str(site_python)}, capture_output=True, text=True,
                          timeout=800)
    assert said.returncode == 0, said.stderr
    assert "using torch 2.9.0+site" in said.stdout
    look = ("import torch, dlojz, importlib.metadata as m; "
            "print(m.version('torch'), m.version('torchvision'), torch.__file__, m.version('simplejpeg') > '1')")
    found = subprocess.run([venv / "bin" / "python", "-c", look], env=env, capture_output=True, text=True, cwd=tmp_path)
    torch, vision, file, _ = found.stdout.split()
    assert (torch, vision) == ("2.9.0+site", "0.24.0+site")
    assert str(site_python.parent.parent) in file


def test_an_old_python_is_refused_in_one_line(tmp_path):
    old = tmp_path / "python3"
    # A Python that says it is 3.9, as far as the script looks.
    old.write_text(f'#!/bin/sh\nsed "s/^import sys$/import sys; sys.version_info = (3, 9)/" | exec {sys.executable} "$@"\n')
    old.chmod(0o755)
    said = subprocess.run(["sh", SETUP, tmp_path / "venv", "lab"], env={**os.environ, "PYTHON": str(old)}, capture_output=True,
                          text=True)
    assert said.returncode == 2
    assert len(said.stderr.strip().splitlines()) == 1 and "Python 3.11 or newer is needed" in said.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("torch, said", [("2.9.0", "what is missing beside torch"), ("", "torch with CUDA")])
@pytest.mark.parametrize("terminal", [False, True])
def test_it_says_what_is_installed_and_shows_progress_in_a_terminal(tmp_path, torch, said, terminal):
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    # An environment with or without torch, whose pip only says how it is called.
    (venv / "python").write_text(f'#!/bin/sh\ncase "$*" in *pip*) echo "called $*" ;; *) test -n "{torch}" ;; esac\n')
    (venv / "python").chmod(0o755)
    ours, theirs = pty.openpty() if terminal else os.pipe()
    env = {**os.environ, "PYTHON": sys.executable}
    assert subprocess.run(["sh", SETUP, tmp_path / "venv", "lab"], env=env, stdout=theirs, timeout=LIMIT).returncode == 0
    os.close(theirs)
    lines = os.read(ours, 65536).decode().splitlines()
    os.close(ours)
    installing, called, _ = lines[-3:]
    assert said in installing and "minute" in installing and "called -m pip install" in called
    assert ("--quiet" in called) != terminal
