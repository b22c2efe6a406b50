"""Figures for the notebook about mixed precision."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ui import charts, tables
from ...ui.charts import Line, Mark, legend
from ...ui.page import View, headline, quiet, table
from ...ui.palette import BLUE, GREEN, GREY, ORANGE, PINK, SKY
from ...ui.svg import Svg
from ...ui.words import gigabytes

SIGN, EXPONENT, FRACTION = PINK, ORANGE, SKY


@dataclass(frozen=True)
class Format:
    """A floating format: bits of its exponent and fraction, and what follows from them."""

    name: str
    exponent: int
    fraction: int
    largest: float
    normal: float  # the smallest positive normal number

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def epsilon(self) -> float:
        """From 1 to the next larger number."""
        return 2.0**-self.fraction

    @property
    def smallest(self) -> float:
        """The smallest positive number, a subnormal one."""
        return self.normal * self.epsilon


def known() -> list[Format]:
    """What torch.finfo says of its formats, and TF32, which is none of a tensor's: tensor cores round float32 operands to it."""
    import torch

    types = {
        "fp32": (torch.float32, 8),
        "bf16": (torch.bfloat16, 8),
        "fp16": (torch.float16, 5),
        "fp8 e5m2": (torch.float8_e5m2, 5),
        "fp8 e4m3": (torch.float8_e4m3fn, 4),
    }
    found = []
    for name, (dtype, exponent) in types.items():
        info = torch.finfo(dtype)
        found.append(Format(name, exponent, round(-math.log2(info.eps)), info.max, info.tiny))
    tf32 = Format("tf32", 8, 10, (2 - 2**-10) * 2.0**127, 2.0**-126)
    return [found[0], tf32, *found[1:]]


def formats() -> View:
    """The bits of each format, its range and its precision."""
    rows = known()
    svg = Svg(900, len(rows) * 30 + 28, "bits of floating formats")
    for x, word in ((530, "largest"), (628, "smallest"), (722, "epsilon"), (858, "digits")):
        svg.text(x, 14, word, opacity=0.8)
    for number, each in enumerate(rows):
        x, y = 84, 26 + number * 30
        svg.text(76, y + 16, each.name, anchor="end", weight=600)
        for count, colour in ((1, SIGN), (each.exponent, EXPONENT), (each.fraction, FRACTION)):
            for _ in range(count):
                svg.rect(x, y, 11.6, 21, colour, opacity=0.85, radius=1)
                x += 13.4
        svg.text(530, y + 16, f"{each.largest:.3g}")
        svg.text(628, y + 16, f"2^{math.log2(each.smallest):.0f}")
        svg.text(722, y + 16, f"2^-{each.fraction} = {each.epsilon:.3g}")
        svg.text(858, y + 16, f"{(each.fraction + 1) * math.log10(2):.1f}")
    head = ["format", "bits", "exponent", "fraction", "largest", "smallest normal", "smallest", "epsilon"]
    cells = [
        [
            each.name,
            str(each.bits),
            str(each.exponent),
            str(each.fraction),
            f"{each.largest:.4g}",
            f"2^{math.log2(each.normal):.0f}",
            f"2^{math.log2(each.smallest):.0f}",
            f"2^-{each.fraction}",
        ]
        for each in rows
    ]
    said = "Exponent bits decide the range, fraction bits the precision. TF32 takes 4 bytes: tensor cores round what they read."
    page = (
        headline("Floating formats")
        + str(svg)
        + legend([("sign", SIGN), ("exponent", EXPONENT), ("fraction", FRACTION)])
        + quiet(said)
    )
    return View("floating formats", "\n".join(["Floating formats", table(head, cells), said]), page)


@dataclass(frozen=True)
class Magnitudes:
    """How gradients of activations are spread: a count for each power of two (floor of log2), and how many are exactly 0."""

    counts: dict[int, int]
    zeros: int
    what: str

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def below(self, power: int) -> float:
        """The part of the gradients (zeros left out) that is smaller than 2^power."""
        return sum(count for exponent, count in self.counts.items() if exponent < power) / max(1, self.total)


@tables.numbers(image_size=(32, 1024), batch_size=(1, 4096))
def magnitudes(model: str = "resnet18", image_size: int = 64, batch_size: int = 64, seed: int = 1) -> Magnitudes:
    """One step of a fresh model in float32 on random images, and the gradients of what its convolutions give."""
    import torch
    import torchvision

    torch.manual_seed(seed)
    net = torchvision.models.get_model(model, weights=None).train()
    seen: list[torch.Tensor] = []

    def watch(_module, _inputs, output):
        output.register_hook(lambda gradient: seen.append(gradient.detach().flatten()))

    for module in net.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(watch)
    images, labels = torch.randn(batch_size, 3, image_size, image_size), torch.randint(0, 1000, (batch_size,))
    torch.nn.functional.cross_entropy(net(images), labels).backward()
    values = torch.cat(seen).abs()
    exponents = values[values > 0].log2().floor().int()
    powers, counts = exponents.unique(return_counts=True)
    return Magnitudes(
        dict(zip(powers.tolist(), counts.tolist())), int((values == 0).sum()), f"{model}, {image_size} px, batch {batch_size}"
    )


@tables.numbers(scale=(0, 40))
def gradients(found: Magnitudes | None = None, scale: int = 16) -> View:
    """Which gradients fp16 can hold, as they are and multiplied by 2^scale."""
    found = found or magnitudes()
    smallest, normal, largest = -24, -14, 15
    low, high = min(min(found.counts), -44), max(max(found.counts) + scale, largest) + 2
    top = max(found.counts.values()) / found.total * 100 * 1.15
    series = [Line("what fp16 can hold", colour=GREEN, band=[(normal, 0, top), (largest + 1, 0, top)]),
              Line("what fp16 can hold", colour=GREEN, band=[(smallest, 0, top), (normal, 0, top)], opacity=0.5, shown=False)]
    for shift, name, colour in ((0, "as they are", BLUE), (scale, f"times 2^{scale}", ORANGE)):
        steps = [(power + shift + edge, count / found.total * 100) for power, count in sorted(found.counts.items())
                 for edge in (0, 1)]
        series.append(Line(name, steps, colour, band=[(x, 0, share) for x, share in steps], opacity=0.9, width=1.6))
    marks = [Mark(x, top, words) for x, words in (((normal + largest) / 2, "fp16"), ((smallest + normal) / 2, "fewer digits"),
                                                  ((low + smallest) / 2, "becomes 0"))]
    chart = charts.lines(series, x="size of a gradient", y="gradients (%)", say_x=lambda power: f"2^{power:g}", marks=marks,
                         x_range=(low, high), x_ticks=[power for power in range(-60, 40, 8) if low <= power <= high],
                         y_range=(0, top))
    lost, kept = found.below(smallest - 1), found.below(smallest - 1 - scale)
    weak, firm = found.below(normal), found.below(normal - scale)
    said = [
        f"As they are: {lost:.1%} are below 2^-25 and become 0 in fp16, {weak:.1%} are below 2^-14 and lose digits.",
        f"Multiplied by 2^{scale} = {2**scale:,}: {kept:.1%} become 0, {firm:.1%} lose digits. bf16 reaches down to 2^-133.",
    ]
    head = headline("Gradients of activations", f"{found.what}, first step, float32")
    return View(
        "gradients of activations", "\n".join([f"Gradients of activations ({found.what}, first step, float32)", *said]),
        lambda: head + chart.html() + "".join(map(quiet, said)),
    )


def flow() -> View:
    """What stands in which format in a step of mixed precision."""
    svg = Svg(900, 196, "one step of mixed precision")
    boxes = {  # x, y, width, first line, second line, colour
        "weights": (2, 12, 170, "weights", "fp32, 4 bytes", BLUE),
        "copies": (236, 12, 170, "copies of weights", "half, for this step", ORANGE),
        "activations": (470, 12, 190, "forward: activations", "half, kept until backward", ORANGE),
        "loss": (724, 12, 174, "loss", "fp32", BLUE),
        "scaled": (724, 130, 174, "loss x scale", "fp16 only", PINK),
        "backward": (470, 130, 190, "backward", "half, through activations", ORANGE),
        "gradients": (236, 130, 170, "gradients of weights", "fp32, 4 bytes", BLUE),
        "update": (2, 130, 170, "unscale, clip, update", "fp32; skipped if inf", GREY),
    }
    for x, y, wide, first, second, colour in boxes.values():
        svg.rect(x, y, wide, 52, colour, opacity=0.2, radius=6, stroke=colour)
        svg.text(x + wide / 2, y + 22, first, anchor="middle", weight=600)
        svg.text(x + wide / 2, y + 40, second, anchor="middle", opacity=0.8)
    for d in ("M174 38h56", "M408 38h56", "M662 38h56"):
        svg.path(d + "m-6 -5l6 5l-6 5", "currentColor", width=1.6)
    for d in ("M722 156h-56", "M468 156h-56", "M234 156h-56"):
        svg.path(d + "m6 -5l-6 5l6 5", "currentColor", width=1.6)
    svg.path("M811 66v58m-5 -6l5 6l5 -6", "currentColor", width=1.6)
    svg.path("M87 128v-58m-5 6l5 -6l5 6", "currentColor", width=1.6)
    svg.path("M565 66v58m-5 -6l5 6l5 -6", "currentColor", width=1.4, opacity=0.6, dash="4 4")
    text = "One step of mixed precision:\n" + "\n".join(f"  {first}: {second}" for *_, first, second, _ in boxes.values())
    return View("mixed precision", text, headline("One step of mixed precision") + str(svg))


@tables.numbers(image_size=(32, 1024), batches=(1, 100_000))
def saved(model: str = "resnet50", image_size: int = 224, batches: tuple[int, ...] = (1, 64), optimizer: str = "adamw") -> View:
    """What autocast changes in a step's memory, for a small batch and a large one."""
    from ...training import memory_plan  # here: it imports torch

    rows = []
    for batch in batches:
        for amp in ("off", "bf16"):
            counted = memory_plan.held(f"train.py --model {model} --image-size {image_size} -b {batch} --amp {amp} "
                                       f"--optimizer {optimizer}")
            rows.append((f"batch {batch}, {'fp32' if amp == 'off' else amp}", [*counted.items()]))
    notes = [f"Counted, not measured: {model}, {image_size} px, {optimizer}."]
    return tables.stacked("Memory of a step, with and without autocast", rows, gigabytes, notes)
