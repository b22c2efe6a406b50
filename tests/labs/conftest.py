"""A workspace for each test, and a kit of one's own where the kit itself is to change."""

import os
import shutil
import subprocess
import sys

import pytest

from dlojz import paths, workspace


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A fresh workspace that we are in, where nobody could see a widget."""
    folder = tmp_path / "work"
    workspace.create(folder)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    monkeypatch.setenv("DLOJZ_PLAIN", "1")
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    monkeypatch.setenv("COLUMNS", "140")
    return folder


class Kit:
    """A copy of the kit that a test may change, and its shell verbs."""

    def __init__(self, root):
        self.root = root
        self.package = root / "dlojz"
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(paths.PACKAGE, self.package, ignore=ignore)
        for name in ("slurm", "notebooks"):
            shutil.copytree(paths.share(name), root / name, ignore=ignore)

    def edit(self, name, old, new):
        path = self.package / name
        text = path.read_text()
        assert text.count(old) == 1, (name, old)
        path.write_text(text.replace(old, new))

    def run(self, *words, folder=None, code=0, **variables):
        """``dlojz WORDS``; its output, after its exit code was looked at."""
        env = {**os.environ, "PYTHONPATH": str(self.root), "DLOJZ_PLAIN": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables}
        done = subprocess.run([sys.executable, "-m", "dlojz.cli", *map(str, words)], cwd=folder or self.root, env=env, text=True,
                              capture_output=True, timeout=120, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def kit(tmp_path):
    return Kit(tmp_path / "kit")
