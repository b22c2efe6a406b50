"""Draws the pictures of the embedded photo set: one thing in a landscape, and others that distract from it.

A class is a shape. Colours, light, weather, ground, size, place and what stands around are drawn at random, so that a
network must look at the thing itself. All of it is made of two ingredients: Pillow's polygons, and noise whose
spectrum falls like that of photos.
"""

from __future__ import annotations

import colorsys
import functools
import math

import numpy as np
from PIL import Image, ImageChops, ImageDraw, ImageFilter

WIDTH, HEIGHT = 500, 375

Colour = tuple[int, int, int]
_GREY = Image.new("L", (1, 1), 128)


# Noise, light, colour


@functools.cache
def _noise_tile(exponent: float, stretch: float = 1.0) -> Image.Image:
    """1024 x 1024 grey noise whose amplitudes fall like frequency to the power of -exponent: 1 as in photos, 2 as in clouds.

    Its details are ``stretch`` times as wide as high.
    """
    side = 1024
    rng = np.random.default_rng(round(exponent * 100))
    spectrum = np.fft.rfft2(rng.standard_normal((side, side), dtype=np.float32))
    y, x = np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]
    frequency = np.hypot(y / math.sqrt(stretch), x * math.sqrt(stretch))
    noise = np.fft.irfft2(spectrum * np.maximum(frequency, 4 / side) ** -exponent)
    return Image.fromarray((128 + 50 * noise / noise.std()).clip(0, 255).astype(np.uint8))


@functools.cache
def _grain_tile(strength: float = 1.0) -> Image.Image:
    """What a sensor adds, around 128: fine, and almost the same in the three colours."""
    if strength < 1:
        return Image.blend(Image.new("RGB", (1024, 1024), (128, 128, 128)), _grain_tile(), strength)
    grey = np.asarray(_noise_tile(0.35), np.float32)[:, :, None]
    colour = np.random.default_rng(7).normal(0, 20, (*grey.shape[:2], 3)).astype(np.float32)
    return Image.fromarray((0.8 * grey + 0.2 * 128 + colour).clip(0, 255).astype(np.uint8))


def _noise(rng, width: int, height: int, exponent: float, stretch: float = 1.0) -> Image.Image:
    """A piece of noise (mode L)."""
    x, y = (int(v) for v in rng.integers(0, (1024 - width, 1024 - height)))
    return _noise_tile(exponent, stretch).crop((x, y, x + width, y + height))


def _soft(picture: Image.Image, strength: float) -> Image.Image:
    """Out of focus: 0 not at all, 1 a pixel or two."""
    return Image.blend(picture, picture.reduce(2).resize(picture.size, Image.Resampling.BILINEAR), strength)


@functools.cache
def _shading(kind: str) -> Image.Image:
    """How light falls on a surface, 64 x 64, from the upper left; 128 leaves a colour as it is."""
    y, x = np.mgrid[-1:1:64j, -1:1:64j]
    if kind == "ball":
        z = np.sqrt(np.clip(1 - x * x - y * y, 0, 1))
        value = 0.42 + 0.75 * np.clip(-0.5 * x - 0.55 * y + 0.67 * z, 0, 1)
    elif kind == "round":  # a pillar
        value = 0.45 + 0.7 * np.clip(-0.6 * x + 0.8 * np.sqrt(np.clip(1 - x * x, 0, 1)), 0, 1)
    else:  # a wall
        value = 0.95 - 0.12 * y - 0.08 * x
    return Image.fromarray((value * 128).clip(0, 255).astype(np.uint8))


def _ramp(grey: Image.Image, dark: Colour, light: Colour) -> Image.Image:
    """Grey values as colours from ``dark`` to ``light``."""
    return _coloured(grey, np.linspace(dark, light, 256))


def _tinted(shading: Image.Image, colour: Colour) -> Image.Image:
    """A colour under a shading."""
    return _coloured(shading, np.arange(256)[:, None] / 128 * np.array(colour))


def _coloured(grey: Image.Image, table: np.ndarray) -> Image.Image:
    """Each grey value replaced by its row (R, G, B) of the table."""
    grey.putpalette(table.clip(0, 255).astype(np.uint8).tobytes())
    return grey.convert("RGB")


def _hsv(hue: float, saturation: float, value: float) -> Colour:
    return tuple(round(255 * part) for part in colorsys.hsv_to_rgb(hue % 1, saturation, value))


def _mix(a: Colour, b: Colour, part: float) -> Colour:
    return tuple(round(x + (y - x) * part) for x, y in zip(a, b))


def _any_colour(rng, value: tuple[float, float] = (0.45, 0.95)) -> Colour:
    return _hsv(rng.random(), rng.uniform(0.15, 0.75), rng.uniform(*value))


def _mostly(rng, usual: Colour, value: tuple[float, float] = (0.45, 0.95)) -> Colour:
    """The usual colour of a thing or one close to it, and sometimes any other: colour is a hint, no more."""
    if rng.random() < 0.65:
        return tuple(int(v) for v in (np.array(usual) + rng.normal(0, 18, 3)).clip(0, 255))
    return _any_colour(rng, value)


class Tile:
    """A square, transparent sheet to draw a thing on. Coordinates go from 0 to 1, y downwards; things stand on y = 1."""

    def __init__(self, rng, side: int, turn: float = 0.0):
        self.rng = rng
        self.side = side
        self.turn = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
        self.colours = Image.new("RGB", (side, side), (90, 90, 90))
        self.mask = Image.new("L", (side, side), 0)

    def _pixels(self, points) -> np.ndarray:
        """Turned around the middle of the foot, and in pixels."""
        return ((np.asarray(points, dtype=float) - (0.5, 1)) @ self.turn + (0.5, 1)) * self.side

    def polygon(self, points, colour: Colour, shading: str | None = "wall", texture: float = 0.25) -> None:
        points = self._pixels(points)
        low, high = np.floor(points.min(0)).astype(int) - 1, np.ceil(points.max(0)).astype(int) + 1
        stencil = Image.new("L", tuple((high - low).tolist()), 0)
        ImageDraw.Draw(stencil).polygon([tuple(p) for p in (points - low).tolist()], fill=255)
        self._fill(stencil, low.tolist(), colour, shading, texture)

    def column(self, x: float, top: float, half_top: float, bottom: float, half_bottom: float, colour: Colour, *how) -> None:
        """Symmetric around x, from y = top to bottom, as wide as twice the halves."""
        corners = [(x - half_top, top), (x + half_top, top), (x + half_bottom, bottom), (x - half_bottom, bottom)]
        self.polygon(corners, colour, *how)

    def ellipse(self, x: float, y: float, rx: float, ry: float, colour: Colour, shading: str | None = "ball", texture=0.25):
        """Around (x, y) with the radii rx and ry."""
        width, height = max(2, round(2 * rx * self.side)), max(2, round(2 * ry * self.side))
        x, y = self._pixels((x, y))
        stencil = Image.new("L", (width, height), 0)
        ImageDraw.Draw(stencil).ellipse((0, 0, width - 1, height - 1), fill=255)
        self._fill(stencil, [round(x - width / 2), round(y - height / 2)], colour, shading, texture)

    def line(self, points, width: float, colour: Colour, shading: str | None = None) -> None:
        """A stroke with round ends through ``points``."""
        points = self._pixels(points)
        width = max(1.5, width * self.side)
        low = np.floor(points.min(0) - width / 2).astype(int) - 1
        high = np.ceil(points.max(0) + width / 2).astype(int) + 1
        stencil = Image.new("L", tuple((high - low).tolist()), 0)
        brush = ImageDraw.Draw(stencil)
        path = [tuple(p) for p in (points - low).tolist()]
        brush.line(path, fill=255, width=round(width), joint="curve")
        if width > 3:
            for x, y in path:
                brush.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), fill=255)
        self._fill(stencil, low.tolist(), colour, shading, 0.2)

    def _fill(self, stencil: Image.Image, corner: list[int], colour: Colour, shading: str | None, texture: float) -> None:
        box = (*corner, corner[0] + stencil.width, corner[1] + stencil.height)
        paint: Image.Image | Colour = colour
        if shading:
            light = _shading(shading).resize(stencil.size, Image.Resampling.BILINEAR)
            grain = _noise(self.rng, *stencil.size, 1.0)
            light = ImageChops.overlay(light, Image.blend(_GREY.resize(grain.size), grain, texture))
            paint = _tinted(light, colour)
        self.colours.paste(paint, box, stencil)
        self.mask.paste(255, box, stencil)

    def light(self, x: float, y: float, rx: float, ry: float, shading: str) -> None:
        """Lay a shading over what is drawn already."""
        (x, y), rx, ry = self._pixels((x, y)), rx * self.side, ry * self.side
        box = tuple(round(v) for v in (x - rx, y - ry, x + rx, y + ry))
        light = _shading(shading).resize((box[2] - box[0], box[3] - box[1]), Image.Resampling.BILINEAR)
        light = _ramp(light, (0, 0, 0), (510, 510, 510))
        self.colours.paste(ImageChops.multiply(self.colours.crop(box), light), box)


# The things


def balloon(t: Tile, rng) -> None:
    r, stretch = rng.uniform(0.3, 0.36), rng.uniform(1.0, 1.25)
    cy, gores = 0.02 + r * stretch, int(rng.integers(5, 10))
    colours = [_mostly(rng, usual) for usual in ((215, 50, 45), (240, 200, 60), (60, 100, 200))[: int(rng.integers(2, 4))]]
    y = np.linspace(-1, 1.35, 40)
    radius = np.where(y < 0, np.sqrt(np.clip(1 - y * y, 0, 1)), np.clip(np.cos(y * 1.02), 0.16, 1))
    edges = np.sin(np.linspace(-np.pi / 2, np.pi / 2, gores + 1))
    for n in range(gores):
        left = np.stack([0.5 + r * radius * edges[n], cy + r * stretch * y], 1)
        right = np.stack([0.5 + r * radius * edges[n + 1], cy + r * stretch * y], 1)
        t.polygon(np.concatenate([left, right[::-1]]), colours[n % len(colours)], None)
    if rng.random() < 0.4:  # a band around it
        inside = (y > -0.2) & (y < 0.2)
        x, yy = r * radius[inside], cy + r * stretch * y[inside]
        t.polygon(np.concatenate([np.stack([0.5 - x, yy], 1), np.stack([0.5 + x, yy], 1)[::-1]]), _any_colour(rng), None)
    t.light(0.5, cy + 0.1 * r, r, r * stretch * 1.25, "ball")
    mouth, basket = cy + r * stretch * 1.35, 0.93
    for side in (-1, 1):
        t.line([(0.5 + side * 0.16 * r, mouth), (0.5 + side * 0.045, basket)], 0.006, (60, 50, 45))
    t.column(0.5, basket - 0.02, 0.055, 1, 0.04, (120, 80, 45), "round", 0.5)


def cactus(t: Tile, rng) -> None:
    colour = _hsv(rng.uniform(0.2, 0.45), rng.uniform(0.25, 0.7), rng.uniform(0.35, 0.7))
    dark, width, top = _mix(colour, (10, 20, 10), 0.45), rng.uniform(0.1, 0.17), rng.uniform(0.03, 0.2)

    def limb(path, wide):
        t.line(path, wide, colour, "round")
        for side in (-0.27, 0, 0.27):
            t.line([(x + side * wide, y + (0.3 * abs(side) * wide)) for x, y in path], 0.006, dark)

    for side in rng.permutation([-1, 1])[: int(rng.integers(1, 3))]:
        for _ in range(1 if rng.random() < 0.7 else 2):
            y, reach, rise = rng.uniform(0.4, 0.75), rng.uniform(0.17, 0.3), rng.uniform(0.12, 0.35)
            wide = width * rng.uniform(0.6, 0.85)
            limb([(0.5, y), (0.5 + side * reach, y), (0.5 + side * reach, max(0.08, y - rise))], wide)
    limb([(0.5, top + width / 2), (0.5, 1)], width)
    if rng.random() < 0.3:
        for _ in range(5):
            x, y = 0.5 + rng.uniform(-0.4, 0.4) * width, top + rng.uniform(0, 0.04)
            t.ellipse(x, y, 0.022, 0.018, _hsv(rng.uniform(0.8, 1.1), 0.7, 0.95))


def castle(t: Tile, rng) -> None:
    stone = _hsv(rng.uniform(0, 0.15), rng.uniform(0.05, 0.4), rng.uniform(0.5, 0.85))
    dark, roof = _mix(stone, (20, 18, 25), 0.75), _mostly(rng, (70, 85, 130), (0.35, 0.75))

    def wall(x, half, top, shading):
        t.column(x, top, half, 1, half, stone, shading, 0.45)
        teeth = max(2, int(half / 0.034))
        for k in range(teeth):
            t.column(x + (half - 0.017) * (2 * k / (teeth - 1) - 1), top - 0.045, 0.017, top + 0.01, 0.017, stone, "wall", 0.5)

    def tower(x, half, top, cone):
        wall(x, half, top, "round")
        if cone:
            t.column(x, top - half * rng.uniform(2, 3.2), 0, top, half * 1.25, roof, "round", 0.4)
        for y in np.arange(top + 0.09, 0.8, rng.uniform(0.14, 0.25)):
            t.column(x, y, 0.016, y + 0.06, 0.016, dark, None)

    cones, reach = rng.random() < 0.5, rng.uniform(0.26, 0.35)
    if rng.random() < 0.6:
        tower(0.5 + rng.uniform(-0.15, 0.15), rng.uniform(0.08, 0.12), rng.uniform(0.25, 0.35), rng.random() < 0.5)
    wall(0.5, reach, rng.uniform(0.55, 0.7), "wall")
    height = rng.uniform(0.35, 0.5)
    tower(0.5 - reach, rng.uniform(0.08, 0.11), height + rng.uniform(-0.05, 0.05), cones)
    tower(0.5 + reach, rng.uniform(0.08, 0.11), height + rng.uniform(-0.05, 0.05), cones)
    gate = rng.uniform(0.06, 0.1)
    t.ellipse(0.5, 0.84, gate, gate, dark, None)
    t.column(0.5, 0.84, gate, 1, gate, dark, None)


def house(t: Tile, rng) -> None:
    wall = _mix(_mostly(rng, (225, 190, 140), (0.6, 0.98)), (245, 240, 230), rng.uniform(0, 0.6))
    roof, frame = _mostly(rng, (165, 70, 50), (0.3, 0.7)), _mix(wall, (255, 255, 255), 0.6)
    glass = (240, 205, 115) if rng.random() < 0.3 else (60, 75, 95)
    half, over = rng.uniform(0.25, 0.4), rng.uniform(0.03, 0.07)
    eaves, ridge = rng.uniform(0.45, 0.62), rng.uniform(0.12, 0.28)
    if rng.random() < 0.6:
        x = 0.5 + rng.choice([-1, 1]) * half * rng.uniform(0.3, 0.65)
        t.column(x, ridge - 0.02, 0.04, eaves, 0.04, (130, 75, 60), "wall", 0.6)
    t.column(0.5, eaves - 0.02, half, 1, half, wall, "wall", 0.3)
    if rng.random() < 0.5:  # the gable towards us
        t.column(0.5, ridge, 0, eaves, half, wall, "wall", 0.3)
        for side in (-1, 1):
            t.line([(0.5, ridge), (0.5 + side * (half + over), eaves + over)], 0.05, roof, "wall")
    else:
        t.column(0.5, ridge, half * rng.uniform(0.5, 1), eaves, half + over, roof, "wall", 0.45)
    columns = int(rng.integers(2, 4))
    door = int(rng.integers(columns))
    for n in range(columns):
        x, w = 0.5 + half * ((2 * n + 1) / columns - 1), half / columns * 0.5
        y, bottom = (0.83, 1) if n == door else (0.7, 0.83)
        t.column(x, y - 0.012, w + 0.012, min(1, bottom + 0.012), w + 0.012, frame, None)
        t.column(x, y, w, bottom, w, _mix(roof, (0, 0, 0), 0.3) if n == door else glass)
        if n != door:
            t.line([(x, y), (x, bottom)], 0.008, frame)


def lighthouse(t: Tile, rng) -> None:
    first, second = _mostly(rng, (205, 45, 40)), _any_colour(rng)
    if rng.random() < 0.7:
        second = _mix(second, (250, 250, 250), 0.8)
    bottom, top, gallery = rng.uniform(0.13, 0.18), rng.uniform(0.075, 0.1), rng.uniform(0.2, 0.28)
    edges = np.linspace(gallery, 1, int(rng.integers(2, 8)))
    half = top + (bottom - top) * (edges - gallery) / (1 - gallery)
    for n in range(len(edges) - 1):
        t.column(0.5, edges[n], half[n], edges[n + 1], half[n + 1], second if n % 2 else first, "round", 0.35)
    lamp = top * 0.62
    t.column(0.5, gallery - 0.1, lamp, gallery, lamp, (250, 235, 150), "round")
    for x in (-lamp, -lamp / 3, lamp / 3, lamp):
        t.line([(0.5 + x, gallery - 0.1), (0.5 + x, gallery)], 0.008, (50, 50, 60))
    t.column(0.5, gallery - 0.19, 0, gallery - 0.095, lamp * 1.3, _mix(first, (40, 20, 20), 0.3), "round")
    t.column(0.5, gallery - 0.012, top * 1.35, gallery + 0.025, top * 1.2, (70, 70, 80), "round")
    for y in np.arange(gallery + 0.14, 0.85, 0.22):
        t.column(0.5, y, 0.015, y + 0.055, 0.015, (50, 55, 70), None)


def mushroom(t: Tile, rng) -> None:
    cap, stem = _mostly(rng, (190, 40, 35)), _hsv(rng.uniform(0.05, 0.16), rng.uniform(0.05, 0.3), rng.uniform(0.75, 0.95))

    def one(x, base, s):
        half, brim, top = 0.4 * s * rng.uniform(0.8, 1), base - 0.5 * s, base - s * rng.uniform(0.9, 1)
        foot, neck = half * rng.uniform(0.3, 0.45), half * rng.uniform(0.2, 0.32)
        t.column(x, brim, neck, base, foot, stem, "round", 0.4)
        t.ellipse(x, brim, half * 0.96, half * 0.2, _mix(stem, (90, 70, 60), 0.5), "wall", 0.5)
        a = np.linspace(np.pi, 2 * np.pi, 40)
        sag = np.linspace(0, np.pi, 20)
        dome = np.stack([x + half * np.cos(a), brim + (brim - top) * np.sin(a)], 1)
        edge = np.stack([x + half * np.cos(sag), brim + 0.1 * half * np.sin(sag)], 1)
        t.polygon(np.concatenate([dome, edge]), cap, "ball", 0.35)
        if spotted:
            for _ in range(int(rng.integers(6, 14))):
                angle, out = rng.uniform(np.pi, 2 * np.pi), math.sqrt(rng.uniform(0.02, 0.75))
                r, along, up = half * rng.uniform(0.05, 0.13), out * math.cos(angle), out * math.sin(angle)
                t.ellipse(x + half * along, brim - 0.02 + (brim - top) * up, r, r * 0.75, spots, "ball", 0.1)

    spotted, spots = rng.random() < 0.6, _mix(cap, (250, 245, 235), rng.uniform(0.6, 1))
    if rng.random() < 0.45:
        side = rng.choice([-1, 1])
        one(0.5 + side * 0.28, 1, rng.uniform(0.4, 0.6))
        one(0.5 - side * 0.1, 1, rng.uniform(0.8, 0.95))
    else:
        one(0.5, 1, 1)


def sailboat(t: Tile, rng) -> None:
    hull, sail = _mostly(rng, (50, 80, 150)), _any_colour(rng, (0.7, 1))
    if rng.random() < 0.75:
        sail = _mix(sail, (250, 248, 240), 0.85)
    jib = _mix(sail, hull, 0.3) if rng.random() < 0.4 else sail
    deck, half, mast = rng.uniform(0.8, 0.87), rng.uniform(0.3, 0.45), 0.5 + rng.uniform(-0.08, 0.08)
    t.line([(mast, 0.03), (mast, deck)], 0.014, (90, 70, 55))

    def canvas(side, reach, top, colour):
        down = np.linspace(0, 1, 12)
        foot = deck - 0.05
        luff = mast + side * 0.015
        x = luff + side * (half * reach * down + 0.07 * np.sin(np.pi * down))  # filled by the wind
        t.polygon([(luff, top), *zip(x, top + (foot - top) * down), (luff, foot)], colour, "wall", 0.3)

    canvas(-1, rng.uniform(0.7, 0.95), 0.05, sail)
    if rng.random() < 0.75:
        canvas(1, rng.uniform(0.55, 0.9), rng.uniform(0.05, 0.3), jib)
    bow, stern = half * rng.uniform(0.6, 0.8), half * rng.uniform(0.6, 0.85)
    t.polygon([(0.5 - half, deck), (0.5 + half, deck - 0.02), (0.5 + bow, 1), (0.5 - stern, 1)], hull, "wall", 0.35)
    t.line([(0.5 - half, deck + 0.02), (0.5 + half, deck)], 0.015, _mix(hull, (255, 255, 255), 0.7))


def snowman(t: Tile, rng) -> None:
    snow = _hsv(rng.random(), rng.uniform(0, 0.18), rng.uniform(0.82, 0.98))
    radii = [rng.uniform(0.2, 0.25), rng.uniform(0.13, 0.17), rng.uniform(0.1, 0.125)] if rng.random() < 0.7 else [0.25, 0.16]
    stick, y, centres = (85, 60, 40), 1.0, []
    for r in radii:
        centres.append(y - r)
        y -= 1.72 * r
    shoulder = centres[-2]
    if rng.random() < 0.75:
        for side in (-1, 1):
            hand = (0.5 + side * rng.uniform(0.32, 0.42), shoulder - rng.uniform(-0.03, 0.18))
            t.line([(0.5, shoulder), hand], 0.016, stick)
            t.line([hand, (hand[0] + side * 0.04, hand[1] - 0.05)], 0.01, stick)
    for r, cy in zip(radii, centres):
        t.ellipse(0.5, cy, r, r * rng.uniform(0.94, 1), snow, "ball", 0.2)
    head, r = centres[-1], radii[-1]
    if rng.random() < 0.6:
        scarf = _any_colour(rng)
        t.ellipse(0.5, head + r * 0.86, r * 0.85, r * 0.26, scarf, "round", 0.5)
        t.column(0.54 + r * 0.25, head + r, r * 0.25, head + r * 2.3, r * 0.25, scarf, "wall", 0.5)
    look = 0.5 + rng.uniform(-0.3, 0.3) * r
    for side in (-1, 1):
        t.ellipse(look + side * 0.35 * r, head - 0.22 * r, 0.1 * r, 0.1 * r, (25, 25, 30), None)
    tip = (look + rng.choice([-1, 1]) * 0.95 * r, head + 0.14 * r)
    t.polygon([(look, head - 0.06 * r), (look, head + 0.2 * r), tip], (235, 120, 35))
    for k in range(int(rng.integers(0, 4))):
        t.ellipse(0.25 + look * 0.5, shoulder - radii[-2] * 0.3 + k * 0.07, 0.014, 0.014, (30, 28, 30), None)
    hat, band, kind = _any_colour(rng, (0.1, 0.6)), _any_colour(rng), rng.random()
    if kind < 0.45:
        brim = head - 0.72 * r
        t.column(0.5, brim - 0.95 * r, r * 0.62, brim, r * 0.58, hat, "round")
        t.column(0.5, brim - 0.25 * r, r * 0.6, brim, r * 0.58, band, "round")
        t.ellipse(0.5, brim, r, r * 0.16, hat, "round")
    elif kind < 0.75:
        t.column(0.5, head - 1.65 * r, r * 0.2, head - 0.45 * r, r * 0.85, hat, "round", 0.5)
        t.ellipse(0.5, head - 1.7 * r, 0.28 * r, 0.28 * r, band)


def tree(t: Tile, rng) -> None:
    bark = _hsv(rng.uniform(0.04, 0.1), rng.uniform(0.2, 0.5), rng.uniform(0.25, 0.5))
    if rng.random() < 0.6:
        leaf = _hsv(rng.uniform(0.2, 0.4), rng.uniform(0.35, 0.75), rng.uniform(0.35, 0.65))
    else:  # autumn, or blossom
        leaf = _hsv(rng.uniform(-0.08, 0.16), rng.uniform(0.3, 0.8), rng.uniform(0.55, 0.9))
    rx, ry = rng.uniform(0.28, 0.44), rng.uniform(0.24, 0.36)
    cy, foot, lean = 0.06 + ry, rng.uniform(0.035, 0.07), rng.uniform(-0.05, 0.05)
    crown = [(0.5 + lean - foot * 0.5, cy), (0.5 + lean + foot * 0.5, cy)]
    t.polygon([*crown, (0.5 + foot, 0.93), (0.5 + foot * 1.6, 1), (0.5 - foot * 1.6, 1), (0.5 - foot, 0.93)], bark, "round", 0.8)
    for side in (-1, 1):
        t.line([(0.5 + lean * 0.5, cy + ry * 0.8), (0.5 + side * rx * 0.6, cy + ry * 0.2)], foot * 0.6, bark)
    t.ellipse(0.5 + lean, cy, rx * 0.85, ry * 0.8, _mix(leaf, (20, 30, 25), 0.6), "ball", 0.9)
    clumps = int(rng.integers(28, 44))
    for n in range(clumps):  # from the shade at the bottom to the light at the top
        angle, out = rng.uniform(0, 2 * np.pi), math.sqrt(rng.uniform(0.1, 1))
        across, up = out * math.cos(angle), 0.85 - 1.7 * n / clumps
        x = 0.5 + lean + rx * 0.85 * across * math.sqrt(1 - up * up)
        r = rng.uniform(0.055, 0.1)
        shade = _mix(leaf, (20, 30, 25), 0.5 * (1 - n / clumps))
        t.ellipse(x, cy + ry * 0.85 * up, r, r * rng.uniform(0.7, 0.95), shade, "ball", 0.8)


def windmill(t: Tile, rng) -> None:
    body, cap = _mostly(rng, (205, 180, 150), (0.55, 0.95)), _mostly(rng, (95, 60, 45), (0.25, 0.6))
    blade = _mix(_any_colour(rng), (245, 240, 230), rng.uniform(0.2, 0.9))
    turbine = rng.random() < 0.3
    hub, turn = rng.uniform(0.34, 0.42), rng.uniform(0, 2 * np.pi)
    if turbine:
        t.column(0.5, hub, 0.01, 1, 0.025, _mix(body, (245, 245, 245), 0.7), "round")
    else:
        top, foot = rng.uniform(0.09, 0.12), rng.uniform(0.14, 0.21)
        t.column(0.5, hub, top, 1, foot, body, "round", 0.45)
        t.ellipse(0.5, hub, top * 1.12, top * rng.uniform(0.8, 1.2), cap, "ball", 0.4)
        for y in (0.58, 0.74):
            t.column(0.5, y, 0.018, y + 0.05, 0.018, (50, 50, 60), None)
        t.column(0.5, 0.88, 0.04, 1, 0.04, _mix(cap, (20, 15, 10), 0.5))
    blades, length = (3, rng.uniform(0.32, 0.38)) if turbine else (4, rng.uniform(0.33, 0.4))
    for k in range(blades):
        a = turn + 2 * np.pi * k / blades
        along, across = np.array([math.cos(a), math.sin(a)]), np.array([-math.sin(a), math.cos(a)])
        at = np.array([0.5, hub])
        if turbine:
            t.polygon([at - across * 0.012, at + across * 0.02, at + along * length], blade, None)
            continue
        sail = [at + along * length * u + across * v for u, v in ((0.2, 0), (1, 0), (1, 0.1), (0.2, 0.085))]
        t.polygon(sail, blade, "wall", 0.3)
        for u in np.linspace(0.2, 1, 6):
            t.line([at + along * length * u, at + along * length * u + across * 0.095], 0.006, (80, 65, 55))
        t.line([at, at + along * length], 0.016, (75, 60, 50))
    t.ellipse(0.5, hub, 0.022, 0.022, (60, 55, 55))


THINGS = [balloon, cactus, castle, house, lighthouse, mushroom, sailboat, snowman, tree, windmill]
CLASSES = [thing.__name__ for thing in THINGS]


# What stands around


def pine(t: Tile, rng) -> None:
    green = _hsv(rng.uniform(0.25, 0.48), rng.uniform(0.3, 0.6), rng.uniform(0.2, 0.45))
    t.column(0.5, 0.8, 0.03, 1, 0.04, (70, 50, 38), "round")
    layers, half = int(rng.integers(3, 6)), rng.uniform(0.2, 0.3)
    for n in range(layers, 0, -1):
        t.column(0.5, 0.86 * (n - 1) / layers - 0.06, 0, 0.02 + 0.86 * n / layers, half * n / layers, green, "round", 0.9)


def bush(t: Tile, rng) -> None:
    leaf = _hsv(rng.uniform(0.12, 0.42), rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.6))
    for n in range(9):
        shade = _mix(leaf, (20, 25, 20), 0.4 * (1 - n / 9))
        t.ellipse(rng.uniform(0.2, 0.8), 0.95 - 0.25 * n / 9, rng.uniform(0.12, 0.2), rng.uniform(0.1, 0.16), shade, "ball", 0.9)


def rock(t: Tile, rng) -> None:
    grey = _hsv(rng.uniform(0, 0.15), rng.uniform(0.02, 0.25), rng.uniform(0.35, 0.7))
    angles, r = np.sort(rng.uniform(np.pi, 2 * np.pi, 8)), rng.uniform(0.75, 1, 8)
    skyline = zip(0.5 + 0.4 * r * np.cos(angles), 1 + rng.uniform(0.3, 0.6) * r * np.sin(angles))
    t.polygon([(0.1, 1), *skyline, (0.9, 1)], grey, "ball", 1.0)


def fence(t: Tile, rng) -> None:
    wood = _hsv(rng.uniform(0.04, 0.12), rng.uniform(0.1, 0.5), rng.uniform(0.4, 0.9))
    for y in (0.72, 0.87):
        t.column(0.5, y, 0.5, y + 0.045, 0.5, wood, "wall", 0.6)
    for x in np.linspace(0.07, 0.94, 6):
        t.polygon([(x - 0.02, 0.65), (x, 0.62), (x + 0.02, 0.65), (x + 0.02, 1), (x - 0.02, 1)], wood, "round", 0.6)


# The landscape

# ground: hue, saturation and value from, to; how wide its texture is for its height; how strong
GROUNDS = {
    "meadow": ((0.2, 0.35, 0.3), (0.33, 0.7, 0.6), 1.0, 1.0),
    "sand": ((0.07, 0.25, 0.65), (0.13, 0.5, 0.9), 1.5, 0.6),
    "snow": ((0.55, 0.02, 0.82), (0.65, 0.14, 0.97), 1.5, 0.35),
    "earth": ((0.03, 0.25, 0.3), (0.1, 0.55, 0.55), 1.2, 1.0),
    "water": ((0.48, 0.3, 0.3), (0.62, 0.7, 0.65), 5.0, 1.0),
}
# Where a thing is at home. It is found elsewhere too, so that the ground says a little about the class and not all.
HOME = {
    "balloon": "earth",
    "cactus": "sand",
    "castle": "earth",
    "house": "meadow",
    "lighthouse": "water",
    "mushroom": "meadow",
    "sailboat": "water",
    "snowman": "snow",
    "tree": "meadow",
    "windmill": "sand",
}
LIGHTS = [  # how often; the top of the sky, its foot; the light on everything
    (0.24, (70, 120, 200), (190, 215, 235), (1.0, 1.0, 1.0)),
    (0.22, (110, 150, 190), (220, 225, 225), (1.0, 1.0, 0.98)),
    (0.16, (135, 140, 150), (200, 203, 205), (0.86, 0.88, 0.92)),
    (0.12, (70, 80, 140), (250, 180, 120), (1.05, 0.92, 0.78)),
    (0.08, (90, 60, 110), (240, 130, 100), (0.95, 0.78, 0.74)),
    (0.06, (20, 28, 60), (70, 85, 120), (0.6, 0.66, 0.85)),
    (0.12, (125, 165, 205), (240, 235, 210), (1.05, 1.02, 0.9)),
]


def draw(kind: int, seed: int) -> Image.Image:
    """A picture (500 x 375) of class ``kind``; the same for the same ``seed``."""
    rng = np.random.default_rng(seed)
    name = CLASSES[kind]
    ground = HOME[name] if rng.random() < 0.7 else str(rng.choice(list(GROUNDS)))
    _, top, foot, light = LIGHTS[int(rng.choice(len(LIGHTS), p=[light[0] for light in LIGHTS]))]
    tint = rng.uniform(-12, 12, 3)
    top, foot = (tuple(int(v) for v in (np.array(colour) + tint).clip(0, 255)) for colour in (top, foot))
    horizon = int(rng.uniform(0.42, 0.72) * HEIGHT)
    scene = Scene(rng, _sky(rng, top, foot, horizon), ground, foot, sunny=int(rng.choice([-1, 1])))
    _hills(rng, scene.picture, foot, horizon)
    soil = _ground(rng, scene.picture, foot, horizon, ground)

    size, x = rng.uniform(0.6, 1.05) * HEIGHT, rng.uniform(0.3, 0.7) * WIDTH
    if name == "balloon" and rng.random() < 0.8:  # in the air
        base = max(0.9 * size, rng.uniform(0.5, 1.0) * horizon + size * 0.35)
    else:
        base = max(horizon + 12, rng.uniform(horizon + 0.1 * size, min(HEIGHT + 0.12 * size, horizon + size)))
    for _ in range(int(rng.integers(1, 5))):  # farther away than the thing, and smaller
        near = rng.uniform(0, 1) ** 1.5
        if ground == "water" and rng.random() < 0.7:
            continue
        height = (0.1 + 0.3 * near) * HEIGHT * rng.uniform(0.6, 1.3)
        other = (pine, bush, rock, fence)[int(rng.integers(4))]
        scene.place(other, height, rng.uniform(0, WIDTH), horizon + 3 + near * max(4, base - horizon - 6), fog=0.6 - 0.5 * near)
    if rng.random() < 0.3:  # a thing of another class, far away
        other = THINGS[(kind + int(rng.integers(1, len(THINGS)))) % len(THINGS)]
        scene.place(other, size * rng.uniform(0.2, 0.4), rng.uniform(0.05, 0.95) * WIDTH, horizon + rng.uniform(4, 14), fog=0.3)
    blur = rng.uniform(-1.5, 1)
    if blur > 0:
        scene.picture = _soft(scene.picture, blur)
    scene.place(THINGS[kind], size, x, base, turn=rng.uniform(-7, 7))
    if rng.random() < 0.4 and ground != "water":
        _grass(rng, scene.picture, soil)
    return _developed(rng, scene.picture, light)


def _sky(rng, top: Colour, foot: Colour, horizon: int) -> Image.Image:
    depth = min(HEIGHT, horizon + 12)
    fade = Image.fromarray(np.repeat(np.linspace(0, 255, depth).astype(np.uint8)[:, None], WIDTH, 1))
    picture = Image.new("RGB", (WIDTH, HEIGHT), foot)
    picture.paste(_ramp(fade, top, foot), (0, 0))
    cover, edge, thick = rng.uniform(95, 190), rng.uniform(25, 80), rng.uniform(0.5, 1)
    clouds = _noise(rng, WIDTH, depth, 1.6, float(rng.choice([1.0, 2.5])))
    veil = clouds.point([round(255 * thick * min(1, max(0, (v - cover) / edge))) for v in range(256)])
    body = _noise(rng, WIDTH, depth, 1.6, 2.5)
    bright = _mix(foot, (255, 255, 255), rng.uniform(0.2, 0.9))
    picture.paste(_ramp(body, _mix(bright, top, 0.7), bright), (0, 0), veil)
    if rng.random() < 0.25:
        side, x, y = round(rng.uniform(50, 140)), round(rng.uniform(0, WIDTH)), round(rng.uniform(0.1, 0.9) * horizon)
        picture.paste((255, 246, 215), (x, y - side // 2, x + side, y - side // 2 + side), _sun().resize((side, side)))
    return picture


@functools.cache
def _sun() -> Image.Image:
    disc = Image.new("L", (64, 64), 0)
    ImageDraw.Draw(disc).ellipse((22, 22, 42, 42), fill=255)
    return ImageChops.lighter(disc.filter(ImageFilter.GaussianBlur(1)), disc.filter(ImageFilter.GaussianBlur(9)))


def _ridge(rng, rough: float, points: int = 100) -> np.ndarray:
    """A skyline: values around 0, about 1 high."""
    x = np.arange(points) / points
    k = np.arange(1, 24)
    waves = np.sin(2 * np.pi * (k[:, None] * x * rng.uniform(0.6, 1.3, k.size)[:, None] + rng.random(k.size)[:, None]))
    return (waves * k[:, None] ** -rough).sum(0)


def _hills(rng, picture: Image.Image, foot: Colour, horizon: int) -> None:
    layers = int(rng.integers(0, 4))
    tone = _hsv(rng.uniform(0.2, 0.7), rng.uniform(0.1, 0.5), rng.uniform(0.25, 0.55))
    for n in range(layers):
        rough, height = rng.uniform(1, 2), rng.uniform(12, 60) * (1 - n / 5)
        y = horizon - 8 * (layers - 1 - n) - height * np.clip(_ridge(rng, rough) * 0.5 + 0.5, 0, 2)
        low = max(0, int(y.min()))
        stencil = Image.new("L", (WIDTH, HEIGHT - low), 0)
        skyline = [(x, v - low) for x, v in zip(np.linspace(0, WIDTH, y.size), y.tolist())]
        ImageDraw.Draw(stencil).polygon([(0, HEIGHT), *skyline, (WIDTH, HEIGHT)], fill=255)
        far = 0.75 - 0.6 * (n + 1) / layers
        colour = _mix(tone, foot, far)
        texture = _noise(rng, WIDTH, HEIGHT - low, 1.0)
        forest = _ramp(texture, _mix(colour, (0, 0, 0), 0.5 * (1 - far)), _mix(colour, (255, 255, 255), 0.25))
        picture.paste(forest, (0, low), stencil)


def _ground(rng, picture: Image.Image, foot: Colour, horizon: int, kind: str) -> Colour:
    low, high, stretch, contrast = GROUNDS[kind]
    colour = _hsv(*(rng.uniform(a, b) for a, b in zip(low, high)))
    depth = HEIGHT - horizon
    far, near = min(1000, 900 / stretch), max(60, 260 / stretch) * rng.uniform(0.8, 1.4)
    x, y = rng.uniform(0, 1024 - far), rng.uniform(0, 500)
    middle = x + far / 2
    corners = (x, y, middle - near / 2, y + 520, middle + near / 2, y + 520, x + far, y)
    texture = _noise_tile(1.0).transform((WIDTH, depth), Image.Transform.QUAD, corners, Image.Resampling.BILINEAR)
    dark, light = _mix(colour, (10, 12, 20), 0.75 * contrast), _mix(colour, (255, 255, 240), 0.55 * contrast)
    soil = _ramp(texture, dark, light)
    if rng.random() < 0.5 and kind != "water":  # patches of something else
        patches = _noise(rng, WIDTH, depth, 1.6, 2.5).point([min(255, max(0, (v - 140) * 5)) for v in range(256)])
        other = _mix(colour, _any_colour(rng, (0.3, 0.7)), 0.5)
        soil.paste(_ramp(texture, _mix(other, (0, 0, 0), 0.6), _mix(other, (255, 255, 255), 0.4)), (0, 0), patches)
    haze = np.repeat((np.linspace(1, 0, depth) ** 3 * rng.uniform(80, 210)).astype(np.uint8)[:, None], WIDTH, 1)
    soil.paste(foot, (0, 0, WIDTH, depth), Image.fromarray(haze))
    edge = Image.new("L", (WIDTH, depth), 0)
    bumps = 0 if kind == "water" else rng.uniform(0, 5)
    line = [(px, 3 + bumps * v) for px, v in zip(np.linspace(0, WIDTH, 100), _ridge(rng, 1.2))]
    ImageDraw.Draw(edge).polygon([(0, depth), *line, (WIDTH, depth)], fill=255)
    picture.paste(soil, (0, horizon), edge)
    return colour


class Scene:
    """A landscape to put things into."""

    def __init__(self, rng, picture: Image.Image, ground: str, haze: Colour, sunny: int):
        self.rng = rng
        self.picture = picture
        self.ground = ground
        self.haze = haze
        self.sunny = sunny  # the light comes from the left (-1) or the right (1)

    def place(self, thing, size: float, x: float, base: float, fog: float = 0.0, turn: float = 0.0) -> None:
        """Draw ``thing``, ``size`` pixels high, standing at (x, base), with its shadow or its mirror image in the water."""
        high, wide = max(8, round(size)), max(8, round(size * self.rng.uniform(0.85, 1.15)))
        tile = Tile(self.rng, min(400, max(48, round(1.1 * size))), math.radians(turn))
        thing(tile, self.rng)
        colours, mask = (layer.resize((wide, high), Image.Resampling.BILINEAR) for layer in (tile.colours, tile.mask))
        if self.sunny > 0:  # things are drawn with the light from the left
            colours, mask = (layer.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for layer in (colours, mask))
        if fog > 0:
            colours = Image.blend(colours, Image.new("RGB", colours.size, self.haze), fog)
        left, base = round(x - wide / 2), round(base)
        if self.ground == "water":
            self._mirror(colours, mask, left, base)
        elif thing is not balloon:
            self._shadow(mask, left, base)
        self.picture.paste(colours, (left, base - high), mask)

    def _mirror(self, colours: Image.Image, mask: Image.Image, left: int, base: int) -> None:
        size = colours.width, max(4, colours.height // 2)
        upside, faint = (layer.transpose(Image.Transpose.FLIP_TOP_BOTTOM).resize(size) for layer in (colours, mask))
        ripples = _noise(self.rng, *size, 1.0, 8.0).point([min(150, max(0, v - 40)) for v in range(256)])
        self.picture.paste(upside, (left, base - 2), ImageChops.multiply(faint, ripples))

    def _shadow(self, mask: Image.Image, left: int, base: int) -> None:
        wide, flat, fall = mask.width, max(6, mask.height // 4), self.sunny * self.rng.uniform(0.5, 1.5)
        small = mask.resize((max(2, wide // 3), flat // 3))  # a third of the size: soft edges
        slanted = (1, 2 * fall, -small.width / 2 - 2 * fall * small.height, 0, 1, 0)
        shadow = small.transform((2 * small.width, small.height), Image.Transform.AFFINE, slanted)
        shadow = ImageChops.multiply(shadow, _GREY.resize(shadow.size)).resize((wide * 2, flat), Image.Resampling.BILINEAR)
        left -= wide // 2
        self.picture.paste((15, 15, 30), (left, base - flat, left + 2 * wide, base), shadow)


def _grass(rng, picture: Image.Image, soil: Colour) -> None:
    """Blades in front of everything, out of focus."""
    brush = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(20, 90))):
        x, w, high, bend = rng.uniform(0, WIDTH), rng.uniform(1, 4), rng.uniform(15, 85), rng.uniform(-25, 25)
        end = (255, 255, 200) if rng.random() < 0.4 else (0, 0, 0)
        shade = _mix(_mix(soil, (40, 60, 20), 0.4), end, rng.uniform(0, 0.6))
        middle = (x + bend * 0.5 + w / 2, HEIGHT - high * 0.6)
        brush.polygon([(x - w, HEIGHT), (x + w, HEIGHT), middle, (x + bend, HEIGHT - high)], fill=shade)


def _developed(rng, picture: Image.Image, light: tuple[float, float, float]) -> Image.Image:
    """What a camera does: the colour of the light, exposure, darker corners, grain."""
    if rng.random() < 0.3:
        picture = _soft(picture, rng.uniform(0.1, 0.5))
    exposure, gamma = rng.uniform(0.95, 1.35), rng.uniform(0.8, 1.1)
    curve = 255 * (np.arange(256) / 255) ** gamma * exposure * np.array(light)[:, None]
    picture = picture.point(curve.clip(0, 255).astype(int).ravel().tolist())
    _darken(picture, _noise(rng, WIDTH, HEIGHT, 2.5), rng.uniform(0, 135))  # clouds pass by
    if rng.random() < 0.6:
        _darken(picture, _corners(), rng.uniform(0, 115))
    x, y = (int(v) for v in rng.integers(0, (1024 - WIDTH, 1024 - HEIGHT)))
    grain = _grain_tile(float(rng.choice([0.06, 0.1, 0.14, 0.18]))).crop((x, y, x + WIDTH, y + HEIGHT))
    return ImageChops.add(picture, grain, offset=-128)


def _darken(picture: Image.Image, where: Image.Image, strength: float) -> None:
    """By as much as ``strength`` / 255 where ``where`` is 255."""
    picture.paste((0, 0, 0), None, where.point(np.linspace(0, strength, 256).astype(int).tolist()))


@functools.cache
def _corners() -> Image.Image:
    """0 in the middle, 255 in the corners."""
    away = np.hypot(np.linspace(-1, 1, HEIGHT)[:, None], np.linspace(-1, 1, WIDTH)) ** 2 / 2
    return Image.fromarray((255 * away).clip(0, 255).astype(np.uint8))
