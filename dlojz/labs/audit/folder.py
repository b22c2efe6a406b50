"""A folder to run a script in: it shows what the current one has, and what the script writes into it is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

PREFIX = "dlojz-audit-"
MOST = 4000  # entries; what is below comes whole, as one link
ABOVE = 3  # folders, for scripts that read ../data


def stand_in(source: Path, target: Path) -> Path:
    """Make a `mirror` of ``source`` in the new folder ``target``, where ``..`` has what it has there; returns it."""
    target.mkdir()
    names = source.parts[1:][-ABOVE:]
    above = Path(*source.parts[: len(source.parts) - len(names)])
    for name in names[:-1]:
        _link_all(above, target, but=name)
        above, target = above / name, target / name
        target.mkdir()
    _link_all(above, target, but=source.name)
    mirror(source, target / (source.name or "root"))
    return target / (source.name or "root")


def _link_all(source: Path, target: Path, but: str) -> None:
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(source))[:MOST]:
            if entry.name != but and not entry.name.startswith(PREFIX):
                (target / entry.name).symlink_to(entry.path)


def mirror(source: Path, target: Path) -> None:
    """Make ``target``: folders of its own, with links to the files of ``source``, the nearest first."""
    target.mkdir()
    waiting, left = [(source, target)], MOST
    while waiting:
        here, there = waiting.pop(0)
        try:
            entries = list(os.scandir(here))
        except OSError:
            continue
        left -= len(entries)
        for entry in entries:
            if entry.name.startswith(PREFIX):  # one of ours, perhaps the one that is being made
                continue
            if left > 0 and entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                (there / entry.name).mkdir()
                waiting.append((here / entry.name, there / entry.name))
            else:
                (there / entry.name).symlink_to(entry.path)


def own(path, root: str) -> None:
    """A link in ``root`` that is about to be written to becomes a file of its own, with what it had."""
    path = os.path.abspath(os.fsdecode(path))
    if path.startswith(root + os.sep) and os.path.islink(path) and os.path.isfile(path):
        copy = f"{path}.{os.getpid()}"  # another rank may do the same
        shutil.copy2(path, copy)
        os.replace(copy, path)


def guard(root: str, wrote: Callable[[str], None]) -> None:
    """Before each file that this process opens to write: `own`, and ``wrote`` is told of one that is outside of ``root``."""
    def hear(event: str, args: tuple) -> None:
        if event != "open" or not isinstance(args[0], (str, bytes)) or not _writes(args[1], args[2]):
            return
        own(args[0], root)
        path = os.path.realpath(os.fsdecode(args[0]))
        if not path.startswith((root + os.sep, "/dev/", "/proc/")):
            wrote(path)

    sys.addaudithook(hear)


def _writes(mode, flags) -> bool:
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
