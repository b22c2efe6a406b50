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


def test_no_wall_where_the_system_has_none(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert walls.keep_to([os.curdir]) is False
