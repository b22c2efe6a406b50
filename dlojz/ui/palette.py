"""Colours and names of what figures show: one colour per phase, per kind of memory and per run, in all views and labs."""

from __future__ import annotations

# The palette of Okabe and Ito, which people with any colour vision can tell apart. It reads on a white and on a dark page.
BLUE, SKY, GREEN, ORANGE, VERMILLION, PINK, GREY = "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#8c8c8c"
INK = "currentColor"  # the colour of the page's text, in light and in dark
MEMORY, SPEED, POWER = "#9b72cf", "#1a7fd4", INK  # what is no phase
COLLECTIVE, SYNC, LAUNCH = "#f0e442", "#7e57c2", "#8d6e4f"  # no phases, but beside phases: the palette's yellow, violet, brown
GOOD, BAD, CARE = "#2f9e5f", "#d93a3f", "#c98500"  # as the verbs of the labs have them
PHASE = {"idle": VERMILLION, "copy": ORANGE, "forward": SKY, "backward": BLUE, "update": GREEN, "loading": PINK, "other": GREY}
NAMES = {"idle": "waiting for data", "copy": "copy", "forward": "forward", "backward": "backward", "update": "update",
         "loading": "the process waits for its loader", "other": "validation, checkpoint"}
MEMORY_PARTS = {"parameters": BLUE, "gradients": SKY, "optimizer": GREEN, "buffers": GREY, "activations": PINK,
                "measured": MEMORY, "batch": GREY, "weights in half precision": ORANGE,
                "logits and loss": VERMILLION, "backward pass": "#f0e442", "update": "#8d6e4f", "validation": INK}
RUNS = (BLUE, VERMILLION, GREEN, ORANGE, PINK, SKY)  # of several runs in one figure; then again, dashed
# What a part of a bar or a span may be called: a form looks the colour up here where the caller gives none.
COLOURS = {**MEMORY_PARTS, **{NAMES[name]: colour for name, colour in PHASE.items()}, **PHASE, "collective": COLLECTIVE}


def on(colour: str) -> str:
    """Black or white, whichever has more contrast with this colour (by the relative luminance of WCAG 2.2)."""
    return "#000" if luminance(colour) > 0.179 else "#fff"


def luminance(colour: str) -> float:
    """The relative luminance of ``#rrggbb``, 0 to 1 (WCAG 2.2)."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
