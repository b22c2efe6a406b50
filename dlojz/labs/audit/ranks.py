"""Processes that are started as torchrun would start them on one machine, for `dlojz audit` and `dlojz trace`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from ...system.errors import UsageError
from ..probe.session import reserved_port

GRACE = 5.0  # seconds that other ranks have to end when one has failed
MOST = 8


@contextlib.contextmanager
def places(ranks: int) -> Iterator[list[dict[str, str]]]:
    """What torchrun says to each process, by its environment. Raises UsageError where there would be too many. A time limit of
    CI and a terminal that is closed end this process by a signal: within, it is an exit that cleans up, as Ctrl-C is."""
    if not 1 <= ranks <= MOST:
        raise UsageError(f"--ranks {ranks}: 2 show what goes wrong between processes; {MOST} are the most")
    with reserved_port() as port, contextlib.ExitStack() as after:
        for number in (signal.SIGTERM, signal.SIGHUP) if threading.current_thread() is threading.main_thread() else ():
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
                after.callback(signal.signal, number, signal.signal(number, lambda number, _: sys.exit(128 + number)))
        yield [_place(rank, ranks, port) for rank in range(ranks)]


def _place(rank: int, ranks: int, port: int) -> dict[str, str]:
    if ranks == 1:
        return {}
    numbers = dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), rank) | dict.fromkeys(
        ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"), ranks)
    numbers |= {"GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "TORCHELASTIC_MAX_RESTARTS": 0, "TORCHELASTIC_RESTART_COUNT": 0,
                "MASTER_PORT": port, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", 1)}
    return {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "dlojz", "ROLE_NAME": "default"} | {
        name: str(value) for name, value in numbers.items()}


def wait(started: list[subprocess.Popen], until: float) -> tuple[int, int | None]:
    """The rank that failed first, else 0, and its status; None where time was up. Nothing that they have started is left: each
    is the first of a session of its own, but for the only one of a trace, which is told to stop."""
    first = None
    try:
        while time.monotonic() < until and any(process.poll() is None for process in started):
            failed = next((rank for rank, process in enumerate(started) if process.returncode), None)
            if first is None and failed is not None:
                first, until = failed, min(until, time.monotonic() + GRACE)
            with contextlib.suppress(subprocess.TimeoutExpired):
                next(process for process in started if process.returncode is None).wait(min(0.2, until - time.monotonic()))
        first = next((rank for rank, process in enumerate(started) if process.returncode), 0) if first is None else first
        return first, started[first].returncode
    finally:
        for process in started:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.terminate()  # the only one of a trace, which shares the terminal
            process.wait()
