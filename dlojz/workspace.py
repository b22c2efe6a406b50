"""A trainee's folder: notebooks, the files of ``dlojz/reference/`` to edit, and ``runs/``."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from . import __version__, paths
from .errors import UsageError

MARKER = "workspace.toml"


def find(start: Path | str | None = None) -> Path:
    """The workspace we are in: ``DLOJZ_WORKSPACE``, else the nearest folder at or above ``start`` that holds workspace.toml."""
    chosen = os.environ.get("DLOJZ_WORKSPACE")
    if chosen and start is None:
        folder = Path(chosen).expanduser().resolve()
        if not (folder / MARKER).is_file():
            raise UsageError(f"DLOJZ_WORKSPACE is {folder}, which is no workspace: make one with `dlojz workspace {chosen}`")
        return folder
    here = Path(start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            return folder
    raise UsageError(f"{here} is not in a workspace: make one with `dlojz workspace DIR`, then work inside it")


def create(folder: Path | str) -> list[str]:
    """Make a workspace, or complete one that is there: nothing that exists is written over.

    Returns one line for each thing done.
    """
    folder = Path(folder).expanduser()
    said = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "runs").mkdir(exist_ok=True)
        for source in _sources():
            target = folder / source.name
            if not target.exists():
                shutil.copyfile(source, target)
                said.append(f"{target.name}: new")
        marker = folder / MARKER
        if not marker.exists():
            marker.write_text(f'# This folder is a DLO-JZ workspace.\nversion = "{__version__}"\n# site = "jean-zay"   # see `dlojz sites`\n')
    except OSError as error:
        raise UsageError(f"cannot make a workspace in {folder}: {error.strerror}. Choose a folder that you may write to") from None
    return said


def _sources() -> list[Path]:
    notebooks = sorted(paths.share("notebooks").glob("*.ipynb"))
    return sorted((paths.PACKAGE / "reference").glob("*.py")) + notebooks
