"""`todo`: what a fence calls where nobody has written it yet, and a switch asks for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..system.shown import say
from . import records

_said: set[str] = set()


def _worker() -> int:
    """The number of this loader's worker; 0 in the training process as well."""
    loading = sys.modules.get("torch.utils.data")
    worker = loading and loading.get_worker_info()
    return worker.id if worker else 0


def todo(lab: str) -> None:
    """Say that this run goes without what its switch asks for, instead of quietly showing no gain.

    Once per process and lab, on rank 0 (of a loader's workers by the first): a line in the log and a ``todo`` event in the run's
    record.
    """
    records.tell("todo", lab=lab)
    if lab in _said or os.environ.get("RANK", "0") != "0" or _worker():
        return
    _said.add(lab)
    caller = sys._getframe(1)
    file, line = Path(caller.f_code.co_filename).name, caller.f_lineno
    message = f"{lab} is not written yet ({file}, line {line}): this run continues without it"
    say(f"todo: {message}")
    records.note("todo", lab=lab, file=file, line=line, message=message)
