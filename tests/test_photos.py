"""The embedded photo set: drawn once, whole or not at all."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from patience import LIMIT
from PIL import Image

from dlojz.data import drawing, photos
from dlojz.system.errors import UsageError

ROOT = Path(photos.__file__).parents[1]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DLOJZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def start(cache, train=20, val=10, **more):
    """Another process that wants the photos."""
    code = f"from dlojz import photos; print(photos.folder({train}, {val}))"
    environment = dict(os.environ, DLOJZ_CACHE=str(cache), PYTHONPATH=str(ROOT))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes, **more)


def files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.glob("*/*/*.jpg")}


def drawers(cache) -> list[int]:
    """The processes that draw into this cache."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if b"dlojz.data.photos" in words and any(word.startswith(bytes(cache)) for word in words):
            found.append(int(entry.name))
    return found


def until(condition, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_the_set_is_complete_and_made_of_jpeg_files(cache):
    folder = photos.folder(30, 10)
    assert folder.parent == cache and [entry.name for entry in cache.iterdir()] == [folder.name]
    for split, count in (("train", 3), ("val", 1)):
        assert sorted(path.name for path in (folder / split).iterdir()) == sorted(drawing.CLASSES)
        assert all(len(list(path.glob("*.jpg"))) == count for path in (folder / split).iterdir())
    contents = files(folder)
    assert len({hashlib.sha256(content).digest() for content in contents.values()}) == 40  # no two alike, train and val either
    sizes = [len(content) for content in contents.values()]
    assert 80_000 < np.mean(sizes) < 120_000
    for path in folder.glob("*/*/*.jpg"):
        with Image.open(path) as image:
            assert image.size == (500, 375) and image.mode == "RGB" and image.format == "JPEG"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["version"] == photos.VERSION and manifest["train"] == 30 and manifest["classes"] == drawing.CLASSES


def test_the_files_do_not_depend_on_how_many_processes_draw(cache, monkeypatch):
    monkeypatch.setattr(photos, "cores_allowed", lambda: 1)
    one = files(photos.folder(40, 10))
    shutil.rmtree(cache)
    monkeypatch.setattr(photos, "cores_allowed", lambda: 2)
    assert files(photos.folder(40, 10)) == one


def test_a_picture_depends_on_its_class_and_its_seed_alone():
    for kind in range(len(drawing.CLASSES)):
        picture = np.asarray(drawing.draw(kind, 5), float)
        assert picture.std() > 10
        assert np.array_equal(picture, np.asarray(drawing.draw(kind, 5), float))
        assert abs(picture - np.asarray(drawing.draw(kind, 6), float)).mean() > 10
        assert abs(picture - np.asarray(drawing.draw((kind + 1) % len(drawing.CLASSES), 5), float)).mean() > 5


def test_a_set_that_is_there_is_not_drawn_again(cache, capfd):
    folder = photos.folder(20, 10)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    capfd.readouterr()
    assert photos.folder(20, 10) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert capfd.readouterr().err == ""


def test_a_log_says_how_far_the_drawing_is(tmp_path, monkeypatch, capfd):
    slow = tmp_path / "python"  # draws four pictures, and four more after a while
    slow.write_text("#!/bin/sh\nprintf ....\nsleep 2.5\nprintf ....\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(photos, "LOG_PAUSE", 0.5)
    list(photos._crew(tmp_path, 6, 2, 90, 0))
    lines = [line.removeprefix("dlojz.data.photos: ") for line in capfd.readouterr().err.splitlines()]
    assert lines[0].startswith("drawing 8 pictures") and lines[1].startswith("4 of 8 pictures, ")
    assert lines[-1].startswith("8 pictures in ")


@pytest.mark.parametrize("count", [4, 16])
def test_many_processes_at_once_draw_it_once(cache, count):
    crowd = [start(cache) for _ in range(count)]
    said = [process.communicate(timeout=LIMIT) for process in crowd]
    assert [process.returncode for process in crowd] == [0] * count
    assert len({out for out, _ in said}) == 1
    assert sum("drawing 30 pictures" in err for _, err in said) == 1
    assert len(files(Path(said[0][0].strip()))) == 30
    assert len(list(cache.iterdir())) == 1  # no lock, nothing half-made


def test_a_kill_half_way_leaves_nothing_that_passes_for_complete(cache, monkeypatch, capfd):
    first = start(cache, 200, 50)
    until(lambda: len(list(cache.glob(".*.part-*/*/*/*.jpg"))) > 5)
    first.kill()
    first.communicate()
    assert not photos.place(200, 50).exists()
    until(lambda: not drawers(cache))  # its helpers end by themselves
    monkeypatch.setattr(photos, "STALE", 1.0)
    folder = photos.folder(200, 50)
    assert len(files(folder)) == 250
    assert [entry.name for entry in cache.iterdir()] == [folder.name]
    assert "another process makes" in capfd.readouterr().err


def test_ctrl_c_leaves_nothing(cache):
    process = start(cache, 2000, 200, start_new_session=True)  # more than can be drawn before it hears of it
    until(lambda: len(list(cache.glob(".*.part-*/*/*/*.jpg"))) > 5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, err = process.communicate(timeout=LIMIT)
    assert list(cache.iterdir()) == [] and not drawers(cache)
    assert err.count("Traceback") == 1, "those that draw say nothing"


def test_one_waits_as_long_as_the_other_gives_signs_of_life(cache, monkeypatch):
    monkeypatch.setattr(photos, "STALE", 1.0)
    cache.mkdir()
    target = photos.place(20, 10)
    lock = cache / f".{target.name}.lock"
    lock.write_text("other 0")

    def other():
        for count in range(8):  # 2.4 seconds
            time.sleep(0.3)
            lock.write_text(f"other {count}")
        target.mkdir()
        (target / "manifest.json").write_text("{}")
        lock.unlink()

    thread = threading.Thread(target=other)
    thread.start()
    assert photos.folder(20, 10) == target
    thread.join()
    assert files(target) == {}  # the other one's, not ours


def test_when_two_draw_after_all_the_first_to_finish_wins(tmp_path):
    target = tmp_path / "set"

    def make(folder):
        (folder / "manifest.json").write_text("late")
        target.mkdir()
        (target / "manifest.json").write_text("first")
        yield

    assert photos.made_once(target, make) == target
    assert (target / "manifest.json").read_text() == "first" and len(list(tmp_path.iterdir())) == 1


def test_a_fresh_lock_is_not_broken(tmp_path):
    lock = tmp_path / ".set.lock"
    lock.write_text("fresh")
    photos._break(lock, "stale", "me")
    assert lock.read_text() == "fresh" and len(list(tmp_path.iterdir())) == 1
    photos._break(lock, "fresh", "me")
    photos._break(lock, "fresh", "me")  # another one was quicker
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DLOJZ_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match=r"cannot write the photo set to .*file/cache: Not a directory; set DLOJZ_CACHE"):
        photos.folder(20, 10)


def test_a_process_that_dies_while_drawing(cache):
    process = start(cache, 2000, 200)
    until(lambda: len(list(cache.glob(".*.part-*/*/*/*.jpg"))) > 5)
    os.kill(drawers(cache)[0], signal.SIGKILL)  # as the kernel does when memory is short
    _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 1 and "exit code -9" in err
    assert list(cache.iterdir()) == [] and not drawers(cache)


def test_a_full_disk_half_way(tmp_path):
    mount = f"mount -t tmpfs -o size=1500k none {tmp_path}"
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run([*isolated, mount], capture_output=True).returncode:
        pytest.skip("needs a user namespace to mount a small disk in")
    code = f"{mount} && {sys.executable} -c 'from dlojz import photos; photos.folder(40, 10)'; ls -A {tmp_path}/cache"
    environment = dict(os.environ, DLOJZ_CACHE=str(tmp_path / "cache"), PYTHONPATH=str(ROOT))
    run = subprocess.run([*isolated, code], env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert f"cannot write the photo set to {tmp_path}/cache: No space left on device; set DLOJZ_CACHE" in run.stderr
    assert run.stdout == ""
