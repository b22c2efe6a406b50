"""Collectives that no network explains: a process waits in them for another one that comes late."""

from __future__ import annotations

from .facts import Collective, Facts

# What a collective may take that nobody is late for, generously: seconds to begin with, and bytes a second. NCCL between nodes
# with Ethernet of 10 Gbit/s, gloo between the processes of a busy laptop.
SLOW = {"nccl": (1e-3, 0.5e9)}
SLOWEST = (3e-3, 0.03e9)
MOST = 0.5  # part of the collectives' time


def waiting(facts: Facts) -> bool:
    """Whether most of the time in collectives is waited for another process."""
    whole = sum(one.seconds for one in facts.collectives)
    return whole > 0 and sum(map(beyond, facts.collectives)) >= MOST * whole


def beyond(one: Collective) -> float:
    """The seconds that one takes longer than it may; none where its bytes are not known."""
    size = 0.0 if one.kind == "barrier" else one.bytes
    if size is None:
        return 0.0
    begin, speed = SLOW.get(one.backend, SLOWEST)
    return max(0.0, one.seconds - begin - size / speed)
