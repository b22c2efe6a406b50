"""What the trainee's code may write to."""

import os
import subprocess
import sys

import pytest

from dlojz.labs.probe import walls

CODE = """
import os, shutil, subprocess, sys
from dlojz.labs.probe import walls
inside, outside = sys.argv[1:]
if not walls.keep_to([inside, "/dev"]):
    sys.exit(77)
holder = os.open(outside, os.O_RDONLY)
def tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
print(tried(lambda: shutil.rmtree(outside)), tried(lambda: os.rename("a", "b", src_dir_fd=holder, dst_dir_fd=holder)),
      tried(lambda: os.truncate(f"{outside}/a", 0)), tried(lambda: os.replace(f"{inside}/x", f"{outside}/a")),
      tried(lambda: os.symlink("a", f"{outside}/c")), subprocess.run(["rm", "-rf", outside], capture_output=True).returncode)
os.mkdir(f"{inside}/folder"); os.rename(f"{inside}/x", f"{inside}/folder/y"); open("/dev/null", "w").write("x")
print(open(f"{outside}/a").read(), os.listdir(f"{inside}/folder"))
"""


def test_only_there(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "x").write_text("")
    (outside / "a").write_text("kept")
    ran = subprocess.run([sys.executable, "-c", CODE, inside, outside], capture_output=True, text=True)
    if ran.returncode == 77:
        pytest.skip("this kernel has no Landlock")
    assert ran.stdout.split("\n")[:2] == [" ".join(["PermissionError"] * 5 + ["1"]), "kept ['y']"], ran.stderr


def test_triton_keeps_its_kernels_where_they_can_be_written(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(walls, "keep_to", lambda folders: asked.append(set(folders)))
    monkeypatch.setattr(walls, "make_devices", lambda: None)
    for name in walls.PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for home, made, own in ((None, False, True), (None, True, False), (tmp_path / "scratch", True, True)):
        if made:
            (tmp_path / ".triton").mkdir(exist_ok=True)
        monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
        if home:
            monkeypatch.setenv("TRITON_HOME", str(home))
        walls.stay_inside()
        place = os.environ.get("TRITON_CACHE_DIR", str(tmp_path / ".triton"))
        assert (place != str(tmp_path / ".triton")) == own
        assert any(os.path.commonpath([place, allowed]) == str(allowed) for allowed in asked[-1] if allowed != "/dev")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "chosen"))
    walls.stay_inside()
    assert tmp_path / "chosen" in asked[-1]


@pytest.mark.parametrize("there, asked", [
    ((), 0), (("nvidiactl",), 1), (("nvidiactl", "nvidia-uvm"), 0),  # no GPU; not used since the start; used
])
def test_the_driver_s_devices_are_made_before_the_wall(tmp_path, monkeypatch, there, asked):
    calls = []
    monkeypatch.setattr(walls.subprocess, "run", lambda command, **_: calls.append(command))
    for name in there:
        (tmp_path / name).touch()
    walls.make_devices(tmp_path)
    assert len(calls) == asked


def test_no_wall_where_the_system_has_none(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert walls.keep_to([os.curdir]) is False
