"""Figures for the notebook about the roofline: the machine's own, the trainee's counts, and what was recorded on one H200."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...system import hardware, paths, workspace
from ...traces import roofs
from ...traces.roofs import Roof
from ...ui import charts, tables, words
from ...ui.charts import Line, Mark, Point
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREEN, GREY, ORANGE, PINK, SKY, VERMILLION
from .. import catalogue, device_runs

FORMATS = roofs.FORMATS
# Name, function of roofline.py, its arguments without the size of a number: on a GPU, on a CPU
OPERATORS = (
    ("linear, batch 512", "linear", (512, 4096, 4096), (512, 2048, 2048), BLUE),
    ("linear, batch 1", "linear", (1, 4096, 4096), (1, 4096, 4096), SKY),
    ("convolution 3 x 3", "convolution", (256, 64, 56, 56, 64, 3, 1, 1, 1), (8, 64, 56, 56, 64, 3, 1, 1, 1), VERMILLION),
    ("max pooling 3 x 3", "pooling", (256, 64, 112, 112, 3, 2, 1), (16, 64, 112, 112, 3, 2, 1), GREEN),
    ("ReLU", "relu", (256 * 64 * 56 * 56,), (2**24,), PINK),
    ("layer norm", "layer_norm", (8192, 4096), (4096, 4096), ORANGE),
)


# µs of a product of 4096 x 4096 x N in bfloat16 on one H200 (docs/results/stairs-1x-nvidia-h200.json): N = 128, 256, …, 8192, and
# N = 2032, 2033, …, 2064
WIDE = (19.4, 19.41, 21.56, 25.58, 30.91, 35.5, 44.8, 46.29, 55.63, 61.37, 74.17, 71.39, 92.45, 91.37, 92.13, 95.74, 107.6,
        115.3, 130.3, 128.8, 154.8, 141.2, 143.9, 147.2, 169.4, 171.9, 173.6, 192.2, 190.1, 190.6, 204.5, 204.2, 204.5,
        232.7, 230.7, 232.5, 256, 255.4, 255.7, 256.2, 254.5, 293.3, 333.5, 333.9, 327.9, 339.8, 332.4, 325.3, 314.7, 330.7,
        349.1, 335.1, 333.5, 340.3, 353.5, 352.6, 357.8, 384, 388.8, 382.9, 405.3, 398.7, 395.7, 399.3)
FINE = (105.8, 624, 301.5, 533.6, 257.8, 512.1, 253, 517.2, 94.14, 615.1, 277.9, 514.5, 254.7, 489.2, 251, 494, 89.33, 638.4,
        345.5, 602.8, 337.2, 597, 336.9, 612, 99.82, 626.5, 347.4, 607, 336.6, 605.2, 337.7, 626.9, 98.67)
FINE_FROM, SIDE, TILE, PROCESSORS = 2032, 4096, (256, 128), 132
# Commands of `sized`, by scale: a profiled run, and switches of two whose shapes are those of a good training on a GPU. Without
# instructions for bfloat16 a step of ResNet-50 in it takes a CPU half a minute.
_SHAPES = {
    "ci": ("--model resnet18 --image-size 32", 2, 4),
    "laptop": ("--model resnet50 --image-size 224", 1, 2),
    device_runs.EMULATED: ("--model resnet50 --image-size 224", 1, 2),
    device_runs.UNUSED: ("--model resnet50 --image-size 224", 1, 2),
    "gpu": ("--model resnet50 --image-size 224", 64, 128),
    "cluster": ("--model resnet50 --image-size 224", 64, 128),
}


class Sized(device_runs.Sized):
    """``run``: a profiled step of the size that suits the machine; ``small`` and ``large``: the shapes of ResNet-50 as a GPU
    trains it, in two batch sizes."""

    @property
    def run(self) -> str:
        best = "" if self.scale == device_runs.EMULATED else " --amp bf16 --channels-last"
        return f"{super().run}{best} --profile"

    @property
    def small(self) -> str:
        return self._shapes(1)

    @property
    def large(self) -> str:
        return self._shapes(2)

    def _shapes(self, which: int) -> str:
        network, *sizes = _SHAPES[self.scale]
        size = sizes[which - 1]
        return f"train.py --test --data random --test-steps 2 {network} --batch-size {size} --amp bf16 --channels-last --profile"

    def __repr__(self) -> str:
        return f"a profiled run:  {self.run}\ntwo of shapes:   {self.small}\n                 {self.large}"


def sized(scale: str = "") -> Sized:
    """The runs of this lab, for jobs of the site in use. Raises UsageError."""
    return Sized(device_runs.sized(scale).asked, in_bf16=True)


def finished():
    """The kit's own roofline.py."""
    return paths.module(catalogue.reference("roofline.py"))


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def yours() -> View:
    """What your functions count for six operators in bfloat16, and the least time that your `seconds` gives them on an H200."""
    mine = paths.module(workspace.find() / "roofline.py")
    head = ["in bfloat16", "operations", "bytes", "FLOP per byte", "at least, on an H200"]
    cells = []
    for name, function, sizes, _, _ in OPERATORS:
        flops, moved = getattr(mine, function)(*sizes, 2)
        least = mine.seconds(flops, moved, roofs.H200.peaks["bfloat16"], roofs.H200.memory)
        intensity = charts.number(round(flops / moved, 1)) if moved else "-"
        cells.append([name, charts.si(flops).strip(), charts.si(moved).strip() + "B", intensity, words.seconds(least)])
    note = "From your roofline.py: 0 where nothing is written yet. H200: " \
           f"{charts.si(roofs.H200.peaks['bfloat16'])}FLOP/s and {charts.si(roofs.H200.memory)}B/s, both measured."
    return View("your counts", "\n".join(["Your counts", table(head, cells), note]),
                headline("Your counts") + table_html(head, cells) + quiet(note))


@functools.lru_cache(maxsize=2)
def here(seconds: float = 0.15) -> Roof:
    """The roof of this machine, measured once."""
    return roofs.measure(_device(), seconds)


@tables.numbers(seconds=(0.01, 10.0))
def machine(seconds: float = 0.15) -> View:
    """The roofline of this machine, measured now, and six operators on it. ``seconds``: for each measurement."""
    roof, device = here(seconds), _device()
    kind = "bfloat16" if device == "cuda" else "float"
    kit, points, rows, timed = finished(), [], [], []
    for name, function, on_gpu, on_cpu, colour in OPERATORS:
        sizes = on_gpu if device == "cuda" else on_cpu
        flops, moved = getattr(kit, function)(*sizes, 2 if kind == "bfloat16" else 4)
        timed.append((name, colour, flops, moved, roofs.timed(_operator(function, sizes, device, kind), device, seconds)))
    # A peak is the most that was seen: where other programs disturbed the product that measures it, an operator may have more.
    most = max(roof.peaks[kind], *(flops / took for _, _, flops, _, took in timed))
    roof = replace(roof, peaks=roof.peaks | {kind: most})
    for name, colour, flops, moved, took in timed:
        least = roof.seconds(flops, moved, kind)
        points.append(Point(name, flops / moved, flops / took, colour))
        rows.append([name, charts.number(round(flops / moved, 2)), charts.si(flops / took) + "FLOP/s", words.seconds(took),
                     words.seconds(least), words.share(least / took)])
    head = ["", "FLOP per byte", "reached", "took", "roofline", "of its roof"]
    peaks = {FORMATS[name]: peak for name, peak in roof.peaks.items()}
    chart = charts.roofline(points, peaks=peaks, bandwidths={"memory": roof.memory}, title="")
    note = f"Operators in {FORMATS[kind]}. The least operator takes {words.seconds(roof.start)}."
    if device == "cpu":
        cache = "What fits into the caches of a CPU may lie above its roof: the bandwidth is that of the main memory."
        note += f" {cache} Other programs on this machine lower all numbers: run it again to compare."
        if hardware.bf16_is_emulated():
            note += " This CPU has no instructions for bfloat16."
    text = "\n".join([f"The roofline of this machine: {roof.name}", chart.text(), table(head, rows), note])
    return View("the roofline of this machine", text, lambda: headline("The roofline of this machine", roof.name) + chart.html()
                + table_html(head, rows) + quiet(note))


def _operator(function: str, sizes: tuple, device: str, kind: str) -> Callable:
    """A call of PyTorch's operator of these sizes."""
    import torch
    from torch.nn import functional as nn

    def made(*shape):
        return torch.randn(shape, device=device, dtype=torch.bfloat16 if kind == "bfloat16" else torch.float32)

    if function == "linear":
        batch, inputs, outputs = sizes
        x, weight = made(batch, inputs), made(outputs, inputs)
        return lambda: nn.linear(x, weight)
    if function == "relu":
        x = made(*sizes)
        return lambda: torch.relu(x)
    if function == "layer_norm":
        x, weight, bias = made(*sizes), made(sizes[1]), made(sizes[1])
        return lambda: nn.layer_norm(x, sizes[1:], weight, bias)
    images = made(*sizes[:4]).to(memory_format=torch.channels_last)
    if function == "pooling":
        return lambda: nn.max_pool2d(images, *sizes[4:])
    filters, kernel, stride, padding, groups = sizes[4:]
    weight = made(filters, sizes[1] // groups, kernel, kernel).to(memory_format=torch.channels_last)
    return lambda: nn.conv2d(images, weight, None, stride, padding, 1, groups)


@tables.numbers(sides=(1, 4096), seconds=(0.005, 10.0))
def shapes(sides: Sequence[int] = (), seconds: float = 0.1) -> View:
    """A product of (rows, k) with (k, N) for some N around a power of 2, timed now."""
    import torch

    device = _device()
    rows, usual = (4096, (2040, 2047, 2048, 2049, 2056)) if device == "cuda" else (256, (255, 256, 257, 260, 264))
    sides = sides or usual
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    cells = []
    for side in sides:
        a, b = torch.randn(rows, rows, device=device, dtype=dtype), torch.randn(rows, side, device=device, dtype=dtype)
        took = roofs.timed(lambda a=a, b=b: a @ b, device, seconds)
        multiple = next(many for many in (64, 32, 16, 8, 4, 2, 1) if side % many == 0)
        cells.append([str(side), str(multiple), words.seconds(took), charts.si(2 * rows * rows * side / took) + "FLOP/s"])
    head = ["N", "a multiple of", "took", "reached"]
    what = f"{rows} x {rows} times {rows} x N, {str(dtype)[6:]}"
    return View("shapes", "\n".join([what, table(head, cells)]), headline("A product, timed now", what) + table_html(head, cells))


def stairs() -> View:
    """The recorded times of 64 products on an H200, beside those that your `useful` leads to."""
    mine = paths.module(workspace.find() / "roofline.py").useful
    whose = "yours" if mine(SIDE, 128, *TILE, PROCESSORS) else "the kit's, as yours is not written yet"
    useful = mine if whose == "yours" else finished().useful
    sizes = [128 * number for number in range(1, len(WIDE) + 1)]
    peak = roofs.H200.peaks["bfloat16"]
    counted = [2e6 * SIDE**2 * n / peak / useful(SIDE, n, *TILE, PROCESSORS) for n in sizes]
    ideal = [2e6 * SIDE**2 * n / peak for n in sizes]
    series = [Line("measured", list(zip(sizes, WIDE)), VERMILLION, marker="o"),
              Line("peak, and tiles of 256 x 128 in waves of 132", list(zip(sizes, counted)), BLUE),
              Line("peak alone", list(zip(sizes, ideal)), GREY, dash=(6, 4))]
    chart = charts.lines(series, x="N", y="µs")
    rows = [[str(n), f"{WIDE[n // 128 - 1]:.0f} µs", f"{counted[n // 128 - 1]:.0f} µs", f"{ideal[n // 128 - 1]:.0f} µs"]
            for n in (2048, 4096, 4224, 4352, 5248, 5376, 8192)]
    head = ["N", "measured", "tiles and waves", "peak alone"]
    note = f"4096 x 4096 times 4096 x N, bfloat16, recorded on one H200. The function `useful` is {whose}. " \
           "The library changes its tiles with N, so the last steps are not where these tiles put them."
    return View("stairs", "\n".join(["Time of a product against N", table(head, rows), note]),
                headline("Time of a product against N", "one H200") + chart.html() + quiet(note))


def alignment() -> View:
    """The recorded times of products with N around 2048 on an H200, by the largest power of 2 that divides N."""
    sizes = range(FINE_FROM, FINE_FROM + len(FINE))
    kinds = (("a multiple of 8", BLUE), ("of 2 or 4", ORANGE), ("odd", VERMILLION))
    marks = [Mark(n, took, "", kinds[0 if n % 8 == 0 else 2 if n % 2 else 1][1], "o", tip=f"N = {n}: {took:.0f} µs")
             for n, took in zip(sizes, FINE)]
    chart = replace(charts.lines([], x="N", y="µs", marks=marks, x_range=(sizes[0] - 1, sizes[-1] + 1),
                                 x_ticks=sizes[::8], y_range=(0, 700), say_x=str), names=kinds)
    rows = [[str(n), f"{FINE[n - FINE_FROM]:.0f} µs"] for n in (2040, 2044, 2046, 2047, 2048, 2049, 2056)]
    return View("alignment", "\n".join(["Time of a product against N, around 2048", table(["N", "took"], rows)]),
                headline("Time of a product against N, around 2048", "one H200, bfloat16, 4096 x 4096 x N") + chart.html())
