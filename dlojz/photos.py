"""The embedded photo set: JPEG files that the kit draws itself, once, into its cache.

Neither torch nor the network is needed. A picture depends on its number alone, whichever process draws it.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import paths, scenes
from .errors import UsageError

VERSION = 1  # of the pictures: another one is another folder in the cache
TRAIN, VAL = 2000, 500
QUALITY = 88
MANIFEST = "manifest.json"
STALE = 15.0  # seconds without a sign of life from the process that draws, before another takes over


def folder(train: int = TRAIN, val: int = VAL) -> Path:
    """The folder of the photo set, which is drawn first where it isn't there yet: by one process, while the others wait."""
    name = f"photos-v{VERSION}" + ("" if (train, val) == (TRAIN, VAL) else f"-{train}-{val}")
    cache = paths.cache()
    try:
        return _made_once(cache / name, lambda target: _draw(target, train, val, train, QUALITY, seed=0))
    except OSError as error:
        raise UsageError(
            f"cannot write the photo set to {cache}: {error.strerror or error}. Set DLOJZ_CACHE to a folder with 300 MB of room"
        ) from None


def make(target: Path, train: int, val: int, distinct: int, mean_kb: float, seed: int = 1) -> None:
    """A folder of the same kind with ``train`` and ``val`` images of ``mean_kb`` kB on average. No more than ``distinct``
    training files are drawn, the others are links to them."""
    if target.exists():
        raise UsageError(f"{target} is there already: name a new folder")
    if min(train, val, distinct) < len(scenes.CLASSES):
        raise UsageError(f"each split needs at least {len(scenes.CLASSES)} images, one of each class")
    quality = _quality_for(mean_kb * 1000, seed)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _made_once(target, lambda part: _draw(part, train, val, min(distinct, train), quality, seed))
    except OSError as error:
        raise UsageError(f"cannot write to {target}: {error.strerror or error}") from None


def _quality_for(size: float, seed: int, sample: int = 20) -> int:
    """The JPEG quality at which the files come out at ``size`` bytes on average."""
    pictures = [scenes.draw(*_number("train", i, seed)) for i in range(sample)]
    low, high = 10, 98
    while low < high:
        middle = (low + high) // 2
        mean = sum(len(_jpeg(picture, middle)) for picture in pictures) / sample
        low, high = (middle + 1, high) if mean < size else (low, middle)
    return low


def _number(split: str, index: int, seed: int) -> tuple[int, int]:
    """(class, seed of the picture)."""
    return index % len(scenes.CLASSES), (seed * 2 + (split == "val")) * 10_000_000 + index


def _jpeg(picture, quality: int) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


def _made_once(target: Path, make) -> Path:
    """``target``, complete: made by ``make(folder)`` beside it and renamed, by one process of all that ask at the same time.

    The one that makes holds a lock file and writes a new number into it each second; where the number stands still, that
    process is gone and the next takes over. flock would be simpler, and hangs or fails on many a cluster's file system.
    Should two ever make at once, the first to finish wins and nothing breaks.
    """
    lock = target.with_name(f".{target.name}.lock")
    token = f"{os.getpid()}-{secrets.token_hex(4)}"
    seen, since, told = None, time.monotonic(), False
    while not (target / MANIFEST).is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            now = _content(lock)
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > STALE:
                _break(lock, seen)
                seen = None
            if not told:
                print(f"dlojz.photos: another process makes {target}, waiting for it", file=sys.stderr, flush=True)
                told = True
            time.sleep(0.2)
            continue
        part = target.with_name(f".{target.name}.part-{token}")
        try:
            os.pwrite(fd, token.encode(), 0)
            for left in target.parent.glob(f".{target.name}.part-*"):
                shutil.rmtree(left, ignore_errors=True)
            if not (target / MANIFEST).is_file():
                part.mkdir()
                for beat in make(part):
                    os.pwrite(fd, f"{token} {beat}".encode(), 0)
                try:
                    part.rename(target)
                except OSError:
                    if not (target / MANIFEST).is_file():
                        raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
            os.close(fd)
            if _content(lock).startswith(token):
                lock.unlink(missing_ok=True)
    return target


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _break(lock: Path, seen: str) -> None:
    """Take away a lock whose owner is gone, and no other that came in the meantime."""
    mine = lock.with_name(f"{lock.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        os.rename(lock, mine)
        if _content(mine) != seen:
            os.link(mine, lock)
    except OSError:
        pass
    mine.unlink(missing_ok=True)


def _draw(target: Path, train: int, val: int, distinct: int, quality: int, seed: int):
    """Fill ``target`` with as many processes as there are cores to use; yields now and then while they work."""
    for split in ("train", "val"):
        for name in scenes.CLASSES:
            (target / split / name).mkdir(parents=True)
    workers = max(1, min(len(os.sched_getaffinity(0)), (distinct + val) // 20))
    total, done, started, shown = distinct + val, 0, time.monotonic(), 0.0
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(paths.PACKAGE.parent), os.environ.get("PYTHONPATH", "")]))
    environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "dlojz.photos", str(target), str(distinct), str(val), str(quality), str(seed), str(workers)]
    # Processes of their own rather than a multiprocessing pool: this process may hold torch and its threads, which cannot be
    # forked, or be a notebook, which cannot be spawned. They die with the pipe that they report to.
    crew = [subprocess.Popen([*command, str(n)], stdout=subprocess.PIPE, env=environment) for n in range(workers)]
    try:
        with selectors.DefaultSelector() as selector:
            for process in crew:
                selector.register(process.stdout, selectors.EVENT_READ, process)
            while selector.get_map():
                for key, _ in selector.select(timeout=1):
                    said = os.read(key.fd, 4096)
                    if not said:
                        selector.unregister(key.fileobj)
                        if key.data.wait():
                            raise OSError(f"a process that draws ended with code {key.data.returncode}")
                    elif b"!" in said:
                        raise OSError(said.partition(b"!")[2].decode().strip())
                    done += said.count(b".")
                if time.monotonic() - shown > 1 or done == total:
                    shown = time.monotonic()
                    _progress(f"dlojz.photos: drawing the photo set, {done} of {total} files, {shown - started:.0f} s", done == total)
                    yield done
    finally:
        for process in crew:
            process.kill()
            process.wait()
            process.stdout.close()
    for index in range(distinct, train):
        _link(target / _file("train", index % distinct), target / _file("train", index))
    sizes = [file.stat().st_size for file in target.glob("train/*/*.jpg")]
    manifest = {"version": VERSION, "train": train, "val": val, "distinct": distinct, "quality": quality, "seed": seed,
                "mean_bytes": round(sum(sizes) / len(sizes)), "classes": scenes.CLASSES}  # fmt: skip
    (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _link(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # a file system without hard links
        os.symlink(os.path.relpath(file, name.parent), name)


def _file(split: str, index: int) -> str:
    return f"{split}/{scenes.CLASSES[index % len(scenes.CLASSES)]}/{index:06d}.jpg"


def _progress(line: str, last: bool) -> None:
    if sys.stderr.isatty():
        print(f"\r{line}", end="\n" if last else "", file=sys.stderr, flush=True)
    elif last:
        print(line, file=sys.stderr, flush=True)


def _work(target: Path, train: int, val: int, quality: int, seed: int, workers: int, worker: int) -> None:
    """Draw each ``workers``-th picture; a dot on stdout for each, or ``!`` and what went wrong."""
    numbers = [("train", index) for index in range(train)] + [("val", index) for index in range(val)]
    try:
        for split, index in numbers[worker::workers]:
            picture = scenes.draw(*_number(split, index, seed))
            (target / _file(split, index)).write_bytes(_jpeg(picture, quality))
            os.write(1, b".")
    except BrokenPipeError:
        pass  # whoever wanted the pictures is gone
    except OSError as error:
        os.write(1, f"!{error.strerror}".encode())


if __name__ == "__main__":
    _work(Path(sys.argv[1]), *map(int, sys.argv[2:]))
