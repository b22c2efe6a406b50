"""A matplotlib renderer that writes small SVG for a page: text as text, ink in the colour of the page, no ids, no dates.

Matplotlib's own SVG backend takes these choices from global settings (``svg.fonttype``, ``svg.hashsalt``), which another thread
or the user may change. This module imports matplotlib, so it is imported when a chart is drawn.
"""

from __future__ import annotations

import html

from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.path import Path
from matplotlib.transforms import Affine2D, Bbox

from .axes import STAND_IN
from .palette import INK


def _number(value: float) -> str:
    said = f"{value:.1f}".removesuffix(".0")
    return "0" if said == "-0" else said


class SVGRenderer(RendererBase):
    """Collects SVG elements in ``parts``. An artist's gid becomes its ``<title>``, which browsers show under the pointer."""

    def __init__(self, width: float, height: float):
        super().__init__()
        self.width, self.height = width, height
        self.parts: list[str] = []
        self._tips: list[str] = [""]
        self._flip = Affine2D().scale(1, -1).translate(0, height)

    def open_group(self, s, gid=None):
        self._tips.append(gid or "")

    def close_group(self, s):
        self._tips.pop()

    def _add(self, shape: str) -> None:
        name = shape.partition(" ")[0]
        tip = f"><title>{html.escape(self._tips[-1])}</title></{name}>" if self._tips[-1] else "/>"
        self.parts.append(f"<{shape}{tip}")

    def draw_path(self, gc, path, transform, rgbFace=None):
        filled = rgbFace is not None and (len(rgbFace) < 4 or rgbFace[3] > 0 or gc.get_forced_alpha())
        look = self._look(gc, rgbFace if filled else None)
        d = look and self._outline(path, transform, gc.get_clip_rectangle(), filled)
        if d:
            self._add(f'path d="{d}"{look}')

    def draw_markers(self, gc, marker_path, marker_trans, path, trans, rgbFace=None):
        if marker_path.codes is None or Path.CURVE4 not in marker_path.codes:
            super().draw_markers(gc, marker_path, marker_trans, path, trans, rgbFace)
            return
        look, radius = self._look(gc, rgbFace), marker_path.get_extents(marker_trans).width / 2
        box = gc.get_clip_rectangle()
        for x, y in trans.transform(path.vertices):
            if box is None or (box.x0 - 1 <= x <= box.x1 + 1 and box.y0 - 1 <= y <= box.y1 + 1):
                self._add(f'circle cx="{_number(x)}" cy="{_number(self.height - y)}" r="{_number(radius)}"{look}')

    def write(self, x: float, y: float, words: str, size: float, align: str, bold: bool, colour: str, opacity: float) -> None:
        """A line of text at these pixels; the anchor keeps its place whether the page's font is narrower or wider."""
        anchor = {"center": ' text-anchor="middle"', "right": ' text-anchor="end"'}.get(align, "")
        weight = ' font-weight="600"' if bold else ""
        faint = f' fill-opacity="{opacity:.3g}"' if opacity < 1 else ""
        self.parts.append(f'<text x="{_number(x)}" y="{_number(self.height - y)}" font-size="{size:g}"{anchor}{weight} '
                          f'fill="{colour}"{faint}>{html.escape(words)}</text>')

    def get_canvas_width_height(self):
        return self.width, self.height

    def flipy(self):
        return True

    def _look(self, gc, face) -> str:
        """The attributes of a shape; empty where nothing of it could be seen."""
        forced = gc.get_alpha() if gc.get_forced_alpha() else None
        look = ""
        if face is not None:
            look = _paint("fill", face, forced if forced is not None else face[3] if len(face) > 3 else 1.0)
        rgb, across = gc.get_rgb(), gc.get_linewidth()
        alpha = forced if forced is not None else rgb[3]
        if across > 0 and alpha > 0:
            look += ("" if face is not None else ' fill="none"') + _paint("stroke", rgb, alpha) + f' stroke-width="{across:g}"'
            _, dashes = gc.get_dashes()
            if dashes is not None:
                look += f' stroke-dasharray="{" ".join(_number(dash) for dash in dashes)}"'
            if gc.get_joinstyle() == "round":
                look += ' stroke-linejoin="round"'
        return look

    def _outline(self, path, transform, box, filled: bool) -> str:
        """The ``d`` of a path in pixels, cut off at the box of the axes."""
        transform = transform + self._flip
        clip = None if box is None else (box.x0, self.height - box.y1, box.x1, self.height - box.y0)
        if filled:
            path = path.transformed(transform)
            if clip and (path.codes is None or not {Path.CURVE3, Path.CURVE4} & set(path.codes)):
                x0, y0, x1, y1 = clip
                xs, ys = path.vertices[:, 0], path.vertices[:, 1]
                if xs.min() < x0 or xs.max() > x1 or ys.min() < y0 or ys.max() > y1:
                    path = path.clip_to_bbox(Bbox.from_extents(x0, y0, x1, y1))
            transform = clip = None
        out, last = [], None
        for points, code in path.iter_segments(transform, remove_nans=True, clip=clip, simplify=not filled):
            pairs = [(_number(points[at]), _number(points[at + 1])) for at in range(0, len(points), 2)]
            if code == Path.CLOSEPOLY:
                out.append("Z")
            elif code == Path.MOVETO:
                out.append("M" + " ".join(pairs[0]))
            elif code == Path.LINETO:
                if pairs[0] == last:
                    continue
                same_x, same_y = last and pairs[0][0] == last[0], last and pairs[0][1] == last[1]
                out.append(f"V{pairs[0][1]}" if same_x else f"H{pairs[0][0]}" if same_y else "L" + " ".join(pairs[0]))
            elif code in (Path.CURVE3, Path.CURVE4):
                out.append(("Q" if code == Path.CURVE3 else "C") + " ".join(" ".join(pair) for pair in pairs))
            last = pairs[-1] if code != Path.CLOSEPOLY else last
        return "".join(out)


class Words(Artist):
    """A line of text, at pixels from the lower left corner of its axes. Matplotlib's own Text looks for a font and measures it:
    the page's font is another one, and is not known here.
    """

    def __init__(self, place: tuple[float, float], *look):
        super().__init__()
        self.place, self.look = place, look
        self.set_zorder(3)

    def draw(self, renderer) -> None:
        renderer.write(self.axes.bbox.x0 + self.place[0], self.axes.bbox.y0 + self.place[1], *self.look)


def _paint(what: str, rgb, alpha: float) -> str:
    colour = "#" + "".join(f"{round(255 * part):02x}" for part in rgb[:3])
    faint = f' {what}-opacity="{alpha:.3g}"' if alpha < 1 else ""
    return f' {what}="{INK if colour == STAND_IN else colour}"{faint}'
