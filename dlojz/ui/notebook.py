"""Whether somebody can see widgets."""

from __future__ import annotations

import os
import sys


def plain_wanted() -> bool:
    """Whether there is nobody who could see widgets: no ipywidgets, no kernel, or a kernel that no page looks at."""
    if (said := os.environ.get("DLOJZ_PLAIN", "")) != "":
        return said != "0"
    here = kernel()
    if here is None or not looked_at(here, os.environ):
        return True
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return True
    from .waiting import mend_comms

    mend_comms()  # here, because whoever makes widgets asks this first
    return False


def kernel():
    """The kernel that we are in; None where there is none."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None)


def looked_at(here, env) -> bool:
    """Whether the cell that runs now was sent by a page: JupyterLab says which cell it is, nbval and nbconvert don't."""
    try:
        cell = here.get_parent("shell")["metadata"].get("cellId")
    except Exception:  # another kind of kernel
        cell = None
    return bool(cell) or any(name in env for name in ("VSCODE_PID", "VSCODE_CWD")) or "google.colab" in sys.modules
