"""`memory_plan`: what a command will take of a GPU, before it runs and without a GPU, against the memory of a card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..system import suggest
from ..system.errors import UsageError
from ..ui import charts, page, words
from ..ui.page import View
from ..ui.palette import GREY, PHASE

if TYPE_CHECKING:
    from ..training.memory_plan import Plan

# GB as `torch.cuda.get_device_properties(0).total_memory` has it: somewhat less or more than the name says.
CARDS = {"V100 16 GB": 16.9, "V100 32 GB": 34.1, "A100 40 GB": 42.4, "A100 80 GB": 85.1, "H100 80 GB": 85.0, "H200 141 GB": 150.1}
SHOWS = 0.0005  # of the peak: less is nothing to look at
CONTEXT = 0.6e9  # bytes: CUDA's context and its kernels, which no tensor counts
SPARE = 1.05  # what the allocator reserves beyond what tensors take: it rounds up, and leaves holes


def memory_plan(*commands: str, card: str = "V100 32 GB") -> View:
    """A bar for each command, such as ``"train.py --model resnet50 -b 256"``, made of what is there at the moment of its peak.

    ``card``: one of `CARDS`, or the start of its name. Says whether it fits there, and which batch would. Workspaces that kernels
    borrow are not counted. Raises UsageError for another card or script.
    """
    if not commands:
        raise UsageError('give a command, such as views.memory_plan("train_lm.py --model 124m --amp bf16")')
    squeezed = str(card).lower().replace(" ", "")  # H100 80GB
    name = next((known for known in CARDS if squeezed and known.lower().replace(" ", "").startswith(squeezed)), None)
    if name is None:
        raise UsageError(f"there is no card {card!r}: {suggest.hint(str(card), CARDS)}Known are {', '.join(CARDS)}")
    from ..training.memory_plan import of_command  # here: it imports torch, which no other view does

    plans = [of_command(command) for command in commands]
    said = [sentence(plan, command, name) for plan, command in zip(plans, commands)]
    title = f"memory of a training step, as counted beforehand, on a {name}"
    parts = [(plan.title, {part: size for part, size in plan.parts.items() if size > SHOWS * plan.peak}) for plan in plans]
    about = [f"{plan.title}: {', '.join(f'{part} {words.gigabytes(size)}' for part, size in sizes.items())}; peaks: "
             + ", ".join(f"{phase} {words.gigabytes(size)}" for phase, size in plan.peaks.items() if phase in SHOWN)
             for plan, (_, sizes) in zip(plans, parts)]
    note = "Workspaces that kernels borrow come on top: up to some GB for convolutions in float32, less than 0.1 GB for products."

    def body() -> str:
        common = set.intersection(*(set(plan.title.split()) for plan in plans))
        rows = [("" if len(plans) == 1 else short(title, common), {part: size / 1e9 for part, size in sizes.items()})
                for title, sizes in parts]
        bars = charts.stacked(rows, unit="GB", limit=(name, CARDS[name]), axis="GB",
                              say=lambda value: f"{value:.2f}" if value < 10 else f"{value:.1f}")
        below = "".join(map(page.quiet, said)) + curve(plans[0]).html()
        return page.headline(title[0].upper() + title[1:]) + bars.html() + below \
            + page.quiet(f"{note} The curve: {plans[0].title}, two steps and a validation.")

    return View(title, "\n".join([title, *about, *said, note]), body)


SHOWN = ("forward", "backward", "update", "validation")


def short(title: str, common: set[str]) -> str:
    """What a command has and the others beside it have not."""
    return " ".join(word for word in title.split() if word not in common)[:40] or "as it is"


def fits(plan: Plan, total: float) -> bool:
    return plan.peak * SPARE + CONTEXT <= total


def sentence(plan: Plan, command: str, card: str) -> str:
    """``needs 40.1 GB and does not fit a V100 32 GB; a batch of 96 would``"""
    total = CARDS[card] * 1e9
    largest = largest_batch(plan, command, total)
    needs = f"{plan.title} needs {words.gigabytes(plan.peak)}"
    if fits(plan, total):
        return f"{needs} and fits a {card}; so would a batch of up to about {largest:,}."
    if not largest:
        return f"{needs} and does not fit a {card}, whatever the batch: look at what does not depend on it."
    return f"{needs} and does not fit a {card}; a batch of {largest:,} would."


def largest_batch(plan: Plan, command: str, total: float) -> int:
    """By straight lines through the peaks of two batches; rounded down to two figures, above 16 to a multiple of 8.

    The peak of a small batch may be in the update, which no batch makes larger: what the first line says is counted as well, and
    a second line put through it.
    """
    from ..training.memory_plan import of_command

    room = (total - CONTEXT) / SPARE
    peaks, most = {plan.batch: plan.peak}, plan.batch // 2 or 2
    for _ in range(2):
        peaks[most] = of_command(command, batch_size=most).peak
        few, many = sorted(sorted(peaks, key=lambda batch: (abs(peaks[batch] - room)))[:2])
        inside, outside = ([batch for batch in peaks if (peaks[batch] <= room) is fits] for fits in (True, False))
        if inside and outside:
            few, many = max(inside), min(outside)
        each = (peaks[many] - peaks[few]) / (many - few)
        most = max(0, int((room - peaks[few]) / each + few)) if each > 0 else plan.batch
        if most < 1 or most in peaks:
            break
    return most // 8 * 8 if most > 16 else most


def curve(plan: Plan) -> charts.Chart:
    """The sum over the operators of the steps, a line for each phase."""
    lines: dict[str, list[list[tuple[int, float]]]] = {}
    before = ""
    for at, (phase, size) in enumerate(plan.curve):
        if phase in SHOWN:
            if phase != before:
                lines.setdefault(phase, []).append([])
            lines[phase][-1].append((at, size / 1e9))
        before = phase
    drawn = []
    for phase, runs in lines.items():
        colour = PHASE.get(phase, GREY)
        for number, points in enumerate(runs):
            step = max(1, len(points) // 400)  # of each stretch its highest point, or the peak might be lost
            thinned = [max(points[at : at + step], key=lambda point: point[1]) for at in range(0, len(points), step)]
            drawn.append(charts.Line(phase if number == 0 else "", thinned, colour, shown=number == 0))
    return charts.lines(drawn, x="allocations and frees, in order", y="GB", height=170)
