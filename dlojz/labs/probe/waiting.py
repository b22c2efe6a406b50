"""Processes that wait for each other in vain: which of them, in which collective, and what the others did meanwhile."""

from __future__ import annotations

from .facts import Event, Facts, lost_another

EXPECTED = "all processes reach the same collectives, in the same order, or the first to wait waits for ever"


def in_vain(run: Facts) -> tuple[str, str, Event] | None:
    """What was seen, what is expected, and the fact to look at, where a process of this run waited for another in vain; None
    where none did, or where one stopped by itself, whatever the others did then."""
    ranks = run.ranks
    waiting = [number for number, facts in enumerate(ranks) if _waited(facts)]
    if len(ranks) < 2 or not waiting or any(not facts.completed and not _waited(facts) for facts in ranks):
        return None
    first = next((number for number in waiting if not _hangs(ranks[number])), waiting[0])
    others = [number for number in range(len(ranks)) if number != first]
    other = next((number for number in others if _hangs(ranks[number])), others[0])
    saw = f"{run.said}: rank {first} waits in {_where(ranks[first])} for rank {other}, which {_did(ranks[other])}"
    return saw, EXPECTED, _culprit(ranks[first], ranks[other])


def _waited(facts: Facts) -> bool:
    how = facts.ended.how
    return lost_another(facts.ended) or how == "alone" or (how == "time" and _open(facts) is not None)


def _hangs(facts: Facts) -> bool:
    """Whether this process was in no collective: one that is in a collective notices when another process ends."""
    return facts.ended.how == "alone" and _open(facts) is None and bool(facts.ended.line)


def _open(facts: Facts) -> Event | None:
    """The collective that this process had begun and not ended."""
    calls, done = facts.all("collective.call"), facts.all("collective.done")
    return calls[-1] if len(calls) > len(done) else None


def _where(facts: Facts) -> str:
    call, ended = _open(facts), facts.ended
    if call is not None:
        return f"`{call.call}` (line {call.line})"
    return f"line {ended.line}" if ended.line else "a collective"


def _did(facts: Facts) -> str:
    if facts.completed:
        return "has ended: it never called it"
    if _hangs(facts):
        return f"is still in line {facts.ended.line}"
    return f"waits, too, in {_where(facts)}" if _waited(facts) else f"{facts.ended.message}"


def _culprit(facts: Facts, other: Facts) -> Event:
    """Where the other one hangs; or the call that only one of the two has made; else where the first stood."""
    if _hangs(other):
        return other.ended
    lines = [{(call.file, call.line) for call in each.all("collective.call")} for each in (facts, other)]
    for each, theirs in ((facts, lines[1]), (other, lines[0])):
        for call in each.all("collective.call"):
            if (call.file, call.line) not in theirs:
                return call
    return _open(facts) or facts.ended
