"""Draws the pictures of the embedded photo set: an object in a landscape."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ["balloon", "cactus", "fish", "house", "lighthouse", "mushroom", "sailboat", "snowman", "tree", "windmill"]
WIDTH, HEIGHT = 500, 375


def draw(kind: int, seed: int) -> Image.Image:
    """A picture (500 x 375) of class ``kind``; the same for the same ``seed``."""
    rng = np.random.default_rng(seed)
    noise = np.fft.rfft2(rng.standard_normal((HEIGHT, WIDTH)))
    noise /= np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH)[None]) + 1 / WIDTH
    noise = np.fft.irfft2(noise, s=(HEIGHT, WIDTH))
    pixels = rng.uniform(60, 200, 3) + noise[..., None] / noise.std() * rng.uniform(10, 40, 3)
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    brush = ImageDraw.Draw(image)
    size, x, y = rng.uniform(60, 150), rng.uniform(120, 380), rng.uniform(120, 260)
    angles = np.linspace(0, 2 * np.pi, 3 + kind, endpoint=False) + rng.uniform(0, 7)
    brush.polygon([(x + size * np.cos(a), y + size * np.sin(a)) for a in angles], fill=tuple(rng.integers(0, 256, 3).tolist()))
    return image
