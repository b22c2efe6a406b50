"""The figure that opens the course."""

from __future__ import annotations

from ..ui.page import View
from ..ui.palette import BLUE, GREEN, ORANGE, PINK, SKY
from ..ui.svg import Svg

STEPS = (
    ("edit", "train.py", "a few lines between", "two comments", BLUE),
    ("check", 'check("amp")', "what your code does,", "on tiny data", SKY),
    ("submit", 'submit("train.py …")', "a job in the queue", "of this machine", GREEN),
    ("look", "views.dashboard(job)", "where time and", "memory went", ORANGE),
    ("compare", 'against="gpu"', "with your own run", "without it", PINK),
)


def workflow() -> View:
    """What one does in each lab, over and over."""
    svg = Svg(900, 138, "edit, check, submit, look, compare")
    wide, gap = 158, 27
    for number, (word, code, first, second, colour) in enumerate(STEPS):
        x = 2 + number * (wide + gap)
        svg.rect(x, 2, wide, 104, colour, opacity=0.14, radius=8, stroke=colour)
        svg.text(x + wide / 2, 26, f"{number + 1}  {word}", size=15, anchor="middle", weight=600)
        svg.text(x + wide / 2, 49, code, size=12, anchor="middle")
        svg.text(x + wide / 2, 76, first, size=12, anchor="middle", opacity=0.8)
        svg.text(x + wide / 2, 93, second, size=12, anchor="middle", opacity=0.8)
        if number:
            svg.path(f"M{x - gap + 4:.0f} 54h{gap - 10}m-6 -5l6 5l-6 5", "currentColor", width=1.6)
    last = 2 + 4 * (wide + gap) + wide / 2
    svg.path(f"M{last:.0f} 108v14H{2 + wide / 2:.0f}v-14m-5 6l5 -6l5 6", "currentColor", width=1.6, opacity=0.6)
    text = "\n".join(
        f"{number}. {word}: {code}, {first} {second}" for number, (word, code, first, second, _) in enumerate(STEPS, 1)
    )
    return View("a lab, step by step", text, str(svg))
