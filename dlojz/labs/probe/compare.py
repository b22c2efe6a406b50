"""Comparing the facts of two runs, one by one, in the order in which they happened.

What is compared of each kind of fact is said where it is noted, in an observer's ``COMPARED``: ``{kind: (key, …)}``. A key with
``~`` before it is computed in the format of the layers, so it may differ by as much as that rounds; all else is the same to four
digits. A fact's name is ``kind.key``, below it ``kind.key.part`` for a tensor (dtype, device, shape, format, mark), without the
number of its place in a list; ``kind.missing`` and ``kind.extra`` where only one of the two runs has it.

Values are numbers, texts, lists, dicts, and fingerprints of tensors (`fingerprint`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from .facts import Event, Facts

EXACT = 1e-4
ROUNDED = {"bfloat16": 0.04, "float16": 0.02, "float32": 2e-3, "float64": 1e-6}  # 8 and 11 binary digits; 24, and batch norm
TURNED = 6  # times that may the direction be off: it is what is left of many numbers, each rounded by itself
PARTS = {"dtype", "device", "shape", "format", "mark"}
ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """``name`` of the fact; ``mine`` and ``kits``, what the two runs have (None where one has no such fact); ``fact`` and
    ``other``, the two facts; ``order``, by which the earlier is known; ``facts``, the trainee's rank."""

    name: str
    mine: object
    kits: object
    fact: Event | None
    other: Event | None
    order: tuple
    facts: Facts

    @property
    def step(self) -> int:
        return (self.fact or self.other).step

    def words(self) -> dict:
        """What a row's words may name: mine, kits, step, ratio (of two numbers), where (the items of a dict that differ, such as
        "2 of 5, such as fc"; first of them, and what it is: its, should), size (a norm beside the one that it should be), and the
        keys of the fact."""
        mine, kits = shown(self.mine), shown(self.kits)
        words = {**(self.other or {}), **(self.fact or {}), "first": "", "its": mine, "should": kits}
        if isinstance(self.mine, Mapping) and isinstance(self.kits, Mapping) and not is_fingerprint(self.mine):
            apart = [key for key in {**self.kits, **self.mine} if self.mine.get(key) != self.kits.get(key)]
            words["where"] = f"{len(apart)} of {len(self.kits)}" + (f", such as {apart[0]}" if apart else "")
            words["first"] = apart[0] if apart else ""
            words["its"], words["should"] = (shown(side.get(words["first"])) for side in (self.mine, self.kits))
        size = [_size(value) for value in (self.mine, self.kits)]
        words["ratio"] = f"{size[0] / size[1]:.3g}" if None not in size and size[1] else "none"
        words["size"] = f"{mine}, {words['ratio']} times what it should be" if words["ratio"] != "1" else \
            f"{mine}, as it should be, but their direction is not"
        return words | {"mine": mine, "kits": kits, "step": self.step, "name": words.get("name", "")}


def differences(mine: Facts, kits: Facts, compared: Mapping[str, tuple[str, ...]], least: str = "float32") -> list[Difference]:
    """All that differ, of all ranks, the earliest first. Where the trainee's run broke off, what the kit's did after that is
    left out."""
    rounded = ROUNDED.get(least, ROUNDED["float32"])
    found = [each for pair in zip(mine.ranks, kits.ranks) for each in _of_rank(*pair, compared, rounded)]
    return sorted(found, key=lambda difference: difference.order)


def least_precise(kits: Facts) -> str:
    """The format with the fewest digits in which a layer of the run computes."""
    seen = {event.get("computes") for event in kits.events if event.what == "layer"}
    return next((name for name in ROUNDED if name in seen), "float32")


def _of_rank(mine: Facts, kits: Facts, compared, rounded) -> Iterator[Difference]:
    ours, theirs = _numbered(mine.events, compared), _numbered(kits.events, compared)
    places = {key: place for place, key in enumerate(theirs)}
    last = math.inf if mine.completed else max((event.step for event in mine.events), default=0)
    place = -1.0
    for key, event in ours.items():
        what, step, _ = key
        if key not in theirs:
            yield Difference(f"{what}.extra", _said(event, compared), None, event, None, (step, place + 0.5), mine)
            continue
        place = places[key]
        for number, key_of in enumerate(compared[what]):
            name, tolerance = key_of.lstrip("~"), rounded if key_of.startswith("~") else EXACT
            for path, one, other in _leaves(f"{what}.{name}", event.get(name, ABSENT), theirs[key].get(name, ABSENT)):
                if not same(one, other, tolerance):
                    yield Difference(path, one, other, event, theirs[key], (step, place, number), mine)
    for key, event in theirs.items():
        if key not in ours and key[1] < last:
            what, step, _ = key
            yield Difference(f"{what}.missing", None, _said(event, compared), None, event, (step, places[key]), mine)


def _numbered(events: Iterable[Event], compared) -> dict[tuple, Event]:
    """By kind, step and number in this step."""
    counts: Counter = Counter()
    found = {}
    for event in events:
        if event.what in compared and not event.get("aside"):
            counts[event.what, event.step] += 1
            found[event.what, event.step, counts[event.what, event.step]] = event
    return found


def _said(event: Event, compared) -> object:
    """What is said of a fact that only one run has: the first of what is compared."""
    names = compared[event.what]
    return event.get(names[0].lstrip("~")) if names else None


def _leaves(path: str, one, other) -> Iterator[tuple[str, object, object]]:
    """The parts of tensors; lists of them by place. All else is one value."""
    if _is_tensor(one) and _is_tensor(other):
        for part in {**other, **one}:
            yield f"{path}.{part}", one.get(part, ABSENT), other.get(part, ABSENT)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other) and any(map(_is_tensor, one)):
        for a, b in zip(one, other):
            yield from _leaves(path, a, b)
    else:
        yield path, one, other


def _is_tensor(value) -> bool:
    return isinstance(value, Mapping) and "dtype" in value and "shape" in value


def is_fingerprint(value) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"norm", "seen"}


def same(one, other, tolerance: float = EXACT) -> bool:
    """By value; floats, and tensors by their fingerprints, within a share of the larger."""
    if is_fingerprint(one) and is_fingerprint(other):
        turned = tolerance if tolerance <= EXACT else TURNED * tolerance
        return _close(one["norm"], other["norm"], tolerance) and _near(one, other, turned)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key], tolerance) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(same(a, b, tolerance) for a, b in zip(one, other))
    if float in (type(one), type(other)) and isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return _close(one, other, tolerance)
    return one == other


def _close(one, other, tolerance) -> bool:
    if one is None or other is None:
        return one is other
    if not (math.isfinite(one) and math.isfinite(other)):
        return str(one) == str(other)
    return abs(one - other) <= tolerance * max(abs(one), abs(other)) + 1e-12


def _near(one, other, tolerance) -> bool:
    """How far two tensors are apart, told from what was seen of them in a few fixed directions."""
    if None in (one["norm"], other["norm"]):
        return True
    apart = math.sqrt(sum((a - b) ** 2 for a, b in zip(one["seen"], other["seen"])) / max(1, len(one["seen"])))
    return apart <= tolerance * max(one["norm"], other["norm"]) + 1e-12


def _size(value) -> float | None:
    value = value["norm"] if is_fingerprint(value) else value
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def shown(value) -> str:
    """As a message says it."""
    if is_fingerprint(value):
        return "not finite" if value["norm"] is None else f"{value['norm']:.3g}"
    if value is ABSENT or value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        if value and all(isinstance(count, int) for count in value.values()):  # {dtype: how many}
            return " and ".join(map(str, value))
        return ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) or "none"
    return str(value)
