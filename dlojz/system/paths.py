"""Where the kit's own files and the user's folders are."""

from __future__ import annotations

import importlib.util
import os
import pwd
import sys
from pathlib import Path

from .errors import UsageError

PACKAGE = Path(__file__).resolve().parents[1]


def share(*parts: str) -> Path:
    """A file that ships with the kit beside the package: ``share("slurm", "job.sh")``, ``share("notebooks")``.

    A wheel carries them inside the package, a checkout has them at its root.
    """
    return (PACKAGE / "_share" if is_installed() else PACKAGE.parent).joinpath(*parts)


def is_installed() -> bool:
    """Whether this is a wheel's package, and not a checkout of the kit."""
    return (PACKAGE / "_share").is_dir()


def module(file: Path):
    """A Python file as a module, executed anew, under a name that no import of it has: a lab may hold the trainee's file and the
    kit's at the same time."""
    spec = importlib.util.spec_from_file_location(f"{file.stem}_of_{file.parent.name}", file)
    sys.modules[spec.name] = found = importlib.util.module_from_spec(spec)  # where data classes look their own module up
    spec.loader.exec_module(found)
    return found


def given(path: str | Path, example: str = "runs/amp-001") -> Path:
    """A path that a person gave. Raises UsageError where no file can be called so."""
    try:
        found = Path(path).expanduser()
        os.lstat(found)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return found
    except (OSError, TypeError, ValueError, RuntimeError) as error:  # too long; no path at all; NUL, a lone surrogate; ~nobody
        said = repr(str(path) if isinstance(path, Path) else path)
        said = said if len(said) <= 60 else f"{said[:57]}..."
        why = getattr(error, "strerror", None)
        raise UsageError(f"{said} is no path{f' ({why})' if why else ''}: give one such as {example!r}") from None
    return found


def cache() -> Path:
    """The folder for what the kit makes itself: ``DLOJZ_CACHE``, else ``$XDG_CACHE_HOME/dlojz``, else ``~/.cache/dlojz``."""
    chosen = os.environ.get("DLOJZ_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return xdg("XDG_CACHE_HOME", ".cache") / "dlojz"


def xdg(variable: str, usual: str) -> Path:
    """A folder that one of the XDG variables names, else ``usual`` in the home. A relative path is to be ignored, says the
    specification (https://specifications.freedesktop.org/basedir-spec): processes that work in another folder would miss it."""
    chosen = Path(os.environ.get(variable) or "").expanduser()
    if chosen.is_absolute():
        return chosen
    home = Path.home()
    return (home if home.is_absolute() else Path(pwd.getpwuid(os.getuid()).pw_dir)) / usual


def python_path(env=os.environ) -> str:
    """``PYTHONPATH`` for a process that we start: it finds this very package, from wherever it runs and installed or not."""
    return os.pathsep.join(filter(None, [str(PACKAGE.parent), env.get("PYTHONPATH")]))
