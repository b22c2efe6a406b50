"""Limits of time for machines that are busy with other things too."""

import os

LIMIT = 240  # seconds, for what takes a few: it is to end a hang, not to measure


def patient(seconds: float) -> float:
    """So many seconds of an idle machine: more on a busy one, in proportion to the processes that compete for each core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return seconds * max(1.0, 2 * os.getloadavg()[0] / cores)
