"""True diagrams as SVG by hand: arrows, boxes, grids of pixels. What has axes is drawn by `dlojz.ui.charts`.

A figure takes the text colour of its page and needs neither JavaScript nor matplotlib. Lengths are pixels at full width; a
narrower page scales the figure down.
"""

from __future__ import annotations

import html

from ..system.shown import shown

SMALL = 12  # pixels
NARROW = 640  # pixels: a wide figure drawn narrower than this could not be read, so it is scrolled


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

    def path(self, d: str, stroke="none", fill="none", width=2.0, opacity=1.0, dash="", cap="round", tip="") -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        shape = (f'<path d="{d}" fill="{fill}" stroke="{stroke}" stroke-width="{width:g}" opacity="{opacity:g}" '
                 f'stroke-linecap="{cap}" stroke-linejoin="round"{dashed}')
        self.add(f"{shape}><title>{html.escape(tip)}</title></path>" if tip else f"{shape}/>")

    def dot(self, x, y, fill, radius=4.0, tip="") -> None:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}"'
        self.add(f"{shape}><title>{html.escape(tip)}</title></circle>" if tip else f"{shape}/>")

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
        return shown(f'<div style="overflow-x: auto">{drawn}</div>' if least else drawn)
