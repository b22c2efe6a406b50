"""Figures about what is read and how: decoders side by side, files against shards, and what a round trip costs."""

from __future__ import annotations

import io
import math
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...jobs import runs
from ...system.errors import UsageError
from ...ui import charts, tables, words
from ...ui.charts import Line, Rule
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREY, INK, ORANGE
from ..dataloader.figures import seconds_to_load

FILES, SHARDS = ORANGE, BLUE

# --- decoders --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decoder:
    """A way from the content of a JPEG file to pixels: ``work(content, size)`` gives a uint8 or float tensor (3, size, size).
    ``lacking``: what to say where it cannot be imported."""

    name: str
    work: Callable
    lacking: str = ""


@dataclass(frozen=True)
class Decoded:
    """``speed``: images/s of one core (of a GPU: of its batches); ``apart``: mean difference to the first decoder, of 255."""

    name: str
    speed: float | None
    apart: float | None = None
    lacking: str = ""


def photo_files(count: int) -> list[Path]:
    """Some of the kit's photos, of all classes."""
    from ...data import photos

    found = sorted(photos.folder().glob("train/*/*.jpg"))
    return found[:: max(1, len(found) // count)][:count]


def _square(pixels, size: int):
    """The centre square of an (H, W, 3) array, resized: what `dlojz.data` does for validation."""
    import torch
    from torch.nn.functional import interpolate

    from ...data import centre_crop

    left, top, width, height = centre_crop(pixels.shape[1], pixels.shape[0])
    image = torch.as_tensor(pixels[top : top + height, left : left + width])[None].permute(0, 3, 1, 2)
    resized = interpolate(image.float() if image.is_cuda else image, (size, size), mode="bilinear", antialias=True)[0]
    return resized.round().clamp(0, 255).to(torch.uint8) if image.is_cuda else resized  # a GPU resizes floats only


def _enough(width: int, height: int, size: int) -> tuple[int, int]:
    """Of how many pixels the whole image must be for its centre square to have ``size``."""
    from ...data import centre_crop

    _, _, wide, high = centre_crop(width, height)
    return math.ceil(width * size / wide), math.ceil(height * size / high)


def _pillow(content: bytes, size: int, draft: bool = False):
    import numpy as np
    from PIL import Image

    image = Image.open(io.BytesIO(content))
    if draft:
        image.draft("RGB", _enough(*image.size, size))
    return _square(np.array(image.convert("RGB")), size)


def _floats(content: bytes, size: int):
    """What many scripts do in their workers: floats, minus the mean, over the standard deviation."""
    import torch

    from ...data import MEAN, STD

    mean, deviation = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    return (_pillow(content, size).float() / 255 - mean) / deviation


def _simplejpeg(content: bytes, size: int):
    import simplejpeg

    height, width, *_ = simplejpeg.decode_jpeg_header(content)
    wide, high = _enough(width, height, size)
    return _square(simplejpeg.decode_jpeg(content, min_width=wide, min_height=high, min_factor=1), size)


def _torchvision(content: bytes, size: int):
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg

    found = decode_jpeg(torch.frombuffer(bytearray(content), dtype=torch.uint8), mode=ImageReadMode.RGB)
    return _square(found.permute(1, 2, 0), size)


DECODERS = (
    Decoder("Pillow", _pillow), Decoder("Pillow, floats in the worker", _floats),
    Decoder("Pillow, draft mode", partial(_pillow, draft=True)),
    Decoder("simplejpeg", _simplejpeg, 'not installed: pip install "dlojz[data]"'),
    Decoder("torchvision.io", _torchvision, "not in this torchvision: its successor is TorchCodec"),
)


def measure(decoder: Decoder, contents: Sequence[bytes], size: int, like: Sequence | None = None) -> Decoded:
    """Decodes all of them twice and takes the better time of one core. ``like``: tensors to compare with."""
    try:
        images = [decoder.work(content, size) for content in contents]
    except Exception as error:  # a decoder that is not installed, or was built without JPEG
        lacking = decoder.lacking if isinstance(error, ImportError) else ""
        return Decoded(decoder.name, None, lacking=lacking or f"does not work here: {type(error).__name__}")
    seconds = _best(lambda: [decoder.work(content, size) for content in contents], time.process_time)
    comparable = like and images[0].dtype == like[0].dtype
    return Decoded(decoder.name, len(contents) / seconds, _apart(images, like) if comparable else None)


def _best(work: Callable, clock: Callable[[], float], times: int = 2) -> float:
    """Seconds, by this clock, of the fastest of so many calls."""
    taken = []
    for _ in range(times):
        began = clock()
        work()
        taken.append(clock() - began)
    return min(taken)


def _apart(images: Sequence, others: Sequence) -> float:
    return statistics.fmean((one.cpu().float() - other.float()).abs().mean().item() for one, other in zip(images, others))


def on_gpu(contents: Sequence[bytes], size: int, like: Sequence) -> Decoded | None:
    """nvJPEG by way of torchvision: the files of a batch go to the GPU, and are decoded and resized there. None without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return None
    name = "nvJPEG, on the GPU"
    try:
        from torchvision.io import ImageReadMode, decode_jpeg

        batch = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in contents]

        def work():
            decoded = decode_jpeg(batch, mode=ImageReadMode.RGB, device="cuda")
            images = [_square(image.permute(1, 2, 0), size) for image in decoded]
            torch.cuda.synchronize()
            return images

        images = work()
        best = _best(work, time.perf_counter, 3)
    except (ImportError, RuntimeError) as error:
        return Decoded(name, None, lacking=f"does not work here: {type(error).__name__}")
    return Decoded(name, len(contents) / best, _apart(images, like))


@tables.numbers(size=(8, 1024), count=(1, 1000))
def decoders(size: int = 64, count: int = 24) -> View:
    """The decoders on some photos: images/s of one core, and how far their pixels are from Pillow's."""
    import torch

    contents = [file.read_bytes() for file in photo_files(count)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torchvision's decoders are deprecated since 0.29
            like = [_pillow(content, size) for content in contents]
            found = [measure(decoder, contents, size, like) for decoder in DECODERS]
            gpu = on_gpu(contents, size, like)
    finally:
        torch.set_num_threads(threads)
    found += [gpu] if gpu else []
    return decoders_view(found, size, sum(map(len, contents)) / len(contents))


def decoders_view(found: Sequence[Decoded], size: int, mean_bytes: float) -> View:
    head = ["decoder", "images/s", "apart", ""]
    cells, bars = [], {"images/s": []}
    fastest = max(each.speed or 0 for each in found)
    for each in found:
        speed = "-" if each.speed is None else words.number(each.speed)
        cells.append([each.name, speed, "-" if each.apart is None else f"{each.apart:.2f}", each.lacking])
        bars["images/s"].append((each.speed or 0) / fastest)
    title = "From a JPEG file to pixels, on one core"
    said = f"Photos of {mean_bytes / 1000:.0f} kB, to {size} px. apart: mean difference of pixels to Pillow's, on a scale of 255."
    text = "\n".join([title, table(head, cells), said])
    return View(title, text, headline(title) + table_html(head, cells, bars) + quiet(said))


# --- files and shards ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Calls:
    """What reading ``images`` came to: files opened, reads that brought something, bytes. None: the kernel does not say."""

    name: str
    images: int
    opened: int
    reads: int | None
    bytes: int

    @property
    def trips(self) -> float:
        """Round trips an image, where nothing is cached: an opening and a read cost one each."""
        return (self.opened + (self.opened if self.reads is None else self.reads)) / self.images


def _kernel_reads() -> int | None:
    """Reads of this thread so far, this one included."""
    try:
        with open("/proc/thread-self/io", "rb", buffering=0) as file:
            return next(int(line.split()[1]) for line in file.read(1000).splitlines() if line.startswith(b"syscr"))
    except (OSError, StopIteration, ValueError):
        return None


@contextmanager
def counted():
    """A dict that is filled when the block is left: ``opened`` by its opener, ``reads`` as the kernel has counted them."""
    found = {"opened": 0}

    def opener(path, mode="rb", buffering=0):
        found["opened"] += 1
        return open(path, mode, buffering)

    found["open"] = opener
    first, before = _kernel_reads(), _kernel_reads()
    yield found
    after = _kernel_reads()
    if None not in (first, before, after):
        found["reads"] = after - before - (before - first)  # without what asking costs


def count_calls(files: Sequence[Path], shards: Sequence[Path]) -> tuple[Calls, Calls]:
    """The same images, from files of their own and from tar files. The read that finds the end of a file brings nothing."""
    from ...data.shards import members

    with counted() as one:
        held = 0
        for file in files:
            with one["open"](file) as opened:
                held += len(opened.read())
    with counted() as many:
        kept = [len(content) for shard in shards for _, content in members(shard, many["open"])]
    every = (("a file each", len(files), one, held), ("tar shards", len(kept), many, sum(kept)))
    files_, shards_ = (Calls(name, images, found["opened"], found["reads"] - found["opened"] if "reads" in found else None, size)
                       for name, images, found, size in every)
    return files_, shards_


def made_and_counted(count: int = 200) -> tuple[Calls, Calls]:
    """Some photos as files and as one shard in a temporary folder, read both ways."""
    from ...data import shards

    with tempfile.TemporaryDirectory() as folder:
        for file in photo_files(count):
            target = Path(folder) / "some" / file.parent.name / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
        written = shards.write(Path(folder) / "some", Path(folder) / "shards", images=1000)
        return count_calls(sorted((Path(folder) / "some").glob("*/*")), written)


@tables.numbers(count=(1, 1000))
def requests(count: int = 200, against: str = "feed_random") -> View:
    """What the file system is asked for when images come from files of their own, and when they come out of tar shards."""
    found = made_and_counted(count)
    speed = _speed(against)
    head = ["", "images", "opened", "reads", "MB", "round trips an image"]
    cells = [[each.name, str(each.images), str(each.opened), "not counted here" if each.reads is None else str(each.reads),
              f"{each.bytes / 1e6:.1f}", f"{each.trips:.2f}"] for each in found]
    said = ["Reads are those counted by the kernel. A round trip: an opening or a read of what is not cached."]
    if speed:
        mean = found[0].bytes / found[0].images
        asked = " or ".join(f"{speed * each.trips:,.0f} round trips a second ({each.name})" for each in found)
        said.append(f"At the {speed:,.0f} images/s of {against}: {speed * mean / 1e6:,.1f} MB/s, and {asked}.")
    title = "What a file system is asked for"
    text = "\n".join([title, table(head, cells), *said])
    return View(title, text, headline(title) + table_html(head, cells) + "".join(map(quiet, said)))


def _speed(name: str) -> float | None:
    """Images/s of a run, where there is one that has measured it."""
    try:
        return runs.one(name).numbers.get("images_per_second")
    except UsageError:
        return None


def first_read(files: Sequence[Path]) -> float | None:
    """Median seconds of opening and reading a file after its pages were dropped from memory; None where that cannot be done."""
    if not hasattr(os, "posix_fadvise"):
        return None
    taken = []
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
        began = time.perf_counter()
        descriptor = os.open(file, os.O_RDONLY)
        os.read(descriptor, 1 << 22)
        os.close(descriptor)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def speed_at(latency: float, trips: float, decoding: float, workers: int) -> float:
    """Images/s of so many workers that each wait for their round trips and then decode: a model."""
    return workers / (decoding + trips * latency)


@tables.numbers(workers=(1, 1024), size=(8, 1024))
def latency(workers: int = 2, size: int = 64, against: str = "feed_random", calls: tuple[Calls, Calls] | None = None,
            decoding: float | None = None, here: float | None = None) -> View:
    """Images/s against the time of a round trip, for files and for shards: a model with what was counted and measured here."""
    calls = calls or made_and_counted(100)
    decoding = decoding or seconds_to_load(size, 32)
    here = here or first_read(photo_files(50))
    speed = _speed(against)
    trip = here / calls[0].trips if here else None
    trips = [10 ** (power / 20) for power in range(-100, -39)]  # 10 us to 10 ms
    series = [Line(each.name, [(x, speed_at(x, each.trips, decoding, workers)) for x in trips], colour)
              for each, colour in zip(calls, (FILES, SHARDS))]
    rules = [Rule(speed, f"{against}: {words.number(speed)}", GREY)] if speed else []
    rules += [Rule(x=min(max(trip, 1e-5), 1e-2), words="measured here", colour=INK)] if trip else []
    times = [1e-5, 1e-4, 1e-3, 1e-2]
    chart = charts.lines(series, x="time of a round trip to the file system", y=f"images/s, {words.counted(workers, 'worker')}",
                         log="x", x_ticks=times, say_x=words.seconds, x_range=(1e-5, 1.3e-2), rules=rules)
    head = ["a round trip", *(words.seconds(value) for value in times)]
    cells = [[each.name, *(words.number(speed_at(value, each.trips, decoding, workers)) for value in times)] for each in calls]
    said = [f"A model: each worker waits {calls[0].trips:.2f} round trips for a file, {calls[1].trips:.2f} for an image out of a "
            f"shard, then decodes for {decoding * 1000:.2f} ms (measured)."]
    if trip:
        said.append(f"Measured here: {words.seconds(here)} to open and read a photo after its pages were dropped, "
                    f"{words.seconds(trip)} a round trip.")
    title = "What a round trip costs"
    page = headline(title, "images/s") + chart.html()
    text = "\n".join([f"{title} (images/s of {words.counted(workers, 'worker')})", table(head, cells), *said])
    return View(title, text, page + "".join(map(quiet, said)))
