"""Drawing: SVG by hand, so that a figure is sharp on a projector, takes the text colour of the page that it stands in, and needs
neither JavaScript nor matplotlib. Lengths are pixels at full width; a narrower page scales the figure down.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from .charts import legend
from .palette import (
    BAD,
    BLUE,
    CARE,
    COLLECTIVE,
    GOOD,
    GREEN,
    GREY,
    LAUNCH,
    MEMORY,
    NAMES,
    ORANGE,
    PHASE,
    PINK,
    POWER,
    RUNS,
    SKY,
    SPEED,
    SYNC,
    VERMILLION,
    on,
)

__all__ = ["BAD", "BLUE", "CARE", "COLLECTIVE", "GOOD", "GREEN", "GREY", "LAUNCH", "MEMORY", "NAMES", "ORANGE", "PHASE", "PINK",
           "POWER", "RUNS", "SKY", "SPEED", "SYNC", "VERMILLION", "Panel", "Svg", "legend", "nice_top", "on", "short",
           "ticks"]

SMALL, PLAIN = 12, 13
NARROW = 640  # pixels: a wide figure that were drawn narrower could not be read, so it is scrolled


class Svg:
    """A figure of ``width`` x ``height``; ``label`` is what a screen reader says."""

    def __init__(self, width: float, height: float, label: str):
        self.width, self.height, self.label = width, height, label
        self.parts: list[str] = []

    def add(self, part: str) -> None:
        self.parts.append(part)

    def rect(self, x, y, w, h, fill, tip: str = "", opacity: float = 1, radius: float = 0, stroke: str = "") -> None:
        edge = f' stroke="{stroke}"' if stroke else ""
        faint = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
        round_ = f' rx="{radius:g}"' if radius else ""
        place = f'x="{x:.2f}" y="{y:.2f}" width="{max(w, 0):.2f}" height="{max(h, 0):.2f}"'
        shape = f'<rect {place} fill="{fill}"{faint}{round_}{edge}'
        self.add(f"{shape}><title>{html.escape(tip)}</title></rect>" if tip else f"{shape}/>")

    def line(self, x1, y1, x2, y2, stroke="currentColor", width=1.0, opacity=1.0, dash="") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.add(f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{stroke}" stroke-width="{width:g}" '
                 f'stroke-opacity="{opacity:g}"{dashed}/>')

    def path(self, d: str, stroke="none", fill="none", width=2.0, opacity=1.0, dash="", cap="round", tip="") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        shape = (f'<path d="{d}" fill="{fill}" stroke="{stroke}" stroke-width="{width:g}" opacity="{opacity:g}" '
                 f'stroke-linecap="{cap}" stroke-linejoin="round"{dashed}')
        self.add(f"{shape}><title>{html.escape(tip)}</title></path>" if tip else f"{shape}/>")

    def polyline(self, points: Sequence[tuple[float, float]], stroke: str, width=2.0, dash="", opacity=1.0) -> None:
        """A line through the points; one that is no number breaks it, and one that is alone is a dot."""
        stretches: list[list[tuple[float, float]]] = [[]]
        for x, y in points:
            if math.isfinite(x) and math.isfinite(y):
                stretches[-1].append((x, y))
            elif stretches[-1]:
                stretches.append([])
        d = "".join("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in stretch) for stretch in stretches if len(stretch) > 1)
        if d:
            self.path(d, stroke, width=width, dash=dash, opacity=opacity)
        for stretch in stretches:
            if len(stretch) == 1:
                self.dot(*stretch[0], stroke, width + 1)

    def dot(self, x, y, fill, radius=4.0, tip="") -> None:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}"'
        self.add(f"{shape}><title>{html.escape(tip)}</title></circle>" if tip else f"{shape}/>")

    def cross(self, x, y, stroke, size=6.0, tip="") -> None:
        left, right, up, down = (f"{value:.1f}" for value in (x - size, x + size, y - size, y + size))
        self.path(f"M{left} {up}L{right} {down}M{left} {down}L{right} {up}", stroke, width=3, tip=tip)

    def text(self, x, y, words, size=SMALL, anchor="start", weight=400, opacity=1.0, fill="currentColor", turn=0) -> None:
        """Small words keep the colour of the page's text, which can be read on any page."""
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        bold = f' font-weight="{weight}"' if weight != 400 else ""
        faint = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}"{bold}{faint}{turned}>'
                 f'{html.escape(str(words))}</text>')

    def __str__(self) -> str:
        least = f"min-width: {NARROW}px; " if self.width > NARROW else ""
        drawn = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
                 f'aria-label="{html.escape(self.label, quote=True)}" '
                 f'style="display: block; width: 100%; {least}max-width: {self.width:g}px; height: auto; font-family: inherit">'
                 f'{"".join(self.parts)}</svg>')
        return f'<div style="overflow-x: auto">{drawn}</div>' if least else drawn


class Panel:
    """The area of a chart: from data to pixels, with axes that carry units. ``x`` and ``y`` are (lowest, highest)."""

    def __init__(self, svg: Svg, left: float, top: float, width: float, height: float,
                 x: tuple[float, float], y: tuple[float, float]):
        self.svg, self.left, self.top, self.width, self.height = svg, left, top, width, height
        self.x0, self.x1 = x if x[1] > x[0] else (x[0], x[0] + max(1.0, abs(x[0])))
        self.y0, self.y1 = y if y[1] > y[0] else (y[0], y[0] + max(1.0, abs(y[0])))

    def at(self, x: float, y: float) -> tuple[float, float]:
        return self.px(x), self.py(y)

    def px(self, x: float) -> float:
        return self.left + (x - self.x0) / (self.x1 - self.x0) * self.width

    def py(self, y: float) -> float:
        return self.top + self.height - (y - self.y0) / (self.y1 - self.y0) * self.height

    def axis_y(self, title: str, values: Sequence[float] | None = None, say=None, right: bool = False,
               colour: str = "currentColor") -> None:
        """Ticks to the left (or right) with faint lines across, and the title above them."""
        values = ticks(self.y0, self.y1, max(2, round(self.height / 40))) if values is None else values
        say = say or short
        edge = self.left + self.width + 8 if right else self.left - 8
        for value in values:
            y = self.py(value)
            if not right:
                self.svg.line(self.left, y, self.left + self.width, y, opacity=0.3 if value == self.y0 else 0.13)
            self.svg.text(edge, y + 4, say(value), anchor="start" if right else "end", opacity=0.8, fill=colour)
        x = self.left + self.width + 44 if right else self.left - 44
        self.svg.text(x, self.top - 12, title, size=PLAIN, anchor="end" if right else "start", weight=600, fill=colour)

    def axis_x(self, title: str, values: Sequence[float] | None = None, say=None) -> None:
        values = ticks(self.x0, self.x1, 9) if values is None else values
        say = say or short
        bottom = self.top + self.height
        self.svg.line(self.left, bottom, self.left + self.width, bottom, opacity=0.4)
        last = -math.inf
        for value in values:
            x = self.px(value)
            words = say(value)
            half = len(words) * 3.4
            if x - half < last + 6:
                continue
            last = x + half
            self.svg.line(x, bottom, x, bottom + 4, opacity=0.4)
            middle = min(x, self.svg.width - half)  # the last one stays inside of the figure
            self.svg.text(middle, bottom + 17, words, anchor="middle", opacity=0.8)
        if title:
            self.svg.text(self.left + self.width / 2, bottom + 35, title, size=SMALL, anchor="middle", opacity=0.8)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, about ``most`` of them: steps of 1, 2 or 5 times a power of ten."""
    step = nice_step((high - low) / most)
    first = math.ceil(low / step - 1e-9)
    return [round(step * i, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def nice_step(least: float) -> float:
    if not least > 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)


def nice_top(value: float, most: int = 5) -> float:
    """A round number from this one up, for the end of an axis."""
    if not value > 0:
        return 1.0
    step = nice_step(value / most)
    return step * math.ceil(value / step - 1e-9)


def short(value: float) -> str:
    """A tick: ``0.25``, ``20``, ``1,500``, ``1e+07``."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:g}"
