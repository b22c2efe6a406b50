"""``dlojz trace SCRIPT``: processes of `training.tracing`, which end when a trace of some updates is written."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ...system import paths, processes
from ...system.errors import UsageError
from ...training import distributed, records, tracing
from .ranks import places, wait


def traced(command: Sequence[str], updates: int, skip: int, ranks: int) -> tuple[Path | None, int]:
    """The folder with the trace of ``updates`` updates after the first ``skip``, and the exit code. None: there is no trace, or
    this is not the process that shows it: as a job of several processes, all of them do all of this. Raises UsageError where
    both this process and ``ranks`` would be several."""
    here = distributed.processes()
    if here.world_size > 1 and (ranks > 1 or "DLOJZ_RUN" not in os.environ):
        raise UsageError("several processes are started by dlojz trace --ranks 2 SCRIPT, or as a job: "
                         "dlojz submit --processes 2 -- dlojz trace SCRIPT")
    with places(ranks) as several:
        folder = records.run_folder(None, f"trace-{Path(command[0]).stem}")
        asked = [sys.executable, "-m", tracing.__name__, f"--updates={updates}", f"--skip={skip}", f"--folder={folder}", *command]
        environment = os.environ | {"PYTHONPATH": paths.python_path(), "DLOJZ_RUN": str(folder)}
        with processes.deaf_to_ctrl_c():  # until the script begins
            started = [subprocess.Popen(asked, env=environment | place, start_new_session=ranks > 1) for place in several]
        try:
            _, code = wait(started, math.inf)
        finally:
            with contextlib.suppress(OSError):  # in it is the trace, or what the script wrote
                folder.rmdir()
    return folder if here.is_main and (folder / tracing.NAME).exists() else None, code if code >= 0 else 128 - code
