"""The embedded photo set: JPEG files that the kit draws itself, once, into its cache.

No network and no torch is needed. A picture depends on its number alone, whichever process draws it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..system import paths, processes
from ..system.errors import UsageError
from ..system.machine import cores_allowed
from ..system.shown import say
from . import drawing

VERSION = 2  # of the pictures: another one is another folder in the cache
TRAIN, VAL = 1600, 400
QUALITY = 96  # of the JPEG files: about 100 kB each, as heavy to decode as ImageNet's
MANIFEST = "manifest.json"
LOG_PAUSE = 20.0  # seconds between two lines on how far the drawing is, in a log
STALE = 15.0  # seconds without a sign of life from the process that draws, before another takes over


def place(train: int = TRAIN, val: int = VAL) -> Path:
    """Where the photo set is, or will be: in the environment of the kit if somebody has put it there for all who use it, else in
    one's own cache. Sets of other sizes are other folders."""
    shared = for_all(train, val)
    if (shared / MANIFEST).is_file() and not os.environ.get("DLOJZ_CACHE"):
        return shared
    return paths.cache() / shared.name


def for_all(train: int = TRAIN, val: int = VAL) -> Path:
    """Where those who look after the kit's environment may have put the set, for all who use it."""
    return Path(sys.prefix, "share", "dlojz", f"photos-v{VERSION}-{train}-{val}")


def share(train: int = TRAIN, val: int = VAL) -> Path:
    """Draws the set for all who use this environment, unless it is there. Raises OSError."""
    return made_once(for_all(train, val), lambda target: _draw(target, train, val, train, QUALITY, seed=0))


def folder(train: int = TRAIN, val: int = VAL) -> Path:
    """The folder of the photo set, drawn first where it isn't there yet: by one process, while the others wait."""
    cache = paths.cache()
    try:
        return made_once(place(train, val), lambda target: _draw(target, train, val, train, QUALITY, seed=0))
    except OSError as error:
        raise UsageError(
            f"cannot write the photo set to {cache}: {error.strerror or error}; "
            "set DLOJZ_CACHE to a folder with 200 MB of room"
        ) from None


def make(target: Path, train: int, val: int, distinct: int, mean_kb: float, seed: int = 1) -> None:
    """An image folder with ``train`` and ``val`` pictures of the same kind, ``mean_kb`` kB (of 1000 bytes) on average.

    No more than ``distinct`` training files are drawn, the others are links to them. Raises UsageError.
    """
    kinds = len(drawing.CLASSES)
    if min(train, val, distinct) < kinds:
        raise UsageError(f"each split needs at least {kinds} images, one of each class")
    if target.exists():
        raise UsageError(f"{target} is there already: name a new folder")
    distinct = min(train, distinct - distinct % kinds)  # so that a link has the class of its file
    quality = _quality_for(mean_kb * 1000, seed)
    try:
        made_once(target, lambda part: _draw(part, train, val, distinct, quality, seed))
    except OSError as error:
        raise UsageError(f"cannot write to {target}: {error.strerror or error}") from None


def _quality_for(size: float, seed: int) -> float:
    """The JPEG quality at which the files come out at ``size`` bytes on average."""
    pictures = [drawing.draw(*_number("train", index, seed)) for index in range(2 * len(drawing.CLASSES))]

    def mean(quality):
        return sum(len(_jpeg(picture, quality)) for picture in pictures) / len(pictures)

    low, high = 5, 98  # above that a file only grows
    if not mean(low) <= size <= mean(high):
        raise UsageError(
            f"pictures of {size / 1000:g} kB cannot be made: choose from {mean(low) / 1000:.0f} to {mean(high) / 1000:.0f} kB"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if mean(middle) <= size else (low, middle)
    return low + (size - mean(low)) / (mean(high) - mean(low))


def _number(split: str, index: int, seed: int) -> tuple[int, int]:
    """(class, seed of the picture)."""
    return index % len(drawing.CLASSES), (seed * 2 + (split == "val")) * 10_000_000 + index


def _file(split: str, index: int) -> str:
    return f"{split}/{drawing.CLASSES[index % len(drawing.CLASSES)]}/{index:06d}.jpg"


def _jpeg(picture, quality: float) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=int(quality))
    return file.getvalue()


# Once, by one of many processes


def made_once(target: Path, make: Callable[[Path], Iterator]) -> Path:
    """``target``, complete: filled by ``make(folder)`` under another name and renamed, by one of all that ask.

    ``make`` writes the manifest, and yields every second or so. At each yield its process writes a new number into the
    lock file; where the number stands still, that process is gone and the next one takes over. flock would be simpler,
    but hangs or fails on the file systems of many clusters. Should two of them make after all (one slept through the
    limit), the first to finish wins and nothing breaks. Raises OSError.
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
                _break(lock, seen, token)
            if not told:
                say(f"dlojz: another process makes {target}, waiting for it", file=sys.stderr)
                told = True
            time.sleep(0.2)
            continue
        try:
            _beat(fd, token)
            _make_and_rename(target, make, token, fd)
        finally:
            os.close(fd)
            if _content(lock).startswith(token):
                lock.unlink(missing_ok=True)
    return target


def _make_and_rename(target: Path, make: Callable[[Path], Iterator], token: str, lock: int) -> None:
    for left in target.parent.glob(f".{target.name}.part-*"):  # by those that were killed
        shutil.rmtree(left, ignore_errors=True)
    if (target / MANIFEST).is_file():
        return
    part = target.with_name(f".{target.name}.part-{token}")
    part.mkdir()
    try:
        for count, _ in enumerate(make(part)):
            _beat(lock, f"{token} {count}")
        part.rename(target)
    except OSError:
        if not (target / MANIFEST).is_file():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _beat(fd: int, content: str) -> None:
    os.pwrite(fd, content.encode(), 0)
    os.fsync(fd)  # other nodes of a cluster see it then


def _content(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _break(lock: Path, seen: str, token: str) -> None:
    """Take away a lock whose owner is gone, and no other one that came in the meantime."""
    mine = lock.with_name(f"{lock.name}-{token}")
    try:
        os.rename(lock, mine)
    except FileNotFoundError:
        return
    if _content(mine) == seen:
        mine.unlink()
    else:
        os.rename(mine, lock)


# Drawing, with all the cores there are


def _draw(target: Path, train: int, val: int, distinct: int, quality: float, seed: int) -> Iterator[None]:
    for split in ("train", "val"):
        for name in drawing.CLASSES:
            (target / split / name).mkdir(parents=True)
    yield from _crew(target, distinct, val, quality, seed)
    for index in range(distinct, train):
        _link(target / _file("train", index % distinct), target / _file("train", index))
        if index % 1000 == 0:
            yield
    sizes = [(target / _file("train", index)).stat().st_size for index in range(distinct)]
    manifest = {"version": VERSION, "train": train, "val": val, "distinct": distinct, "quality": quality, "seed": seed}
    manifest |= {"mean_bytes": round(sum(sizes) / len(sizes)), "classes": drawing.CLASSES}
    (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _crew(target: Path, train: int, val: int, quality: float, seed: int) -> Iterator[None]:
    """Processes that share the pictures among them; yields at least once a second while they draw.

    Programs of their own rather than a multiprocessing pool, because this process may hold torch and its threads, which
    must not be forked, or be a notebook, which cannot be spawned. They end when the pipe to this one does.
    """
    total, done, said, started = train + val, 0, b"", time.monotonic()
    workers = max(1, min(cores_allowed(), total // 20))
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", PYTHONPATH=paths.python_path())
    task = [str(word) for word in (target.absolute(), train, val, quality, seed, workers)]
    say(f"dlojz.data.photos: drawing {total} pictures with {workers} processes, once", file=sys.stderr)
    command = [sys.executable, "-m", "dlojz.data.photos", *task]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    crew: list[subprocess.Popen] = []
    try:
        with processes.deaf_to_ctrl_c():
            for number in range(workers):
                crew.append(subprocess.Popen([*command, str(number)], **pipes, env=environment))
        with selectors.DefaultSelector() as selector:
            for process in crew:
                selector.register(process.stdout, selectors.EVENT_READ, process)
            shown = told = started
            while selector.get_map():
                for key, _ in selector.select(timeout=1):
                    said = os.read(key.fd, 4096)
                    if b"!" in said:
                        raise OSError(said.partition(b"!")[2].decode())
                    done += len(said)
                    if not said:
                        selector.unregister(key.fileobj)
                        if key.data.wait():
                            raise OSError(f"a process that draws ended with exit code {key.data.returncode}")
                if time.monotonic() - shown >= 1:
                    shown = time.monotonic()
                    if sys.stderr.isatty() or shown - told >= LOG_PAUSE:
                        told = shown
                        _progress(f"{done} of {total} pictures, {shown - started:.0f} s")
                    yield
        _progress(f"{done} pictures in {time.monotonic() - started:.0f} s", last=True)
    finally:
        for process in crew:
            process.kill()
            process.wait()
            process.stdout.close()


def _progress(line: str, last: bool = False) -> None:
    """One line that moves on in a terminal; in a log a line each."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\rdlojz.data.photos: {line}" + "\n" * last)
        sys.stderr.flush()
    else:
        say(f"dlojz.data.photos: {line}", file=sys.stderr)


def _link(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # a file system without hard links, or too many to one file
        os.symlink(os.path.relpath(file, name.parent), name)


def _work(target: str, train: str, val: str, quality: str, seed: str, workers: str, number: str) -> None:
    """One process of the crew: a dot on stdout for each picture, or ``!`` and what went wrong."""
    pictures = [("train", index) for index in range(int(train))] + [("val", index) for index in range(int(val))]
    try:
        for split, index in pictures[int(number) :: int(workers)]:
            # A quality of 95.3 is 95 for most files and 96 for three in ten.
            jpeg = _jpeg(drawing.draw(*_number(split, index, int(seed))), float(quality) + index * 0.618034 % 1)
            with open(os.path.join(target, _file(split, index)), "wb") as file:
                file.write(jpeg)
            os.write(1, b".")
    except BrokenPipeError:
        pass  # the process that wanted them is gone
    except OSError as error:
        with contextlib.suppress(BrokenPipeError):
            os.write(1, f"!{error.strerror}".encode())


if __name__ == "__main__":
    _work(*sys.argv[1:])
