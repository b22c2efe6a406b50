"""Figures for the notebook about channels-last."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...system import machine
from ...ui import tables
from ...ui.page import View, headline, quiet
from ...ui.palette import BLUE, GREEN, SKY, VERMILLION
from ...ui.svg import Svg

CHANNELS = (("R", VERMILLION), ("G", GREEN), ("B", BLUE))


@tables.numbers(height=(1, 6), width=(1, 6))
def orders(height: int = 3, width: int = 3) -> View:
    """One image of three channels: its planes, and the order of its numbers in memory in both formats."""
    import torch

    shape = (1, 3, height, width)
    number = torch.arange(3 * height * width).reshape(shape)
    lies = {
        "NCHW (contiguous)": number.contiguous(),
        "NHWC (channels_last)": number.contiguous(memory_format=torch.channels_last),
    }
    svg = Svg(900, 46 + height * 24 + 2 * 62, "one image in two memory formats")
    for channel, (name, colour) in enumerate(CHANNELS):
        x0 = 150 + channel * (width * 30 + 60)
        svg.text(x0, 16, f"channel {name}", weight=600)
        for row in range(height):
            for column in range(width):
                _cell(svg, x0 + column * 30, 24 + row * 24, 29, 23, colour, f"{name}{row * width + column}")
    cell = 740 / (3 * height * width)
    text = [f"One image of shape {shape} in memory, from left to right:"]
    for line, (name, tensor) in enumerate(lies.items()):
        y = 58 + height * 24 + line * 62
        svg.text(2, y + 14, name.split()[0], weight=600)
        svg.text(2, y + 29, f"strides {tensor.stride()[1:]}", size=11, opacity=0.8)
        order = tensor.permute(0, 2, 3, 1).flatten() if "NHWC" in name else tensor.flatten()
        said = []
        for place, value in enumerate(order.tolist()):
            channel, pixel = divmod(value, height * width)
            _cell(svg, 150 + place * cell, y, cell - 1, 26, CHANNELS[channel][1], f"{CHANNELS[channel][0]}{pixel}", 10)
            said.append(f"{CHANNELS[channel][0]}{pixel}")
        text.append(f"  {name}: {' '.join(said)}; strides {tensor.stride()}")
    note = "The numbers are the pixels, row by row. The shape is (images, channels, height, width) in both."
    return View("memory formats", "\n".join([*text, note]), headline("One image, two orders in memory") + str(svg) + quiet(note))


def _cell(svg: Svg, x, y, wide, high, colour, words, size=11) -> None:
    svg.rect(x, y, wide, high, colour, opacity=0.35, radius=2)
    svg.text(x + wide / 2, y + high / 2 + 4, words, size=size, anchor="middle")


def sums() -> View:
    """What a convolution reads for one output pixel: all channels of nine pixels."""
    svg = Svg(900, 126, "what one output number of a 3x3 convolution reads")
    for line, (name, runs, each, colour) in enumerate((("NCHW", 24, 1, SKY), ("NHWC", 3, 8, BLUE))):
        y = 8 + line * 62
        svg.text(2, y + 22, name, weight=600)
        for run in range(runs):
            wide = 780 / runs
            svg.rect(110 + run * wide, y, wide - 6 if each > 1 else 780 / 24 / 3, 32, colour, opacity=0.85, radius=2)
        said = (
            "many short reads: three neighbours of a row, for each channel and row"
            if each == 1
            else "a read for each row: three neighbours with all their channels, side by side"
        )
        svg.text(110, y + 48, said, size=12, opacity=0.85)
    text = (
        "One output number of a 3x3 convolution reads 9 pixels of all channels.\n"
        "  NCHW: three numbers side by side, for each channel and row\n"
        "  NHWC: three pixels with all their channels side by side, for each row"
    )
    return View(
        "reads of a convolution",
        text,
        headline("What one output number of a 3 x 3 convolution reads", "8 channels drawn") + str(svg),
    )


@tables.numbers(channels=(1, 4096), pixels=(1, 1024), batch=(0, 4096), repeat=(1, 1000))
def widths(channels: Sequence[int] = (60, 63, 64, 65, 72), pixels: int = 28, batch: int = 0, repeat: int = 30) -> View:
    """Times a 3x3 convolution with as many channels in as out, in half precision and channels-last, on the GPU or on one core."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.bfloat16
    batch = batch or (256 if device == "cuda" else 8)
    with machine.one_thread():
        speed = [_speed(width, pixels, batch, device, dtype, repeat) for width in channels]
    where = "the GPU" if device == "cuda" else "one core"
    what = f"{batch} images of {pixels} x {pixels}, {str(dtype).removeprefix('torch.')}, channels-last, on {where}"
    head = ["channels", *(f"{width}{' = 8 x ' + str(width // 8) if width % 8 == 0 else ''}" for width in channels)]
    rows = [("useful work", "GFLOP/s", speed)]
    return tables.bars("A 3 x 3 convolution with as many channels in as out", head, rows, BLUE, [what])


def _speed(width: int, pixels: int, batch: int, device: str, dtype, repeat: int) -> float:
    """GFLOP/s in the fastest of several tries, after two that do not count."""
    import torch

    layer = torch.nn.Conv2d(width, width, 3, padding=1, bias=False).to(device, dtype, memory_format=torch.channels_last)
    images = torch.randn(batch, width, pixels, pixels, device=device).to(dtype, memory_format=torch.channels_last)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    best = float("inf")
    with torch.no_grad():
        for number in range(repeat + 2):
            wait()
            began = time.perf_counter()
            layer(images)
            wait()
            if number >= 2:
                best = min(best, time.perf_counter() - began)
    return 2 * 9 * width * width * pixels * pixels * batch / best / 1e9
