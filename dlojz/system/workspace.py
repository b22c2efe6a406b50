"""The workspace that we are in: a trainee's folder, known by its workspace.toml."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import tomllib
from pathlib import Path

from .. import __version__
from .errors import UsageError

MARKER = "workspace.toml"
KEYS = ("version", "site", "kernel")  # what it may hold


def find(start: Path | str | None = None) -> Path:
    """The workspace we are in: ``DLOJZ_WORKSPACE``, else the nearest folder at or above ``start`` that holds workspace.toml.

    One that belongs to another user is refused, unless it is named: it says what is run.
    """
    chosen = os.environ.get("DLOJZ_WORKSPACE")
    if chosen and start is None:
        folder = Path(chosen).expanduser().resolve()
        if not (folder / MARKER).is_file():
            raise UsageError(f"DLOJZ_WORKSPACE is {folder}, which is not a workspace: make one with `dlojz workspace {chosen}`")
        return folder
    try:
        here = Path(start or Path.cwd()).resolve()
    except FileNotFoundError:
        raise UsageError("this folder has been deleted: go to a workspace, in a notebook restart the kernel") from None
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            refuse_others(folder / MARKER)
            return folder
    raise UsageError(f"{here} is not in a workspace: make one with `dlojz workspace DIR` or go to yours, then work inside it")


def owner(file: Path) -> str:
    """The name of another user than oneself and root to whom this file, or a link to it, belongs; empty where that is nobody."""
    for look in (os.stat, os.lstat):
        try:
            user = look(file).st_uid
        except OSError:
            continue
        if user not in (os.getuid(), 0):
            try:
                return pwd.getpwuid(user).pw_name
            except KeyError:
                return f"the user {user}"
    return ""


def refuse_others(file: Path) -> None:
    """Raises UsageError where a file that decides what is run belongs to another user, who could write anything into it."""
    if not (other := owner(file)):
        return
    named = file.name == MARKER and os.environ.get("DLOJZ_WORKSPACE")
    if named and Path(named).expanduser().resolve() == file.parent.resolve():
        return
    how = f"export DLOJZ_WORKSPACE={shlex.quote(str(file.parent))}" if file.name == MARKER \
        else f"export DLOJZ_SITE={shlex.quote(str(file))}"
    make = "make your own workspace with `dlojz workspace DIR`" if file.name == MARKER else "copy it, so that the copy is yours"
    raise UsageError(f"{file} belongs to {other}, and would decide what runs as you: {make}. If you trust {other}: {how}")


def make_runs(folder: Path) -> Path:
    """``runs/`` of a workspace. It may be a link, to scratch, say: then what it leads to is made. Raises OSError."""
    runs = folder / "runs"
    os.makedirs(os.path.realpath(runs), exist_ok=True)
    return runs


def version(folder: Path) -> str:
    """The version of the kit that last laid this workspace out; "0" where workspace.toml does not say."""
    try:
        said = tomllib.loads((folder / MARKER).read_text(encoding="utf-8")).get("version")
    except FileNotFoundError:
        return "0"
    except (OSError, ValueError) as error:
        mend = f"mend it, or delete it and run `dlojz workspace {folder}`"
        raise UsageError(f"{folder / MARKER} cannot be read ({error}): {mend}") from None
    return said if isinstance(said, str) and said.strip() else "0"


def kernel(folder: Path) -> str:
    """The Jupyter kernel that the workspace's notebooks name; ``python3`` where workspace.toml names none."""
    try:
        said = tomllib.loads((folder / MARKER).read_text(encoding="utf-8")).get("kernel")
    except (OSError, ValueError):
        said = None  # who reads the version says what is wrong
    return said if isinstance(said, str) and said.strip() else "python3"


def refuse_newer(folder: Path) -> None:
    """Raises UsageError where a later version of the kit has laid this workspace out."""
    if _release(version(folder)) > _release(__version__):
        raise UsageError(f"this workspace is of dlojz {version(folder)} and the kit here is {__version__}: update the kit "
                         f"(pip install --upgrade dlojz), or make another workspace with `dlojz workspace DIR`")


def older(folder: Path) -> str:
    """A line that says that the workspace is of an earlier version of the kit, and what to do; empty where it is not."""
    if _release(version(folder)) >= _release(__version__):
        return ""
    made = "an early version" if version(folder) == "0" else f"dlojz {version(folder)}"
    return (f"this workspace is of {made} and the kit here is {__version__}: `dlojz workspace {folder} --update` brings it up to "
            "date and keeps what you wrote")


def _release(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.findall(r"\d+", text.split("+")[0])[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def emptied(name: str) -> UsageError:
    """The error for a script of the course in which nothing is left: how to get it back."""
    return UsageError(f"{name} is empty. If your editor still shows what you wrote, save it again, or look for a copy in "
                      f"backup/; `rm {shlex.quote(name)} && dlojz workspace` recreates it as new")
