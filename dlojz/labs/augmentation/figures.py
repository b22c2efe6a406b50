"""Figures for the notebook about data augmentation. Pictures are drawn by the kit, and mixed by the finished functions of
augment.py, but in `yours`, which takes the trainee's own.
"""

from __future__ import annotations

import argparse
import base64
import functools
import io
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ...data import drawing
from ...system import machine, paths, workspace
from ...ui import charts, tables, words
from ...ui.charts import Line
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREEN, GREY, INK, ORANGE, PINK, SKY, VERMILLION
from ...ui.svg import Svg
from .. import catalogue

SIZE = 144  # pixels of a picture
KINDS = ("lighthouse", "snowman", "sailboat", "mushroom", "windmill", "cactus")
COLOURS = dict(zip(KINDS, (BLUE, ORANGE, GREEN, PINK, SKY, VERMILLION)))
STRENGTHS = {"ShearX": "slope", "ShearY": "slope", "TranslateX": "pixels", "TranslateY": "pixels", "Rotate": "degrees",
             "Brightness": "of the factor 1", "Color": "of the factor 1", "Contrast": "of the factor 1",
             "Sharpness": "of the factor 1", "Posterize": "bits kept", "Solarize": "of full brightness: inverted above"}


def finished():
    """The kit's own augment.py."""
    return paths.module(catalogue.reference("augment.py"))


@functools.lru_cache(maxsize=4)
def pictures(size: int = SIZE):
    """One picture of each kind, uint8 (6, 3, size, size)."""
    import numpy as np
    import torch

    drawn = []
    for number, kind in enumerate(KINDS):
        picture = drawing.draw(drawing.CLASSES.index(kind), 31 + number)
        side = min(picture.size)
        left, top = ((edge - side) // 2 for edge in picture.size)
        square = picture.convert("RGB").crop((left, top, left + side, top + side)).resize((size, size))
        drawn.append(torch.from_numpy(np.array(square)).permute(2, 0, 1))
    return torch.stack(drawn).contiguous()


def _place(svg: Svg, image, x: float, y: float, side: float, tip: str = "") -> None:
    """A uint8 image (3, H, W) in a figure."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(file, "JPEG", quality=88)
    data = base64.b64encode(file.getvalue()).decode()
    title, where = f"<title>{tip}</title>" if tip else "", f'x="{x:.1f}" y="{y:.1f}" width="{side:g}" height="{side:g}"'
    svg.add(f'<image {where} href="data:image/jpeg;base64,{data}">{title}</image>')


def _said(shares: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {words.share(share)}" for name, share in shares)


def _labelled(svg: Svg, x: float, y: float, side: float, shares: Sequence[tuple[str, float]]) -> None:
    """A bar of the shares of a soft label, and their names below."""
    at = x
    for line, (name, share) in enumerate(shares):
        svg.rect(at, y, share * side, 7, COLOURS[name], f"{name} {share:.0%}")
        at += share * side
        svg.text(x, y + 22 + 14 * line, f"{name} {words.share(share)}", size=11)


def _shares(row) -> list[tuple[str, float]]:
    """Of a soft label, or of a label: the classes with a share worth naming, the largest first."""
    if row.dim() == 0:
        return [(KINDS[int(row)], 1.0)]
    found = [(KINDS[label], share) for label, share in enumerate(row.tolist()) if share > 0.004]
    return sorted(found, key=lambda each: -each[1])[:3]


# --------------------------------------------------------------------------------------------------------------- one image
@tables.numbers(magnitude=(0, 30))
def transforms(magnitude: int = 9) -> View:
    """Each of RandAugment's transforms alone, at one magnitude of its scale from 0 to 30."""
    import torch
    from torchvision.transforms import v2

    image = pictures()[0]
    space = v2.RandAugment()._AUGMENTATION_SPACE
    side, across = 116, 7
    svg = Svg(7 * (side + 12), 2 * (side + 40), "the transforms of RandAugment")
    rows = []
    for number, (name, (strengths, _)) in enumerate(space.items()):
        only = v2.RandAugment(1, magnitude)
        only._AUGMENTATION_SPACE = {name: (strengths, False)}  # without a random sign
        with torch.random.fork_rng(devices=[]):
            changed = only(image)
        values = strengths(31, SIZE, SIZE)
        strength = "-" if values is None else f"{float(values[magnitude]):.3g} {STRENGTHS[name]}"
        far = (changed.float() - image.float()).abs().mean().item()
        x, y = number % across * (side + 12), number // across * (side + 40)
        _place(svg, changed, x, y, side, f"{name}: {strength}")
        svg.text(x, y + side + 15, name, weight=600)
        svg.text(x, y + side + 29, strength if len(strength) < 19 else strength.split(" ")[0], size=10.5, opacity=0.75)
        rows.append([name, strength, f"{far:.1f}"])
    said = f"Magnitude {magnitude} of 30. Those that go two ways are shown one way. RandAugment draws two of them for each image."
    title = "RandAugment's transforms, each alone"
    text = [title, table(["transform", "strength", "mean change of a pixel, of 255"], rows), said]
    return View("RandAugment", "\n".join(text), headline(title) + str(svg) + quiet(said))


@tables.numbers(count=(1, 7))
def drawn(count: int = 7) -> View:
    """The same picture, several times through the whole of RandAugment."""
    import torch

    transform = finished().of_image(argparse.Namespace(augment="randaugment"))
    side = 116
    svg = Svg(count * (side + 12), side + 22, "the same picture through RandAugment several times")
    far = []
    for number in range(count):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(number + 3)
            changed = transform(pictures()[0])
        far.append((changed.float() - pictures()[0].float()).abs().mean().item())
        _place(svg, changed, number * (side + 12), 0, side)
        svg.text(number * (side + 12), side + 15, f"seed {number + 3}", size=11, opacity=0.75)
    said = "The seed alone decides: the data set makes one of (seed, epoch, index of the image)."
    changes = ", ".join(f"{each:.0f}" for each in far)
    text = f"RandAugment, with seeds from 3 to {count + 2}: mean change of a pixel {changes} of 255.\n{said}"
    return View("RandAugment drawn", text, headline("The same picture, each time with another seed") + str(svg) + quiet(said))


# -------------------------------------------------------------------------------------------------------------- two images
def mixtures() -> View:
    """Two images, and what mixup and CutMix make of them with the same lambda."""
    import torch

    augment, images = finished(), pictures()[:2]
    targets, partner = augment.soft_labels(torch.tensor([0, 1]), len(KINDS)), torch.tensor([1, 0])
    made = [("image", images[0], targets[0]), ("partner", images[1], targets[1])]
    for share in (0.7, 0.4):
        lam = torch.tensor([share, share])
        mixed, soft = augment.mixup(images, targets, lam, partner)
        made.append((f"mixup, lambda {share}", mixed[0], soft[0]))
    for share, centre in ((0.7, (0.5, 0.45)), (0.7, (0.9, 0.9))):
        lam = torch.tensor([share, share])
        box = augment.boxes(lam, torch.tensor([centre, centre]), SIZE, SIZE)
        mixed, soft = augment.cutmix(images, targets, box, partner)
        made.append((f"CutMix, lambda {share}", mixed[0], soft[0]))
    return _row("One image and its partner, mixed", made, "The last box reaches over the border: less is replaced than lambda "
                "says, and the labels go by what was.")


def yours() -> View:
    """A batch through the mixers of augment.py as it stands in the workspace."""
    import torch

    file = workspace.find() / "augment.py"
    augment, labels = paths.module(file), torch.arange(len(KINDS))
    made = []
    for name, at in (("mixup", 4), ("cutmix", 3)):
        mixer = augment.Mixer(argparse.Namespace(augment=name, alpha=1.0, label_smoothing=0.0, seed=1), len(KINDS), 0)
        mixed, soft = mixer(pictures(), labels, at)
        names = [words.AUGMENTATIONS[name], *[""] * (len(KINDS) - 1)]
        made += zip(names, mixed, soft)
    return _row("A batch through your augment.py", made, "The bar below an image is its label. As long as fences are not "
                "written, images stay as they are.")


def _row(title: str, made: Sequence[tuple[str, object, object]], note: str, across: int = 6) -> View:
    side, high = 138, 212
    svg = Svg(across * (side + 12), -(-len(made) // across) * high, title)
    lines = [title]
    for number, (name, image, row) in enumerate(made):
        x, y, shares = number % across * (side + 12), number // across * high, _shares(row)
        svg.text(x, y + 13, name, weight=600)
        _place(svg, image, x, y + 20, side, _said(shares))
        _labelled(svg, x, y + 24 + side, side, shares)
        lines.append(f"  {name or '':<20} {_said(shares)}")
    return View(title, "\n".join([*lines, note]), headline(title) + str(svg) + quiet(note))


@tables.numbers(alphas=(0.01, 100.0), count=(100, 10_000_000))
def betas(alphas: Sequence[float] = (0.2, 1.0, 5.0), count: int = 40_000) -> View:
    """How lambda is spread, from so many draws."""
    import numpy as np

    edges = np.linspace(0, 1, 41)
    series, rows = [], []
    for alpha in alphas:
        lam = finished().draw(count, alpha, np.random.default_rng(1))[0].numpy()
        shares = np.histogram(lam, edges)[0] / count * 100
        series.append(Line(f"alpha {alpha:g}", list(zip(((edges[1:] + edges[:-1]) / 2).tolist(), shares.tolist()))))
        rows.append([f"{alpha:g}", f"{lam.mean():.2f}", words.share(float(((lam < 0.1) | (lam > 0.9)).mean())),
                     words.share(float(((lam > 0.4) & (lam < 0.6)).mean()))])
    chart = charts.lines(series, x="lambda: the share that an image keeps", y="% of the draws, in steps of 0.025", x_range=(0, 1))
    head = ["alpha", "mean", "nearly one image (below 0.1 or above 0.9)", "half and half (0.4 to 0.6)"]
    page = headline("Lambda from Beta(alpha, alpha)", f"{count:,} draws each") + chart.html() + table_html(head, rows)
    return View("lambda", "\n".join([f"Lambda from Beta(alpha, alpha), {count:,} draws each", table(head, rows)]), page)


@tables.numbers(count=(100, 1_000_000))
def border(count: int = 4000) -> View:
    """Boxes that end at the border: lambda as it was drawn, and as it is."""
    import numpy as np

    augment = finished()
    lam, _, centres = augment.draw(count, 1.0, np.random.default_rng(5))
    box = augment.boxes(lam, centres, 224, 224)
    kept = 1 - ((box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])).double() / 224**2
    half = ((1 - lam).sqrt() / 2)[:, None]
    cut = float(((centres < half) | (centres > 1 - half)).any(1).double().mean())
    svg = Svg(330, 240, "a box at the border")
    svg.rect(10, 10, 180, 180, GREY, opacity=0.25, stroke="currentColor")
    x, y, half = 10 + 0.8 * 180, 10 + 0.15 * 180, 0.6 * 180 / 2
    svg.rect(x - half, max(1, y - half), 2 * half, half + min(half, y - 1), ORANGE, opacity=0.18, stroke=ORANGE)
    svg.rect(x - half, 10, 190 - x + half, y + half - 10, ORANGE, opacity=0.75)
    svg.dot(x, y, "currentColor", 3)
    svg.text(10, 212, "lambda 0.64: the whole box has 36 % of the image,")
    svg.text(10, 228, f"what is inside of it {(0.3 + 0.2) * (0.3 + 0.15):.1%}")
    both = [Line("a box", list(zip(lam.tolist(), kept.tolist()))[:500], BLUE, marker="o", width=0, size=4),
            Line("not cut off", [(0, 0), (1, 1)], INK, width=1.2, dash=(4, 4))]
    chart = charts.lines(both, x="lambda as it was drawn", y="lambda as it is", x_range=(0, 1), y_range=(0, 1), width=540)
    drawn_ = f'<div style="display: flex; flex-wrap: wrap; gap: 16px">{svg}{chart.html()}</div>'
    said = [f"{count:,} boxes in images of 224 x 224 pixels: {cut:.0%} are cut off at the border.",
            f"Lambda has a mean of {float(lam.mean()):.2f} as it was drawn, and of {float(kept.mean()):.2f} as it is. "
            "Below the dashed line there is no dot: a box never covers more than it was meant to."]
    return View("the border", "\n".join(["CutMix at the border", *said]),
                headline("CutMix at the border") + drawn_ + "".join(map(quiet, said)))


@tables.numbers(left=(0, 20), top=(0, 20), right=(0, 20), bottom=(0, 20), width=(1, 14), height=(1, 20))
def mask(left: int = 3, top: int = 1, right: int = 8, bottom: int = 4, width: int = 10, height: int = 5) -> View:
    """How a row and a column of comparisons become a mask."""
    cell, x0, y0 = 30, 220, 64
    svg = Svg(900, y0 + height * cell + 20, "a mask from comparisons")
    columns, rows = ([low <= place < high for place in range(size)] for low, high, size in
                     ((left, right, width), (top, bottom, height)))
    svg.text(x0, 18, f"(left <= x) & (x < right), for x = 0 … {width - 1}:  (B, 1, W)", weight=600)
    svg.text(2, y0 + 20, "(top <= y) & (y < bottom)", weight=600)
    svg.text(2, y0 + 38, f"for y = 0 … {height - 1}:  (B, H, 1)", weight=600)
    svg.text(x0 + 60 + width * cell, y0 + 20, "both:  (B, H, W)", weight=600)
    svg.text(x0 + 60 + width * cell, y0 + 40, "one mask for each image, and a new axis")
    svg.text(x0 + 60 + width * cell, y0 + 57, "for the three channels: (B, 1, H, W)")
    for x, yes in enumerate(columns):
        svg.rect(x0 + x * cell, 28, cell - 2, 20, SKY if yes else GREY, opacity=0.9 if yes else 0.2)
    for y, within in enumerate(rows):
        svg.rect(x0 - 32, y0 + y * cell, 20, cell - 2, GREEN if within else GREY, opacity=0.9 if within else 0.2)
        for x, yes in enumerate(columns):
            inside = yes and within
            svg.rect(x0 + x * cell, y0 + y * cell, cell - 2, cell - 2, ORANGE if inside else GREY, opacity=0.9 if inside else 0.2)
    drawn_ = ["".join("#" if yes and within else "." for yes in columns) for within in rows]
    text = ["A mask from comparisons, for a box with left 3, top 1, right 8, bottom 4:",
            f"       {''.join('x' if yes else '-' for yes in columns)}   (left <= x) & (x < right): (B, 1, W)",
            *(f"    {'y' if within else '-'}  {line}" for within, line in zip(rows, drawn_)),
            "    rows where (top <= y) & (y < bottom): (B, H, 1); both: (B, H, W)"]
    return View("a mask", "\n".join(text), headline("From four comparisons to a mask", "for one image of the batch") + str(svg))


def targets() -> View:
    """The label of one image in five ways."""
    import torch

    augment, classes = finished(), 5
    plain, partner, lam = torch.tensor([0, 1]), torch.tensor([1, 0]), torch.tensor([0.7, 0.7])
    images = torch.zeros(2, 3, 10, 10)
    box = torch.tensor([[0, 0, 6, 5]] * 2)  # 30 % of 10 x 10 pixels
    hard, smooth = (augment.soft_labels(plain, classes, smoothing) for smoothing in (0.0, 0.1))
    ways = {"one class": hard, "label smoothing 0.1": smooth, "mixup, lambda 0.7": augment.mixup(images, hard, lam, partner)[1],
            "CutMix, 30 % replaced": augment.cutmix(images, hard, box, partner)[1],
            "mixup and smoothing": augment.mixup(images, smooth, lam, partner)[1]}
    bars, rows = [], []
    for way, found in ways.items():
        row = found[0].tolist()
        least = abs(sum(share * math.log(share) for share in row if share))
        shares = dict(zip([*KINDS[:2], "the 3 other classes"], [*row[:2], sum(row[2:])]))
        bars.append((f"{way}, loss at best {least:.2f}", shares))
        rows.append([way, *(f"{share:.2f}" for share in row), f"{least:.2f}"])
    chart = charts.stacked(bars, colours={**COLOURS, "the 3 other classes": GREY}, inside="share", total=False)
    head = ["the label of a lighthouse", "lighthouse", "snowman", "third", "fourth", "fifth", "loss at best"]
    title = "The label of a lighthouse whose partner is a snowman"
    page = headline(title, "5 classes") + chart.html()
    return View("soft labels", "\n".join([f"{title}, with 5 classes", table(head, rows)]), page)


# -------------------------------------------------------------------------------------------------------------------- costs
@tables.numbers(batches=(1, 4096), sizes=(8, 1024), repeat=(1, 1000))
def costs(batches: Sequence[int] = (), sizes: Sequence[int] = (), repeat: int = 10) -> View:
    """Times CutMix image by image and for the whole batch: on the GPU where there is one, else on one core."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    batches = batches or ((32, 64, 128, 256, 512) if device == "cuda" else (8, 16, 32, 64, 128))
    sizes, augment, found = sizes or ((64, 224) if device == "cuda" else (32, 128)), finished(), {}
    with machine.one_thread():
        for pixels in sizes:
            for count in batches:
                given = _batch(augment, count, pixels, device)
                found[pixels, count] = [(_best(functools.partial(function, *given), device, repeat), _operations(function, given))
                                        for function in (augment.cutmix, augment.cutmix_batch)]
    drawn_ = []
    for pixels in sizes:
        timed = [found[pixels, count] for count in batches]
        series = [Line(name, [(count, each[which][0] * 1000) for count, each in zip(batches, timed)], colour, marker="o",
                       tips=[f"{count} images of {pixels} px: {words.seconds(each[which][0])}, {each[which][1]:,} operations"
                             for count, each in zip(batches, timed)])
                  for which, (name, colour) in enumerate((("image by image", VERMILLION), ("whole batch", BLUE)))]
        drawn_.append(charts.lines(series, title=f"{pixels} px", x="images in the batch", y="ms a batch", x_ticks=batches,
                                   x_range=(0, max(batches))))
    head = ["pixels", "images", "image by image", "whole batch", "ratio", "operations: image by image", "whole batch "]
    rows = [[str(pixels), str(count), words.seconds(loop[0]), words.seconds(whole[0]), words.ratio(loop[0] / whole[0]),
             f"{loop[1]:,}", f"{whole[1]:,}"] for (pixels, count), (loop, whole) in found.items()]
    what = f"uint8 images, {torch.cuda.get_device_name() if device == 'cuda' else 'on one core'}, the best of {repeat}"
    page = headline("CutMix, timed now", what) + charts.grid(*drawn_).html() + table_html(head, rows)
    return View("CutMix, timed", "\n".join([f"CutMix, timed now: {what}", table(head, rows)]), page)


def _batch(augment, count: int, pixels: int, device: str):
    import numpy as np
    import torch

    images = torch.randint(0, 256, (count, 3, pixels, pixels), dtype=torch.uint8)
    lam, partner, centres = augment.draw(count, 1.0, np.random.default_rng(count))
    box, soft = augment.boxes(lam, centres, pixels, pixels), augment.soft_labels(torch.arange(count) % 1000, 1000)
    return [tensor.to(device) for tensor in (images, soft, box, partner)]


def _best(function: Callable, device: str, repeat: int) -> float:
    """Seconds of the fastest of several calls, after one that does not count."""
    import torch

    wait, found = torch.cuda.synchronize if device == "cuda" else lambda: None, []
    for _ in range(repeat + 1):
        wait()
        began = time.perf_counter()
        function()
        wait()
        found.append(time.perf_counter() - began)
    return min(found[1:])


def _operations(function: Callable, given) -> int:
    """How many operations torch is asked for."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            self.count += 1
            return operation(*args, **(kwargs or {}))

    with Counting() as counting:
        function(*given)
    return counting.count


@tables.numbers(pixels=(8, 1024), count=(1, 1000), speeds=(1, 1_000_000))
def loading(pixels: int = 224, count: int = 12, speeds: Sequence[int] = (500, 2000, 4000)) -> View:
    """What one core of a loader needs for an image, step by step, timed now; and how many such cores feed a device."""
    import torch
    from torch.utils.data import default_collate

    from ... import data

    augment = finished()
    transform = augment.of_image(argparse.Namespace(augment="randaugment"))
    mixer = augment.Mixer(argparse.Namespace(augment="mixup-cpu", alpha=0.2, label_smoothing=0.0, seed=1), 10, 0)
    with machine.one_thread(), tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):  # as in a worker
        files = [Path(folder) / f"{number}.jpg" for number in range(count)]
        for number, file in enumerate(files):
            drawing.draw(number % len(drawing.CLASSES), number).convert("RGB").save(file, "JPEG", quality=90)
        size = sum(file.stat().st_size for file in files) / count

        def read():
            return [(data.read_image(file, pixels, data.centre_crop), 0) for file in files]

        read()
        samples = read()
        one, two, three, four = (_best(each, "cpu", 4) / count * 1000 for each in (
            read, lambda: [transform(image) for image, _ in samples], lambda: default_collate(samples),
            lambda: mixer.collate(samples)))
    ways = [("decode, crop, resize, batch", one + three), ("and RandAugment", one + two + three),
            ("and mixup in the loader", one + four), ("and both", one + two + four)]
    head = ["the loader's work", "ms an image", "images/s a core", *(f"cores for {speed:,} images/s" for speed in speeds)]
    rows = [[name, f"{each:.2f}", words.number(1000 / each), *(f"{each * speed / 1000:.1f}" for speed in speeds)]
            for name, each in ways]
    longest = max(each for _, each in ways)
    bars = {"ms an image": [each / longest for _, each in ways]}
    what = f"JPEG files of {size / 1000:.0f} kB to {pixels} x {pixels}, one core, timed now"
    page = headline("What a core of the loader does for an image", what) + table_html(head, rows, bars)
    return View("the loader's work", "\n".join([f"What a core of the loader does for an image: {what}", table(head, rows)]), page)
