"""A workspace for each test, and a kit of one's own where the kit itself is to change."""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict

import pytest

from dlojz.labs import workspace
from dlojz.labs.probe import session as probe_session
from dlojz.system import paths


@pytest.fixture(autouse=True)
def a_busy_machine(monkeypatch):
    """Other workers take the cores for longer than a check waits for them: what an endless loop is told must not depend on it."""
    monkeypatch.setattr(probe_session, "BUSY", 30)


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
        for name in ("README.md", "pyproject.toml"):
            shutil.copy(paths.share(name), root / name)

    def edit(self, name, old, new):
        path = self.package / name
        text = path.read_text()
        assert text.count(old) == 1, (name, old)
        path.write_text(text.replace(old, new))

    def run(self, *words, folder=None, code=0, **variables):
        """``dlojz WORDS``; its output, after its exit code was looked at."""
        env = {**os.environ, "PYTHONPATH": str(self.root), "DLOJZ_PLAIN": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables}
        done = subprocess.run([sys.executable, "-m", "dlojz.cli", *map(str, words)], cwd=folder or self.root, env=env, text=True,
                              capture_output=True, timeout=600, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr


@pytest.fixture
def kit(tmp_path):
    return Kit(tmp_path / "kit")


def pytest_terminal_summary(terminalreporter):
    """Each lab's answers that were tried, right and wrong, and how long a check took: in one process, and alone, torch's import
    included."""
    seconds, answers = defaultdict(list), defaultdict(set)
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, value in report.user_properties:
            if name == "check":
                lab, kind, took = value
                seconds[lab, kind].append(took)
                if "test_reference" not in report.nodeid:  # that is no answer; a right one is tried twice
                    answers[lab, kind].add(re.sub(r"-(stubs|solved)\]$", "", report.nodeid))
    if not seconds:
        return
    terminalreporter.section("checks")
    terminalreporter.write_line(f"{'lab':16} {'wrong':>6} {'right':>6} {'mean s':>7} {'alone s':>8}")
    for lab in dict.fromkeys(lab for lab, _ in seconds):
        wrong, right, alone = (seconds[lab, kind] for kind in ("wrong", "right", "alone"))
        mean, own = (f"{sum(some) / len(some):.1f}" if some else "-" for some in (wrong + right, alone))
        terminalreporter.write_line(f"{lab:16} {len(answers[lab, 'wrong']):6} {len(answers[lab, 'right']):6} {mean:>7} {own:>8}")
