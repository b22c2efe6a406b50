"""For checks of labs in which several processes train together: whether they met, or waited for each other in vain."""

from __future__ import annotations

from .probe import Event, Facts, Unfinished, Unmet, lost_another


def ended_together(run: Facts) -> None:
    """Ends the check where a process of a run with ``replicas=True`` waited for another in vain, or did not run to its end.

    The words say which rank waited, in what, and what the other one did meanwhile.
    """
    ranks = run.ranks
    waiting = [number for number, facts in enumerate(ranks) if _waited(facts)]
    for facts in ranks:
        if not facts.completed and not _waited(facts):
            raise Unfinished(facts)
    if not waiting:
        return
    first = next((number for number in waiting if not _hangs(ranks[number])), waiting[0])
    others = [number for number in range(len(ranks)) if number != first]
    other = next((number for number in others if _hangs(ranks[number])), others[0])
    raise Unmet(f"`{run.command}`: rank {first} waits in {_where(ranks[first])} for rank {other}, which {_did(ranks[other])}",
                "all processes reach the same collectives, in the same order, or the first to wait waits for ever",
                _culprit(ranks[first], ranks[other]))


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
