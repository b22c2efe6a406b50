"""What the chart forms are given, and the pieces that they draw on one pair of matplotlib's axes.

Lengths are pixels. Matplotlib is imported when something is drawn, not before.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .palette import BAD, GREY, INK, on

SMALL, PLAIN = 12, 13  # pixels of letters
POINTS = 260  # of a line: more cannot be told apart
FAINT = 0.45
STAND_IN = "#010203"  # for the colour of the page's text while matplotlib draws: nothing else has it
NARROW_LETTERS = {**dict.fromkeys("iljtfrI.,:;'|()[]!/ ", 0.36), **dict.fromkeys("mwMW@%", 0.95)}


# --- what forms are given ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line through ``points`` (x, y); what is not finite breaks it. Colours come from the palette in turn where none is given.

    ``band``: (x, lowest, highest) drawn around it. ``marker``: ``"o"`` or ``"x"`` at each point; ``width=0``: markers or band
    alone. ``dash``: pixels drawn and left out, such as (6, 4). ``tips``: what the pointer shows at each marker; ``tip``: of what
    lies above the axis, before the value (left out: the name).
    """

    name: str
    points: Sequence[tuple[float, float]] = ()
    colour: str = ""
    band: Sequence[tuple[float, float, float]] = ()
    marker: str = ""
    width: float = 2.0
    dash: tuple[float, ...] = ()
    tips: Sequence[str] = ()
    opacity: float = 1.0
    size: float = 8.0
    shown: bool = True  # in the legend and in the text
    tip: str = ""

    @classmethod
    def of_seeds(cls, name: str, runs: Sequence[Sequence[tuple[float, float]]], **look) -> Line:
        """The mean of several runs at each x that all of them have, in a band from the lowest to the highest."""
        at = [dict(run) for run in runs]
        shared = sorted(set.intersection(*map(set, at))) if at else []
        values = [(x, [one[x] for one in at]) for x in shared]
        return cls(name, [(x, sum(ys) / len(ys)) for x, ys in values], band=[(x, min(ys), max(ys)) for x, ys in values], **look)


class Bar(NamedTuple):
    """One bar. ``low``, ``high``: the spread of its value; ``note``: behind the value; ``tip``: what the pointer shows."""

    name: str
    value: float | None
    colour: str = ""
    note: str = ""
    faint: bool = False
    low: float | None = None
    high: float | None = None
    tip: str = ""


class Span(NamedTuple):
    """From ``begin`` to ``end`` in seconds. ``what`` goes into the legend and gives the colour where none is said."""

    begin: float
    end: float
    what: str = ""
    colour: str = ""
    faint: bool = False
    tip: str = ""
    words: str = ""  # inside, where they fit


@dataclass(frozen=True)
class Lane:
    """A row of a timeline. ``labels``: (from, to, words) above it, the longest stretch first; of several words those that fit."""

    name: str
    spans: Sequence[Span]
    height: float = 24
    labels: Sequence[tuple[float, float, str | Sequence[str]]] = ()


class Point(NamedTuple):
    name: str
    x: float
    y: float
    colour: str = ""
    tip: str = ""


class Mark(NamedTuple):
    """Words at a place of a chart with two axes, left out where they would cover others; ``marker``: ``"x"`` or ``"o"``."""

    x: float
    y: float
    words: str = ""
    colour: str = ""
    marker: str = ""
    align: str = "center"
    tip: str = ""
    below: bool = False


class Rule(NamedTuple):
    """A line across a chart: at ``y``, or at ``x`` where ``y`` is None."""

    y: float | None = None
    words: str = ""
    colour: str = BAD
    x: float | None = None


class Bracket(NamedTuple):
    """Over the lanes of a timeline, from one moment to another, with words beside it."""

    begin: float
    end: float
    words: str = ""
    split: float | None = None


# --- numbers and lengths -----------------------------------------------------------------------------------------------


def short(value: float) -> str:
    """A tick: ``0.25``, ``20``, ``1,500``, ``1e+07``."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:g}"


def number(value: float | None) -> str:
    """Four figures: ``0.1235``, ``979``, ``5,600``; ``-`` for what is not known."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.3g}"


def clock(seconds: float) -> tuple[str, float]:
    """The unit of a time axis this long, and how many seconds one is."""
    if seconds < 1:
        return ("ms", 1e-3) if seconds >= 1e-3 else ("µs", 1e-6)
    return ("s", 1.0) if seconds < 300 else ("min", 60.0) if seconds < 3 * 3600 else ("h", 3600.0)


def cut(words: str, pixels: float, size: float = SMALL) -> str:
    """As much of a text as fits into so many pixels."""
    if wide(words, size) <= pixels:
        return words
    while len(words) > 1 and wide(words, size) + size > pixels:
        words = words[:-1]
    return f"{words}…"


def thinned(points: Sequence[tuple[float, float]], most: int = POINTS) -> tuple[list[tuple], list[tuple]]:
    """Means (x, y) over as many neighbours as needed, and (x, lowest, highest) of those; what is not finite is left out."""
    points = [point for point in points if math.isfinite(point[1])]
    size = max(1, math.ceil(len(points) / most))
    means, bands = [], []
    for i in range(0, len(points), size):
        group = points[i : i + size]
        x = sum(px for px, _ in group) / len(group)
        values = [value for _, value in group]
        means.append((x, sum(values) / len(values)))
        bands.append((x, min(values), max(values)))
    return means, bands if size > 1 else []


def shares(spans: Sequence[Span], begin: float, end: float, columns: int,
           kind: Callable = lambda span: span.what) -> dict[str, list[float]]:
    """For each kind of span which part of each of so many columns of time it takes, 0 to 1."""
    found: dict[str, list[float]] = {}
    width = (end - begin) / columns
    for span in spans:
        start, until = max(0.0, (span.begin - begin) / width), min((span.end - begin) / width, columns)
        row = found.setdefault(kind(span), [0.0] * columns)
        first, last = min(int(start), columns - 1), min(int(until), columns - 1)
        if first == last:
            row[first] += until - start
            continue
        row[first] += first + 1 - start
        for column in range(first + 1, last):
            row[column] = 1.0
        row[last] += until - last
    return found


def wide(words: str, size: float = SMALL) -> float:
    """The width of a text in pixels, about: the page's font is not known here, so this is a wide one's (DejaVu Sans)."""
    return size * sum(NARROW_LETTERS.get(letter) or (1.0 if unicodedata.east_asian_width(letter) in "WF" else
                                                     0.72 if letter.isupper() else 0.62) for letter in words)


def ink(colour: str) -> str:
    """A colour as matplotlib takes it."""
    return STAND_IN if colour == INK else colour


class Boxes:
    """Texts of one pair of axes, in pixels from its lower left corner; one that would cover another one is left out."""

    def __init__(self, axes):
        self.axes = axes
        self.taken: list[tuple[float, float, float, float]] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Pixels of a point of the data."""
        px, py = self.axes.transData.transform((x, y))
        return float(px - self.axes.bbox.x0), float(py - self.axes.bbox.y0)

    def fits(self, place: tuple[float, float], words: str, align: str = "center", size: float = SMALL) -> bool:
        across = wide(words, size)
        left = place[0] - {"left": 0.0, "center": across / 2, "right": across}[align]
        box = (left, left + across, place[1] - 2, place[1] + size - 2)
        return all(box[1] <= other[0] or other[1] <= box[0] or box[3] <= other[2] or other[3] <= box[2] for other in self.taken)

    def say(self, place: tuple[float, float], words: str, align: str = "center", bold: bool = False, colour: str = INK,
            opacity: float = 1.0, size: float = SMALL) -> bool:
        """Write at this place where it is free; whether it was."""
        if not words or not all(map(math.isfinite, place)) or not self.fits(place, words, align, size):
            return False
        across = wide(words, size)
        left = place[0] - {"left": 0.0, "center": across / 2, "right": across}[align]
        self.taken.append((left, left + across, place[1] - 2, place[1] + size - 2))
        write(self.axes, place, words, align, bold, colour, opacity, size)
        return True


def write(axes, place: tuple[float, float], words: str, align: str = "center", bold: bool = False, colour: str = INK,
          opacity: float = 1.0, size: float = SMALL) -> None:
    """Words at these pixels from the lower left corner of the axes."""
    from .svg_renderer import Words

    axes.add_artist(Words(place, words, size, align, bold, colour, opacity))


def stroke(axes, xs, ys, colour: str, width: float = 1.0, alpha: float = 1.0, dash: Sequence[float] = (), tip: str = "",
           clip: bool = True, of_axes: bool = False) -> None:
    """A line through these points; ``dash``: pixels. ``of_axes``: the points are pixels from the corner of the axes."""
    from matplotlib.lines import Line2D

    if of_axes:
        xs, ys = [x / axes.bbox.width for x in xs], [y / axes.bbox.height for y in ys]
    style = (0, tuple(part / width for part in dash)) if dash else "-"
    made = Line2D(xs, ys, linewidth=width, color=ink(colour), alpha=alpha, linestyle=style, marker="", solid_capstyle="round",
                  solid_joinstyle="round", dash_capstyle="butt", drawstyle="default", gid=tip or None)
    if of_axes:
        made.set_transform(axes.transAxes)
    axes.add_line(made)
    if not clip:
        made.set_clip_on(False)


def box(axes, x: float, y: float, wide_: float, tall: float, colour: str, alpha: float = 1.0, tip: str = "") -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x, y), wide_, tall, facecolor=ink(colour), edgecolor="none", linewidth=0, alpha=alpha, hatch=None,
                             gid=tip or None))


def headed(axes, title: str, y: str, aside: str = "", lift: float = 0.0) -> None:
    high = axes.bbox.height + lift
    left = -min(44.0, axes.bbox.x0) if y else 0.0
    boxes = Boxes(axes)
    if title:
        boxes.say((left, high + (32 if y else 10)), title, "left", True, size=PLAIN)
        if aside:
            boxes.say((left + 1.1 * wide(title, PLAIN) + 16, high + 10), aside, "left", opacity=0.75)
    if y:
        boxes.say((left, high + 12), y, "left", not title, size=PLAIN if not title else SMALL, opacity=1 if not title else 0.85)


def scaled(axes, series, marks, rules, log: str, x_range, y_range) -> None:
    """Scales and limits: those asked for, else what is there."""
    points = [point for line in series for point in line.points]
    points += [(x, y) for line in series for x, *ys in line.band for y in ys]
    points += [(mark.x, mark.y) for mark in marks]
    points += [(rule.x, rule.y) for rule in rules]
    for which, asked, at, scale, limit in (("x", x_range, 0, axes.set_xscale, axes.set_xlim),
                                           ("y", y_range, 1, axes.set_yscale, axes.set_ylim)):
        logarithmic = which in log
        values = [point[at] for point in points if point[at] is not None and math.isfinite(point[at])
                  and (point[at] > 0 or not logarithmic)]
        low, high = (min(values), max(values)) if values else (1.0, 10.0) if logarithmic else (0.0, 1.0)
        if logarithmic:
            scale("log")
            low, high = low / 1.6, high * 1.6
        else:
            low, high = min(0.0, low), high + 0.06 * (high - min(0.0, low))
        low, high = asked or (low, high)
        limit(low, high if high > low else low + max(1.0, abs(low)))


def ticks(low: float, high: float, most: int, log: bool, whole: bool = False) -> list[float]:
    """Round numbers from low to high, about so many; ``whole``: no fractions."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if log:
        decades = math.log10(high / low)
        subs = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)
        found = LogLocator(10, subs=subs, numticks=max(2, most)).tick_values(low, high)
    else:
        found = MaxNLocator(max(1, most), steps=[1, 2, 5, 10], integer=whole).tick_values(low, high)
    edge = 1e-9 * (high - low)
    return [float(round(value, 12)) if not log else float(value) for value in found if low - edge <= value <= high + edge]


def ticks_y(axes, say: Callable) -> None:
    """Ticks to the left, with faint lines across."""
    boxes = Boxes(axes)
    low, high = axes.get_ylim()
    log = axes.get_yscale() == "log"
    values = ticks(low, high, max(2, round(axes.bbox.height / 40)), log)
    for value in values:
        stroke(axes, axes.get_xlim(), (value, value), INK, alpha=0.3 if value == low else 0.13)
        write(axes, (-8, boxes.at(axes.get_xlim()[0], value)[1] - 4), say(value), "right", opacity=0.8)


def ticks_x(axes, title: str, values: Sequence[float] | None, say: Callable, whole: bool = False) -> None:
    """Ticks below, as many as do not cover each other, and the title of the axis."""
    low, high = axes.get_xlim()
    log = axes.get_xscale() == "log"
    values = ticks(low, high, max(2, min(9, round(axes.bbox.width / 70))), log, whole) if values is None else values
    boxes, last = Boxes(axes), -math.inf
    for value in sorted(set(values)):
        if not low <= value <= high:
            continue
        px, half = boxes.at(value, axes.get_ylim()[0])[0], wide(say(value)) / 2
        if px - half >= last + 6:
            last = px + half
            stroke(axes, (px, px), (0, -4), INK, alpha=0.4, clip=False, of_axes=True)
            write(axes, (px, -17), say(value), opacity=0.8)
    stroke(axes, (0, axes.bbox.width), (0, 0), INK, alpha=0.4, clip=False, of_axes=True)
    if title:
        boxes.say((axes.bbox.width / 2, -36), title, opacity=0.8)


def line_of(axes, line: Line, dash: tuple[float, ...]) -> None:
    points = [(x, y if math.isfinite(x) and math.isfinite(y) else math.nan) for x, y in line.points]
    if not points:
        return
    if line.width:
        stroke(axes, *zip(*points), line.colour, line.width, line.opacity, dash)
        for at, (x, y) in enumerate(points):  # one that is alone between gaps would not be seen
            around = points[max(0, at - 1) : at] + points[at + 1 : at + 2]
            if math.isfinite(y) and not any(math.isfinite(other) for _, other in around):
                dot(axes, x, y, "o", line.colour, 2 * line.width + 2)


def markers_of(axes, boxes: Boxes, series: Sequence[Line]) -> None:
    """A marker that others will lie on is larger, so that its rim is seen."""
    low, high = axes.get_ylim()
    marked = [line for line in series if line.marker]
    placed = [[boxes.at(*point) for point in line.points] for line in marked]
    for which, line in enumerate(marked):
        later = [point for others in placed[which + 1 :] for point in others]
        for at, (x, y) in enumerate(line.points):
            if math.isfinite(x) and math.isfinite(y) and low <= y <= high * (1 + 1e-9):
                hidden = sum(near([placed[which][at]], [other]) for other in later)
                size = line.size + min(5 * hidden, 20)
                dot(axes, x, y, line.marker, line.colour, size, line.tips[at] if at < len(line.tips) else "", line.opacity)


def dot(axes, x: float, y: float, marker: str, colour: str, size: float, tip: str = "", opacity: float = 1.0) -> None:
    from matplotlib.lines import Line2D

    axes.add_line(Line2D([x], [y], marker=marker, markersize=size, markeredgewidth=3 if marker == "x" else 0, color=ink(colour),
                         markerfacecolor=ink(colour), markeredgecolor=ink(colour), fillstyle="full", linestyle="none",
                         alpha=opacity, clip_on=False, gid=tip or None))
    axes.lines[-1].set_clip_on(False)


def swatch(line: Line) -> str:
    """How a line looks, as the background of a small box."""
    if not line.width:
        faint = f"{line.colour}{round(255 * line.opacity):02x}" if line.opacity < 1 else line.colour
        return f"radial-gradient(circle, {line.colour} 4px, transparent 5px)" if line.marker else faint
    if line.dash:
        return f"repeating-linear-gradient(90deg, {line.colour} 0 4px, transparent 4px 7px) center / 100% 3px no-repeat"
    return line.colour


def rule_of(axes, boxes: Boxes, rule: Rule) -> None:
    if rule.y is not None:
        stroke(axes, axes.get_xlim(), (rule.y, rule.y), rule.colour, 2, dash=(7, 5))
        boxes.say((6, boxes.at(axes.get_xlim()[0], rule.y)[1] + 6), rule.words, "left", True)
    elif rule.x is not None:
        stroke(axes, (rule.x, rule.x), axes.get_ylim(), rule.colour, 2, dash=(7, 5))
        boxes.say((boxes.at(rule.x, axes.get_ylim()[0])[0] + 6, axes.bbox.height - 12), rule.words, "left", True)


def marks_of(axes, boxes: Boxes, marks: Sequence[Mark]) -> None:
    """The words of marks stay inside of the axes: where there is no room on one side, they go to the other."""
    for mark in marks:
        if not (math.isfinite(mark.x) and math.isfinite(mark.y)):
            continue
        if mark.marker:
            dot(axes, mark.x, mark.y, mark.marker, mark.colour or INK, 10 if mark.marker == "x" else 9, mark.tip)
    for mark in marks:
        if not mark.words or not (math.isfinite(mark.x) and math.isfinite(mark.y)):
            continue
        px, py = boxes.at(mark.x, mark.y)
        long = wide(mark.words)
        align = mark.align
        if align == "left" and px + 10 + long > axes.bbox.width + 8:
            align = "right"
        elif align == "right" and px - 10 - long < 0:
            align = "left"
        elif align == "center" and px + long / 2 > axes.bbox.width + 8:
            align, px = "right", axes.bbox.width + 18
        elif align == "center" and px - long / 2 < -8:
            align, px = "left", -18
        up = -20 if mark.below else 10
        beside = px + (10 if align == "left" else -10)
        places = [(px, py + up)] if align == "center" else [(beside, py + shift) for shift in (-4, 8, -16)]
        any(boxes.say(place, mark.words, align, True) for place in places)


def overlaid(axes, series: Sequence[Line]) -> list[tuple[float, ...]]:
    """The dashes of lines that lie on each other: each leaves gaps through which those below it are seen."""
    boxes = Boxes(axes)
    placed = [[boxes.at(x, y) for x, y in line.points if line.width and math.isfinite(x) and math.isfinite(y)] for line in series]
    dashes = [line.dash for line in series]
    groups: list[list[int]] = []
    for which, line in enumerate(placed):
        like = (group for group in groups if len(line) > 1 and near(line, placed[group[0]]))
        if group := next(like, None):
            group.append(which)
        else:
            groups.append([which])
    for group in groups:
        for place, which in enumerate(group[1:], 1):
            dashes[which] = (10.0 * (len(group) - place), 10.0 * place)
    return dashes


def near(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    """Whether lines lie on each other as far as both go, in pixels."""
    return bool(one and other) and all(abs(x - x2) < 1 and abs(y - y2) < 1 for (x, y), (x2, y2) in zip(one, other))


def peaks(points: Sequence[tuple[float, float]], top: float) -> list[tuple[float, float]]:
    """The highest point of each stretch of a line that is above the top of its axis."""
    found: list[tuple[float, float]] = []
    inside = True
    for point in points:
        if point[1] > top and (inside or point[1] > found[-1][1]):
            found[len(found) if inside else -1 :] = [point]
        inside = not point[1] > top
    return found


def above_axis(axes, boxes: Boxes, line: Line, say: Callable) -> None:
    """An arrow at the top of the axis for what lies above it, with the value where there is room for it."""
    top = axes.get_ylim()[1]
    finite = [point for point in line.points if math.isfinite(point[1])]
    high = [point for point in finite if point[1] > top * (1 + 1e-9)] if not line.width else peaks(finite, top * (1 + 1e-9))
    for x, y in high:
        px, py = boxes.at(x, top)
        dot(axes, x, top, "^", line.colour, 9, f"{line.tip or f'{line.name}:'} {say(y)}")
        words = say(y)
        right = px + 8 + wide(words) < axes.bbox.width
        boxes.say((px + 8 if right else px - 8, py + 1), words, "left" if right else "right", True)


def spans_of(axes, boxes: Boxes, spans, y, high, begin, end, second, picked) -> None:
    scale = axes.bbox.width / (end - begin)
    for span in spans:
        x0, x1 = max(span.begin, begin), min(span.end, end)
        if not x1 > x0:
            continue
        long = max(x1 - x0, 0.5 / scale)
        colour = span.colour or picked.get(span.what) or GREY
        tip = span.tip or f"{span.what}: {number((span.end - span.begin) / second)} {clock(end - begin)[0]}".lstrip(": ")
        box(axes, (x0 - begin) / second, y, long / second, high, colour, FAINT if span.faint else 1.0, tip)
        if span.words and long * scale > 1.06 * wide(span.words) + 4:
            boxes.say(((x0 + x1 - 2 * begin) / 2 * scale, axes.bbox.height - y - high / 2 - 4), span.words, bold=True,
                      colour=INK if span.faint or colour == INK else on(colour))


def columns_of(axes, boxes: Boxes, spans, y, high, begin, end, second, picked) -> None:
    """Many spans: how much of each column of two pixels each kind takes, one kind upon the other."""
    columns = max(10, round(axes.bbox.width / 2))
    edges = [column * (end - begin) / columns / second for column in range(columns + 1)]
    low = [0.0] * columns
    found = shares(spans, begin, end, columns, lambda span: (span.what, span.colour or picked.get(span.what) or GREY, span.faint))
    for (what, colour, faint), taken in found.items():
        upper = [min(1.0, round(a + b, 4)) for a, b in zip(low, taken)]
        below, above = ([y + high * (1 - part) for part in (*row, row[-1])] for row in (low, upper))
        axes.fill_between(edges, below, above, step="post", color=ink(colour), alpha=FAINT if faint else 1, linewidth=0,
                          gid=what or None)
        low = upper


def labels_of(boxes: Boxes, lane: Lane, y: float, scale: float, begin: float) -> None:
    """Words above stretches of a lane: as much as fits, the longest stretch first, for it is looked for."""
    for first, last, said in sorted(lane.labels, key=lambda label: label[0] - label[1]):
        choices = [said] if isinstance(said, str) else list(said)
        long, x = (last - first) * scale, (first - begin) * scale + 3
        words = next((choice for choice in choices if wide(choice) + 6 <= long), choices[-1])
        if long > 14 and x + wide(words) <= boxes.axes.bbox.width + 28:
            boxes.say((x, y), words, "left", opacity=0.8)


def bracket_of(axes, boxes: Boxes, bracket: Bracket, begin: float, second: float) -> None:
    x0, x1 = (boxes.at((moment - begin) / second, 0)[0] for moment in (bracket.begin, bracket.end))
    x1 = max(x1, x0 + 2)
    top = axes.bbox.height
    xs, ys = [x0, x0, x1, x1], [top + 4, top + 10, top + 10, top + 4]
    pieces = [(xs, ys)]
    if bracket.split is not None:
        middle = boxes.at((bracket.split - begin) / second, 0)[0]
        if middle - x0 > 4 and x1 - middle > 4:
            pieces.append(([middle, middle], [top + 4, top + 10]))
    for xs, ys in pieces:
        stroke(axes, xs, ys, INK, 1.5, 0.6, clip=False, of_axes=True)
    at_end = x1 + 8 + wide(bracket.words) > axes.bbox.width
    place = (x1 - 6, top + 14) if at_end else (x1 + 8, top + 6)
    boxes.say(place, bracket.words, "right" if at_end else "left", opacity=0.85)


def part_of(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5
