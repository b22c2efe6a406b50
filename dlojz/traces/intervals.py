"""Sets of moments, as sorted lists of (begin, end) that do not touch: when something was busy, and when nothing was."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

Spans = list[tuple[float, float]]


def union(spans: Iterable[tuple[float, float]]) -> Spans:
    out: Spans = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            if end > out[-1][1]:
                out[-1] = (out[-1][0], end)
        elif end > begin:
            out.append((begin, end))
    return out


def common(one: Spans, other: Spans) -> Spans:
    """The moments that are in both."""
    out: Spans = []
    i = j = 0
    while i < len(one) and j < len(other):
        begin, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if end > begin:
            out.append((begin, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return out


def minus(one: Spans, other: Spans) -> Spans:
    """The moments of the first that are not in the other."""
    out: Spans = []
    j = 0
    for begin, end in one:
        while j < len(other) and other[j][1] <= begin:
            j += 1
        k = j
        while k < len(other) and other[k][0] < end:
            if other[k][0] > begin:
                out.append((begin, other[k][0]))
            begin = max(begin, other[k][1])
            k += 1
        if end > begin:
            out.append((begin, end))
    return out


def within(spans: Spans, begin: float, end: float) -> Spans:
    return common(spans, [(begin, end)]) if end > begin else []


def total(spans: Sequence[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in spans)


def holds(spans: Spans, moment: float) -> bool:
    """Whether a moment is in one of them."""
    at = bisect_right(spans, (moment, math.inf)) - 1
    return at >= 0 and moment < spans[at][1]


def near(spans: Spans, begin: float, end: float) -> Spans:
    """Those that may have a moment between begin and end, out of many."""
    at = max(0, bisect_right(spans, (begin, begin)) - 1)
    return spans[at : bisect_right(spans, (end, end))]
