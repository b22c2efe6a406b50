"""The figures that open the course and its first day."""

from __future__ import annotations

from ..system import suggest
from ..system.errors import UsageError
from ..ui import charts, words
from ..ui.charts import Bar
from ..ui.page import View, headline, quiet
from ..ui.palette import BLUE, GREEN, GREY, ORANGE, PINK, SKY, SPEED
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


# The section "One H100" of docs/benchmarks.md: what a rung adds to those above it, the lab about it, images/s.
RUNGS = (
    ("float32 without TF32", "", 979),
    ("on a GPU, as PyTorch comes", "gpu", 1835),
    ("+ bf16 autocast", "amp", 2199),
    ("+ channels-last", "channels_last", 3846),
    ("+ fused optimizer", "", 3970),
    ("+ torch.compile", "", 5600),
)
BASE = RUNGS[1][2]  # what a plain PyTorch script reaches
STANDS = {"profiler": "channels_last"}  # a lab that adds no rung begins where that one ends
HERE = "you are here"
SOURCE = ("ResNet-50, 224 px, batch 256, random images, one H100 80 GB, 27 November 2026 (docs/benchmarks.md). "
          "Your machine has a different ladder: you measure it in these labs.")


def ladder(lab: str) -> View:
    """What each technique of day 1 brings on top of those before it, in images/s, with the rung of this lab marked.

    Raises UsageError for a lab of another day.
    """
    labs = [of for _, of, _ in RUNGS if of] + [*STANDS]
    if lab not in labs:
        raise UsageError(f"the ladder has no rung for {lab!r}: {suggest.hint(lab, labs)}Its labs are {', '.join(labs)}")
    here = next(at for at, (_, of, _) in enumerate(RUNGS) if of == STANDS.get(lab, lab))
    bars = []
    for at, (name, of, speed) in enumerate(RUNGS):
        note = words.ratio(speed / BASE) + (f", {HERE}" if at == here else f", lab {of}" if of else "")
        bars.append(Bar(name, speed, GREY if not at else ORANGE if at == here else SPEED, note, faint=at > here))
    title = f"From {BASE:,} to {RUNGS[-1][2]:,} images per second, with the same model"
    chart = charts.bars(bars, unit="images/s")
    text = "\n".join([title, *(f"  {bar.name:<28}{bar.value:>7,} images/s  {bar.note}" for bar in bars), SOURCE])
    return View(title, text, lambda: headline(title) + chart.html() + quiet(SOURCE))
