"""`dlojz course`, step by step: what it starts, and what it says where a step cannot be done."""

import os
import sys

import pytest

from dlojz import course


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
