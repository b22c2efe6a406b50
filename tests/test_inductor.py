"""torch.compile's cache, warmed ahead of time: by what is compiled here no test waits for a compiler."""

import sys

import pytest

from dlojz.doctor import doctor
from dlojz.system import inductor


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(inductor, "compiler", lambda system=None: "g++")
    monkeypatch.setattr(inductor, "headers", lambda: True)
    monkeypatch.setattr(inductor, "FIRST_USE", "pass")
    return tmp_path / "cache"


def test_where_torch_keeps_it(cache):
    from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir

    assert str(inductor.folder()) == cache_dir() == str(cache)
    assert str(inductor.folder({})) == default_cache_dir()


def test_a_first_use_is_paid_once(cache, capsys):
    assert not inductor.is_warm()
    said = inductor.warm()
    assert said.startswith("torch.compile's cache is warm (") and str(cache) in said and inductor.is_warm()
    assert "so that no notebook has to wait" in capsys.readouterr().err
    assert inductor.warm() == f"torch.compile's cache is warm: {cache}" and not capsys.readouterr().err


def test_it_goes_with_the_cache_and_with_torch(cache, monkeypatch, tmp_path):
    inductor.warm()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "other"))
    assert not inductor.is_warm()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    assert inductor.is_warm()
    monkeypatch.setattr(inductor.metadata, "version", lambda name: "99.0")
    assert not inductor.is_warm()


def test_a_first_use_that_fails_or_hangs(monkeypatch):
    monkeypatch.setattr(inductor, "FIRST_USE", "raise SystemExit(3)")
    assert "failed (exit code 3)" in inductor.warm() and not inductor.is_warm()
    monkeypatch.setattr(inductor, "FIRST_USE", "import time; time.sleep(600)")
    assert "did not end within 0 s" in inductor.warm(0.1) and not inductor.is_warm()


def test_without_a_compiler_nothing_is_tried(monkeypatch, capsys):
    monkeypatch.setattr(inductor, "compiler", lambda system=None: None)
    said = inductor.warm()
    assert "it lacks a C++ compiler (g++)" in said and "recorded numbers" in said and not capsys.readouterr().err


def test_the_doctor_warms_it_when_asked(monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["dlojz.doctor"], "look", lambda system: {})
    doctor()
    assert not inductor.is_warm()
    doctor(warm=True)
    assert inductor.is_warm() and "cache is warm" in capsys.readouterr().err
