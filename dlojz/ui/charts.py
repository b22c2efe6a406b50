"""Charts: a few forms, drawn with matplotlib's `Figure`, in one style that reads on light and on dark pages.

    charts.lines([Line("amp", [(1, 2.3), (2, 1.9)])], x="step", y="loss")          curves, with bands, markers, log axes
    charts.bars([("fp32", 979), ("bf16", 2199)], unit="images/s", baseline="fp32")  one number of each, against a baseline
    charts.stacked([("AdamW", {"parameters": 0.1, "optimizer": 0.2})], unit="GB")  what each is made of
    charts.timeline([Lane("GPU", [Span(0.0, 0.5, "forward")])])                    spans on a time axis, in seconds
    charts.scatter([Point("conv", 20.0, 3.0)], x="batch", y="ms")                  single points
    charts.roofline([Point("conv", 60.0, 2e14)], peaks=..., bandwidths=...)        FLOP/s against FLOP per byte
    charts.cells([[0, 1], [1, 0]], rows=["rank 0", "rank 1"])                      a matrix of numbers
    charts.grid(chart, chart, columns=2)                                           small multiples

Every form returns a `Chart`: `html()` for a page (a notebook shows it), `svg()` the bare picture, `text()` the same numbers.
Matplotlib is imported when a chart is drawn, not before. Figures hold no state in common and are drawn under a lock, because
callbacks of widgets run in threads; pyplot and global settings of matplotlib are not used.
"""

from __future__ import annotations

import html
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..system.shown import shown
from . import palette
from .axes import (
    FAINT,
    SMALL,
    Bar,
    Boxes,
    Bracket,
    Lane,
    Line,
    Mark,
    Point,
    Rule,
    Span,
    above_axis,
    box,
    bracket_of,
    clock,
    columns_of,
    cut,
    headed,
    ink,
    labels_of,
    line_of,
    markers_of,
    marks_of,
    number,
    overlaid,
    part_of,
    rule_of,
    scaled,
    short,
    spans_of,
    stroke,
    swatch,
    thinned,
    ticks_x,
    ticks_y,
    wide,
)
from .palette import BAD, COLOURS, INK, RUNS, SPEED

__all__ = ["Bar", "Bracket", "Chart", "Lane", "Line", "Mark", "Point", "Rule", "Span", "bars", "cells", "clock", "grid", "legend",
           "lines", "number", "roofline", "scatter", "short", "si", "stacked", "thinned", "timeline"]

WIDTH, NARROW = 900, 640  # pixels: a chart at its full width, and the least that a wide one is shrunk to before it is scrolled
EACH = 500  # spans of a lane that are drawn one by one
_LOCK = threading.RLock()


# --- what forms return ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """One pair of axes: its height, the room around it (left, right, above, below) in pixels, and how to draw it."""

    height: float
    room: tuple[float, float, float, float]
    draw: Callable

    @property
    def tall(self) -> float:
        return self.height + self.room[2] + self.room[3]


@dataclass(frozen=True)
class Chart:
    """A drawn figure and its text twin. ``print`` gives the text, a notebook shows the picture."""

    label: str
    rows: Sequence[Sequence[Panel]]
    words: str
    names: Sequence[tuple[str, ...]] = ()  # of the legend: (name, colour), or (name, colour, "x") for crosses
    width: float = WIDTH
    notes: Sequence[str] = ()

    def svg(self) -> str:
        """The picture as one ``<svg>`` element, as wide as its place, without ids: any number of them fit on a page."""
        talls = [max(panel.tall for panel in row) for row in self.rows]
        tall = sum(talls)
        with _LOCK:
            from matplotlib.figure import Figure

            from .svg_renderer import SVGRenderer

            figure = Figure(figsize=(self.width / 72, tall / 72), dpi=72)
            figure.patch.set_visible(False)
            top = 0.0
            for row, high in zip(self.rows, talls):
                across = self.width / len(row)
                for column, panel in enumerate(row):
                    left, right, above, _ = panel.room
                    x, y, wide = column * across + left, top + above, max(1.0, across - left - right)
                    box = (x / self.width, 1 - (y + panel.height) / tall, wide / self.width, panel.height / tall)
                    axes = figure.add_axes(box)
                    axes.set_axis_off()
                    panel.draw(axes)
                top += high
            renderer = SVGRenderer(self.width, tall)
            figure.draw(renderer)
        least = f"min-width: {NARROW}px; " if self.width > NARROW else ""
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {tall:g}" role="img" '
                f'aria-label="{html.escape(self.label, quote=True)}" style="display: block; width: 100%; {least}max-width: '
                f'{self.width:g}px; height: auto; font-family: inherit">{"".join(renderer.parts)}</svg>')

    def html(self) -> str:
        """The picture with its legend, for a page."""
        notes = "".join(f'<div style="opacity: .72; font-size: 13px">{html.escape(note)}</div>' for note in self.notes)
        drawn = self.svg()
        drawn = f'<div style="overflow-x: auto">{drawn}</div>' if self.width > NARROW else drawn
        return shown(drawn + (legend(self.names) if self.names else "") + notes)

    def text(self) -> str:
        """The same numbers, for a terminal."""
        return shown("\n".join(filter(None, (self.words, *self.notes))))

    _repr_html_ = html
    __repr__ = text


def legend(names: Iterable[tuple[str, ...]]) -> str:
    """Names beside patches of colour, or beside the sign that a chart has at its points, as HTML that wraps."""
    out = []
    for name, colour, *marker in names:
        patch = f'<span style="display: inline-block; width: 11px; height: 11px; background: {colour}; margin-right: 5px"></span>'
        if marker == ["x"]:
            patch = f'<span style="color: {colour}; font-weight: bold; margin-right: 5px">&#215;</span>'
        style = "display: inline-block; max-width: 100%; overflow-wrap: anywhere; margin-right: 12px"
        out.append(f'<span style="{style}">{patch}{html.escape(name)}</span>')
    return f'<div style="font-size: 12px; margin: 4px 0">{"".join(out)}</div>'


def grid(*charts: Chart, columns: int = 2, width: float = WIDTH) -> Chart:
    """Small multiples: these charts side by side in one picture, with one legend. A row that is not full is wider."""
    names = dict.fromkeys(name for chart in charts for name in chart.names)
    panels = [panel for chart in charts for row in chart.rows for panel in row]
    return Chart(", ".join(dict.fromkeys(chart.label for chart in charts)),
                 [panels[at : at + columns] for at in range(0, len(panels), columns)],
                 "\n\n".join(chart.text() for chart in charts), list(names), width)


# --- forms ---------------------------------------------------------------------------------------------------------------


def lines(series: Sequence[Line], *, x: str = "", y: str = "", title: str = "", log: str = "", x_range=None, y_range=None,
          x_ticks: Sequence[float] | None = None, whole: bool = False, say_x: Callable = short, say_y: Callable = short,
          say: Callable = number, marks: Sequence[Mark] = (), rules: Sequence[Rule] = (), height: float = 230,
          width: float = WIDTH, legend: bool = True, empty: str = "not recorded") -> Chart:
    """Lines against two axes.

    ``log``: ``"x"``, ``"y"`` or ``"xy"``. ``x_range``, ``y_range``: (lowest, highest); left out, what is there, from 0 where the
    axis is not logarithmic. ``whole``: x has no fractions. ``say_x``, ``say_y``: a tick in words; ``say``: a value. A point above
    the range is an arrow at the edge, with its value where it fits. Lines that lie on each other are dashed, so that all show.
    """
    series = [replace(line, colour=line.colour or RUNS[at % len(RUNS)]) for at, line in enumerate(series)]
    names = [(line.name, swatch(line), *line.marker.replace("o", "")) for line in series if line.shown and line.name]
    room = (58, 14, 26 + 20 * bool(title and y), 46 if x else 26)

    def draw(axes) -> None:
        scaled(axes, series, marks, rules, log, x_range, y_range)
        boxes = Boxes(axes)
        there = marks or any(line.points or line.band for line in series)
        if there:
            ticks_y(axes, say_y)
        ticks_x(axes, x, x_ticks, say_x, whole)
        headed(axes, title, y)
        if not there:
            boxes.say((axes.bbox.width / 2, axes.bbox.height / 2), empty, opacity=0.7)
        for rule in rules:
            rule_of(axes, boxes, rule)
        for line in series:
            if line.band:
                xs, low, high = zip(*line.band)
                axes.fill_between(xs, low, high, color=ink(line.colour), alpha=line.opacity * (0.16 if line.width else 1),
                                  linewidth=0)
        dashes = overlaid(axes, series)
        for line, dash in zip(series, dashes):
            line_of(axes, line, dash)
        markers_of(axes, boxes, series)
        for line in series:
            above_axis(axes, boxes, line, say)
        marks_of(axes, boxes, marks)

    text = _said_lines(title or y, series, x, y, say_x, say, rules)
    return Chart(title or f"{y} against {x}", [[Panel(height, room, draw)]], text, names if legend else (), width)


def scatter(points: Sequence[Point], *, x: str = "", y: str = "", title: str = "", log: str = "", named: bool = True,
            line: Sequence[Line] = (), **more) -> Chart:
    """Points with their names beside them (``named``), and lines where some are given. ``more``: as `lines` has it."""
    marks = [Mark(point.x, point.y, point.name if named else "", point.colour or SPEED, "o", "left", point.tip or point.name)
             for point in points]
    chart = lines(line, x=x, y=y, title=title, log=log, marks=marks, empty="", **more)
    head = ["", x or "x", y or "y"]
    say_x, say_y = more.get("say_x", number), more.get("say_y", number)
    cells = [[point.name, say_x(point.x), say_y(point.y)] for point in points]
    said = [title or y, _table(head, cells)] + ([chart.words] if line else [])
    return replace(chart, words="\n".join(filter(None, said)))


def roofline(points: Sequence[Point], *, peaks: Mapping[str, float], bandwidths: Mapping[str, float], title: str = "roofline",
             **more) -> Chart:
    """Points (FLOP per byte, FLOP/s) under the roofs of a machine: the lower of a peak (FLOP/s) and of bandwidth (bytes/s) times
    FLOP per byte (Williams, Waterman and Patterson 2009). ``peaks``, ``bandwidths``: by name.
    """
    highest, fastest = max(peaks.values()), max(bandwidths.values())
    ridge = highest / fastest
    at = [point.x for point in points if point.x > 0] or [ridge]
    low, high = min(*at, ridge) / 4, max(*at, *(peak / min(bandwidths.values()) for peak in peaks.values())) * 4
    roofs = [Line(name, [(peak / fastest, peak), (high, peak)], INK, width=1.5, opacity=0.7, shown=False)
             for name, peak in peaks.items()]
    roofs += [Line(name, [(low, low * speed), (highest / speed, highest)], INK, width=1.5, opacity=0.7, shown=False)
              for name, speed in bandwidths.items()]
    bottom = min([low * min(bandwidths.values()), *(point.y for point in points if point.y > 0)]) / 2
    chart = scatter(points, x="FLOP per byte", y="FLOP/s", title=title, log="xy", line=roofs, x_range=(low, high),
                    y_range=(bottom, highest * 3), say_x=si, say_y=si,
                    **{"height": 300, **more})
    draw = chart.rows[0][0].draw

    def with_names(axes) -> None:
        draw(axes)
        boxes = Boxes(axes)
        for name, peak in peaks.items():
            boxes.say((axes.bbox.width - 4, boxes.at(high, peak)[1] + 5), f"{name} {si(peak)}FLOP/s", "right")
        for name, speed in bandwidths.items():
            middle = math.sqrt(low * highest / speed)
            px, py = boxes.at(middle, middle * speed)
            boxes.say((px + 12, py - 14), f"{name} {si(speed)}B/s", "left")

    roofs_said = [f"{name}: {si(peak)}FLOP/s" for name, peak in peaks.items()]
    roofs_said += [f"{name}: {si(speed)}B/s" for name, speed in bandwidths.items()]
    reached = [f"{point.name}: {point.y / min(highest, point.x * fastest):.0%} of its roof" for point in points if point.x > 0]
    words = "\n".join([title, _table(["", "FLOP per byte", "FLOP/s"], [[p.name, number(p.x), si(p.y)] for p in points]),
                       *roofs_said, *reached])
    return replace(chart, words=words, rows=[[replace(chart.rows[0][0], draw=with_names)]])


def si(value: float) -> str:
    """With a prefix: ``3.35 T``, ``60``, ``0.5``."""
    for power, prefix in ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if abs(value) >= 10.0**power:
            return f"{value / 10.0**power:.3g} {prefix}"
    return f"{value:.3g} "if value >= 1 else f"{value:g} "


def bars(rows: Sequence[Bar | tuple], *, unit: str = "", baseline: str | tuple[str, float] | None = None, title: str = "",
         say: Callable = number, top: float | None = None, vertical: bool = False, log: bool = False, high: float = 26,
         height: float = 200, width: float = WIDTH, left: float | None = None) -> Chart:
    """One bar per row: (name, value) or a `Bar`, with its value behind it, and what that is times the baseline.

    ``baseline``: the name of a row, or (name, value): a dashed line. ``top``: value at the end of the axis, so that charts can be
    compared. ``high``: pixels of a row. ``log``: a logarithmic axis, for sizes over many powers of ten.
    """
    given = [Bar(*row) if not isinstance(row, Bar) else row for row in rows]
    base = next(((bar.name, bar.value) for bar in given if bar.name == baseline), None) if isinstance(baseline, str) else baseline
    if base and not (base[1] and math.isfinite(base[1])):
        base = None
    values = [value for bar in given for value in (bar.value, bar.high) if value is not None and math.isfinite(value)]
    most = max([*values, *([base[1]] if base else []), top or 0], default=0) or 1.0
    least = min([value for value in values if value > 0], default=1.0) / 3 if log else 0.0

    def said(bar: Bar) -> str:
        times = bar.value / base[1] if base and bar.name != base[0] and bar.value and not bar.note else None
        ratio = "" if times is None else f", {times:.2f}x" if times < 9.995 else f", {times:.1f}x"
        return say(bar.value) + (f" {unit}" if unit and not vertical and bar.value is not None else "") + ratio + \
            (f", {bar.note}" if bar.note else "")

    def draw(axes) -> None:
        boxes = Boxes(axes)
        headed(axes, title, unit if vertical else "")
        scale, limits = (axes.set_yscale, axes.set_ylim) if vertical else (axes.set_xscale, axes.set_xlim)
        if log:
            scale("log")
        limits(least, most * (1.15 if vertical else 1.0))
        if vertical:
            axes.set_xlim(-0.6, len(given) - 0.4)
            ticks_y(axes, short)
            stroke(axes, (0, axes.bbox.width), (0, 0), INK, alpha=0.4, clip=False, of_axes=True)
        else:
            axes.set_ylim(max(1, len(given)) * high, 0)
        for at, bar in enumerate(given):
            value = bar.value if bar.value is not None and math.isfinite(bar.value) else least
            look = bar.colour or SPEED, FAINT if bar.faint else 1.0, bar.tip or f"{bar.name}: {said(bar)}"
            spread = bar.low is not None and bar.high is not None
            if vertical:
                box(axes, at - 0.31, least, 0.62, value - least, *look)
                px, py = boxes.at(at, bar.high if spread else value)
                if base and -4 < boxes.at(at, base[1])[1] - py < 20:  # the line of the baseline would go through the value
                    py = boxes.at(at, base[1])[1]
                boxes.say((px, py + 6), said(bar), bold=True)
                boxes.say((px, -18), cut(bar.name, axes.bbox.width / len(given)), opacity=0.85)
                if spread:
                    stroke(axes, (at, at), (bar.low, bar.high), INK, 2)
            else:
                middle = (at + 0.5) * high
                box(axes, least, middle - 0.33 * high, value - least, 0.66 * high, *look)
                py = axes.bbox.height - middle - 4
                boxes.say((boxes.at(bar.high if spread else value, 0)[0] + 7, py), cut(said(bar), behind), "left", True)
                boxes.say((-10, py), cut(bar.name, room - 12), "right")
                if spread:
                    stroke(axes, (bar.low, bar.high), (middle, middle), INK, 2)
        if base and vertical:
            rule_of(axes, boxes, Rule(base[1], f"{base[0]} {say(base[1])}" if baseline is not base[0] else "", INK))
        elif base:
            stroke(axes, [base[1]] * 2, [0, len(given) * high], INK, 1.5, 0.8, (6, 4), f"{base[0]}: {say(base[1])}")

    room = left if left is not None else 14 + min(0.29 * width, max((wide(bar.name) for bar in given), default=0))
    behind = min(0.4 * width, 16 + 1.06 * max((wide(said(bar)) for bar in given), default=0))
    around = (48, 14, 26, 30) if vertical else (room, behind, 24 if title else 2, 4)
    panel = Panel(height if vertical else max(1, len(given)) * high, around, draw)
    cells = [[bar.name, said(bar), *([f"{say(bar.low)} to {say(bar.high)}" if bar.low is not None else ""]
                                     if any(bar.low is not None for bar in given) else [])] for bar in given]
    if base and all(bar.name != base[0] for bar in given):
        cells.append([f"({base[0]})", say(base[1]) + f" {unit}".rstrip()])
    twin = "\n".join(filter(None, (title, "\n".join("  " + line for line in _columns(cells)))))
    return Chart(title or unit, [[panel]], twin, (), width)


def stacked(rows: Sequence[tuple[str, Mapping[str, float] | Sequence[tuple[str, float]]]], *, unit: str = "", title: str = "",
            colours: Mapping[str, str] | None = None, say: Callable = number, inside: str = "", total: bool = True,
            limit: tuple[str, float] | None = None, axis: str = "", faint: Sequence[str] = (), high: float = 34, top: float = 0.0,
            width: float = WIDTH, legend: bool = True) -> Chart:
    """A bar per row, made of parts: (name, {part: value}).

    ``colours``: of the parts, left out: those of the palette. ``inside``: ``"share"`` or ``"value"`` is written into parts that
    are long enough. ``total``: the sum behind each bar. ``limit``: (name, value), a dashed line such as the memory of a card.
    ``axis``: the title of an axis below. ``top``: the end of the bars' room, drawn faintly. ``faint``: parts drawn paler. One row
    makes a bar of shares.
    """
    given = [(name, [(part, max(0.0, value)) for part, value in dict(parts).items() if math.isfinite(value)])
             for name, parts in rows]
    sums = [sum(value for _, value in parts) for _, parts in given]
    most = max([*sums, limit[1] if limit else 0, top], default=0) or 1.0  # in a bar that goes on to top, the rest is faint
    parts_ = list(dict.fromkeys(part for _, parts in given for part, value in parts if value > 0))
    picked = {part: (colours or {}).get(part) or COLOURS.get(part) or RUNS[at % len(RUNS)] for at, part in enumerate(parts_)}
    unit_ = f" {unit}" if unit else ""

    def draw(axes) -> None:
        boxes = Boxes(axes)
        headed(axes, title, "")
        axes.set_xlim(0, most)
        axes.set_ylim(max(1, len(given)) * high, 0)
        if axis:
            ticks_x(axes, axis, None, short)
        for at, ((name, parts), whole) in enumerate(zip(given, sums)):
            begin, middle = 0.0, (at + 0.5) * high
            py = axes.bbox.height - middle - 4
            thick = high * (0.76 if len(given) > 1 else 0.9)
            if top:
                box(axes, 0, middle - thick / 2, most, thick, INK, 0.1)
            for part, value in parts:
                if not value:
                    continue
                share = f"{value / whole:.0%}" if whole else ""
                tip = f"{name + ', ' if name else ''}{part}: {say(value)}{unit_}, {share}"
                box(axes, begin, middle - thick / 2, value, thick, picked[part], FAINT if part in faint else 1.0, tip)
                words = {"share": share, "value": say(value)}.get(inside, "")
                if words and value / most * axes.bbox.width > 1.06 * wide(words) + 8:
                    colour = INK if part in faint or picked[part] == INK else palette.on(picked[part])
                    boxes.say((boxes.at(begin + value / 2, 0)[0], py), words, bold=True, colour=colour)
                begin += value
            if total and whole:
                boxes.say((boxes.at(whole, 0)[0] + 8, py), cut(say(whole) + unit_, behind), "left", True)
            boxes.say((-10, py), cut(name, left - 12), "right")
        if limit:
            stroke(axes, [limit[1]] * 2, [0, len(given) * high], BAD, 2, dash=(8, 6), clip=False)
            boxes.say((boxes.at(limit[1], 0)[0] - 4, axes.bbox.height + 5), f"{limit[0]}: {say(limit[1])}{unit_}", "right", True)

    left = 6 if axis else 1  # half of the axis' 0 is left of the bar
    if any(name for name, _ in given):
        left = 14 + min(0.29 * width, max(wide(name) for name, _ in given))
    longest = max((wide(say(whole) + unit_) for whole in sums), default=0)
    behind = min(0.4 * width, 14 + 1.06 * longest) if total else 24 if axis else 1
    room = (left, behind, 24 if title or limit else 2, 46 if axis else 4)
    lines_ = [title] if title else []
    for (name, parts), whole in zip(given, sums):
        detail = ", ".join(f"{part} {say(value)}" for part, value in parts if value) if len(parts) > 1 else ""
        lines_.append(f"  {name + ': ' if name else ''}{say(whole)}{unit_}" + (f" ({detail})" if detail else ""))
    lines_ += [f"  {limit[0]}: {say(limit[1])}{unit_}"] if limit else []
    names = [(part, picked[part] + ("73" if part in faint and picked[part] != INK else "")) for part in parts_]
    panel = Panel(max(1, len(given)) * high, room, draw)
    return Chart(title or "parts", [[panel]], "\n".join(lines_), names if legend else (), width)


def timeline(lanes: Sequence[Lane], *, title: str = "", begin: float | None = None, end: float | None = None, aside: str = "",
             brackets: Sequence[Bracket] = (), colours: Mapping[str, str] | None = None, axis: bool = True, gap: float = 6,
             lines: Sequence[float] = (), left: float | None = None, width: float = WIDTH, legend: bool = True) -> Chart:
    """Lanes of spans on one time axis in seconds. A lane of many spans is drawn by how much of each column of pixels they take.

    ``lines``: moments at which a thin line goes through all lanes, such as the ends of steps. ``aside``: words beside the title.
    ``axis``: False leaves out the time axis, where lengths are made up.
    """
    spans = [span for lane in lanes for span in lane.spans if math.isfinite(span.begin) and math.isfinite(span.end)]
    begin = min((span.begin for span in spans), default=0.0) if begin is None else begin
    end = max((span.end for span in spans), default=begin + 1.0) if end is None else end
    end = end if end > begin else begin + 1.0
    unit, second = clock(end - begin)
    order = list(dict.fromkeys(span.what for span in spans if span.what))
    picked = {what: (colours or {}).get(what) or COLOURS.get(what) for what in order}
    for at, what in enumerate(order):
        given = next((span.colour for span in spans if span.what == what and span.colour), None)
        picked[what] = given or picked[what] or RUNS[at % len(RUNS)]
    labelled = [18 if lane.labels else 0 for lane in lanes]
    tall = sum(lane.height + gap + above for lane, above in zip(lanes, labelled))

    def draw(axes) -> None:
        boxes = Boxes(axes)
        headed(axes, title, "", aside, 20.0 * bool(brackets))
        axes.set_xlim(0, (end - begin) / second)
        axes.set_ylim(max(1.0, tall), 0)
        y = 0.0
        if axis:
            ticks_x(axes, "", None, lambda value: f"{short(value)} {unit}")
        for moment in lines:
            x = (moment - begin) / second
            stroke(axes, (x, x), (0, tall), INK, alpha=0.4)
        for lane, above in zip(lanes, labelled):
            y += above
            labels_of(boxes, lane, axes.bbox.height - y + 4, axes.bbox.width / (end - begin), begin)
            box(axes, 0, y, (end - begin) / second, lane.height, INK, 0.06)
            inside = [span for span in lane.spans if span.begin < end and span.end > begin]
            (columns_of if len(inside) > EACH else spans_of)(axes, boxes, inside, y, lane.height, begin, end, second, picked)
            boxes.say((-10, axes.bbox.height - y - lane.height / 2 - 4), cut(lane.name, room - 12, 1.06 * SMALL), "right", True)
            y += lane.height + gap
        for bracket in brackets:
            bracket_of(axes, boxes, bracket, begin, second)

    room = left if left is not None else 16 + min(0.27 * width, 1.06 * max((wide(lane.name) for lane in lanes), default=0))
    above = (24 if title or aside else 10 if brackets else 2) + (20 if brackets else 0)
    said = [title or "timeline"]
    for lane in lanes:
        took: dict[str, float] = {}
        for span in lane.spans:
            took[span.what] = took.get(span.what, 0.0) + max(0.0, min(span.end, end) - max(span.begin, begin))
        parts = ", ".join(f"{what or 'spans'} {number(seconds / second)} {unit}" for what, seconds in took.items() if seconds)
        said.append(f"  {lane.name}: {parts or 'nothing'}")
    names = [(what, picked[what]) for what in order]
    panel = Panel(max(1.0, tall), (room, 30 if axis else 4, above, 26 if axis else 2), draw)
    return Chart(title or "timeline", [[panel]], "\n".join(said), names if legend else (), width)


def cells(values: Sequence[Sequence[float | None]], *, rows: Sequence[str], columns: Sequence[str], title: str = "",
          unit: str = "", say: Callable = number, colour: str = SPEED, low: float | None = None, high: float | None = None,
          tall: float = 30, width: float = WIDTH) -> Chart:
    """A matrix of numbers, each in its cell, the higher the stronger its colour; None is an empty cell."""
    known = [value for row in values for value in row if value is not None and math.isfinite(value)]
    least = min(known, default=0.0) if low is None else low
    most = max(known, default=1.0) if high is None else high

    def draw(axes) -> None:
        boxes = Boxes(axes)
        headed(axes, title, "", lift=20.0)
        axes.set_xlim(0, max(1, len(columns)))
        axes.set_ylim(max(1, len(rows)) * tall, 0)
        across = axes.bbox.width / max(1, len(columns))
        for column, name in enumerate(columns):
            boxes.say(((column + 0.5) * across, axes.bbox.height + 6), cut(name, across), opacity=0.8)
        for at, (name, row) in enumerate(zip(rows, values)):
            py = axes.bbox.height - (at + 0.5) * tall - 4
            boxes.say((-10, py), cut(name, left - 12), "right")
            for column, value in enumerate(row):
                strong = 0.0 if value is None or not math.isfinite(value) else 0.08 + 0.5 * part_of(value, least, most)
                tip = f"{name}, {columns[column]}: {say(value)}{f' {unit}' if unit else ''}"
                box(axes, column + 0.02, (at + 0.04) * tall, 0.96, 0.92 * tall, colour, strong, tip)
                if wide(say(value)) < across:
                    boxes.say(((column + 0.5) * across, py), say(value), bold=True)

    left = 14 + min(0.29 * width, max((wide(name) for name in rows), default=0))
    head = f"{title}, {unit}" if title and unit else title or unit
    twin = "\n".join(filter(None, (head, _table(["", *columns], [[name, *map(say, row)] for name, row in zip(rows, values)]))))
    return Chart(title or "cells", [[Panel(max(1, len(rows)) * tall, (left, 4, 46 if title else 22, 4), draw)]], twin, (), width)


# --- text twins ----------------------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    return "\n".join("  ".join([row[0].ljust(widths[0]), *(cell.rjust(wide) for cell, wide in zip(row[1:], widths[1:]))]).rstrip()
                     for row in [head, *rows])


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows), default=0)
    return ["  ".join([row[0].ljust(first), row[1].ljust(second), *row[2:]]).rstrip() for row in rows]


def _said_lines(title: str, series: Sequence[Line], x: str, y: str, say_x: Callable, say: Callable,
                rules: Sequence[Rule]) -> str:
    """A few places: every value. Many: the ends of each line, its lowest and its highest."""
    shown = [line for line in series if line.shown and line.points]
    places = sorted({px for line in shown for px, _ in line.points})
    if len(places) <= 12:
        at = [dict(line.points) for line in shown]
        cells_ = [[say_x(place), *(say(one[place]) if place in one else "-" for one in at)] for place in places]
        body = _table([x or "x", *(line.name for line in shown)], cells_) if shown else "nothing recorded"
    else:
        cells_ = []
        for line in shown:
            ys = [py for _, py in line.points if math.isfinite(py)]
            ends = [line.points[0][1], line.points[-1][1], min(ys, default=math.nan), max(ys, default=math.nan)]
            cells_.append([line.name, str(len(line.points)), *map(say, ends)])
        body = _table([y or "line", "points", "first", "last", "lowest", "highest"], cells_)
    return "\n".join(filter(None, (title, body, *(f"{rule.words}" for rule in rules if rule.words))))
