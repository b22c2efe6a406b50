"""Images of 32 pixels in memory: CIFAR-10 where the site has it, and a set that the kit draws in seconds.

    --data tiny        ten kinds of shapes, drawn anew by each process: 50,000 where there is a GPU, else 6,000
    --data cifar10     found in the site's data folder, or beside a path: a folder, or the archive as its authors give it
"""

from __future__ import annotations

import math
import os
import pickle
import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate
from torch.utils.data import Dataset

from ..system import sites
from ..system.errors import DataError, UsageError

SIZE = 32
NAMES = ("tiny", "cifar10")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
IMAGES = {True: 50_000, False: 6_000}  # of tiny, for training: with a GPU, without
VALIDATION = {True: 10_000, False: 1_000}
AT_ONCE = 1_000  # images that are drawn or resized at a time
EDGE = 4  # pixels by which a training image is shifted at most
ARCHIVE, FOLDER = "cifar-10-python.tar.gz", "cifar-10-batches-py"
BATCHES = {"train": [f"data_batch_{number}" for number in range(1, 6)], "val": ["test_batch"]}
NOT_THERE = (f"expected the folder {FOLDER} or the archive {ARCHIVE} (cs.toronto.edu/~kriz/cifar.html), in the site's data "
             "folder (`data` in its file) or as --data PATH; download it where you may, not in a job. `--data tiny` needs none")


class SmallImages(Dataset):
    """``[i]`` is (uint8 tensor (3, image_size, image_size), label), from ``images``, uint8 (N, 3, 32, 32), and ``labels``, int64.

    A training image is shifted by up to 4 pixels, the rim repeated, and mirrored half of the time. The random numbers of an
    image come from (seed, epoch, index) alone, as those of `ImageFolder`. ``folder``: where the images are from, for messages.
    """

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, classes: tuple[str, ...], folder, training: bool,
                 image_size: int = SIZE, seed: int = 0, transform: Callable | None = None):
        self.images, self.labels, self.classes, self.folder = images, labels, list(classes), folder
        self.training, self.seed, self.transform = training, seed, transform
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # with the workers that are already running, too
        if image_size != SIZE:
            self.images = torch.cat([interpolate(part, (image_size, image_size), mode="bilinear", antialias=True)
                                     for part in images.split(AT_ONCE)])
        self.edge, self.places = EDGE * image_size // SIZE, torch.arange(image_size)

    def set_epoch(self, epoch: int) -> None:
        """Other shifts from here on."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} of {len(self)} images")
        image, label = self.images[index], int(self.labels[index])
        if not self.training:
            return image, label
        rng = random.Random((self.seed << 80) + (int(self._epoch) << 48) + int(index))
        across, down = ((self.places + rng.randint(-self.edge, self.edge)).clamp(0, len(self.places) - 1) for _ in "xy")
        image = image[:, down][:, :, across.flip(0) if rng.random() < 0.5 else across]
        if self.transform is None:
            return image, label
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(rng.getrandbits(63))
            return self.transform(image), label


def dataset(source: str | Path, split: str, image_size: int, seed: int = 0, transform: Callable | None = None) -> SmallImages:
    """The ``split`` ("train" or "val") of "tiny" or "cifar10", or of a path to the files of the latter. Raises UsageError."""
    training = split == "train"
    if str(source) == "tiny":
        gpu = sites.has_gpu()
        count = (IMAGES if training else VALIDATION)[gpu]
        return SmallImages(*drawn(count, 1 if training else 2), tuple(SHAPES), "tiny", training, image_size, seed, transform)
    place = find_cifar10() if str(source) == "cifar10" else cifar10_at(source)
    return SmallImages(*cifar10(place, split), CIFAR10, place, training, image_size, seed, transform)


# ---------------------------------------------------------------------------------------------------------------- CIFAR-10
def is_small(source: str | Path) -> bool:
    """Whether `dataset` knows these images."""
    return str(source) in NAMES or cifar10_at(source) is not None


def cifar10_at(source: str | Path) -> Path | None:
    """CIFAR-10 as its authors give it: this path, or a folder or archive in it; None where there is neither."""
    path = Path(source)
    return next((place for place in (path, path / FOLDER, path / ARCHIVE) if (place / BATCHES["val"][0]).is_file() or (
        place.is_file() and place.name.endswith((".tar.gz", ".tgz", ".tar")))), None)


def find_cifar10() -> Path:
    """The folder or archive of CIFAR-10 in the data folder of the site in use. Raises UsageError where there is none."""
    folder = sites.current().folder("data")
    if folder is None or not folder.is_dir():
        where = f"there is no folder {folder}" if folder else f"the site {sites.current().name} names no data folder"
        raise UsageError(f"--data cifar10: {where}; {NOT_THERE}")
    try:
        near = [folder, *(Path(entry.path) for entry in os.scandir(folder)
                          if entry.name.lower().replace("-", "").replace("_", "").startswith("cifar10") and entry.is_dir())]
    except OSError as error:
        raise UsageError(f"--data cifar10: cannot read {folder}: {error.strerror}; {NOT_THERE}") from None
    if place := next(filter(None, map(cifar10_at, near)), None):
        return place
    raise UsageError(f"--data cifar10: it is not in {folder}; {NOT_THERE}")


def cifar10(place: Path, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images, uint8 (N, 3, 32, 32), and labels, int64, from the authors' folder or archive. Raises DataError."""
    images, labels = [], []
    try:
        for batch in _batches(place, BATCHES[split]):
            images.append(np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, SIZE, SIZE))
            labels += batch[b"labels"]
        return torch.from_numpy(np.concatenate(images)), torch.tensor(labels)
    except (OSError, EOFError, KeyError, ValueError, TypeError, tarfile.TarError, pickle.UnpicklingError) as error:
        raise DataError(f"{place} cannot be read as CIFAR-10 ({error}): unpack or copy it again") from None


def _batches(place: Path, names: list[str]) -> Iterator[dict]:
    if place.is_dir():
        for name in names:
            with open(place / name, "rb") as file:
                yield _Arrays(file, encoding="bytes").load()
        return
    with tarfile.open(place) as archive:
        for name in names:
            yield _Arrays(archive.extractfile(f"{FOLDER}/{name}"), encoding="bytes").load()


class _Arrays(pickle.Unpickler):
    """A pickle may call anything. One of CIFAR-10 needs what makes an array of numpy, and no more."""

    def find_class(self, module, name):
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.ndarray.__reduce__(np.zeros(0))[0]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which no file of CIFAR-10 does")


# ----------------------------------------------------------------------------------------------------------- drawn by the kit
def drawn(count: int, seed: int, device="cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """``count`` images, uint8 (count, 3, 32, 32), each with one of SHAPES in any place, size, turn and colour, and labels, int64.

    The background has waves, a shade, grain, and two strokes that belong to nothing; the shape's colour may be close to it.
    The same seed and device give the same images.
    """
    generator = torch.Generator(device).manual_seed(seed)
    images = torch.empty(count, 3, SIZE, SIZE, dtype=torch.uint8, device=device)
    labels = torch.randint(len(SHAPES), (count,), generator=generator, device=device)
    for first in range(0, count, AT_ONCE):
        part = slice(first, first + AT_ONCE)
        images[part] = _draw(labels[part], generator)
    return images, labels


def _draw(labels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    count, device = len(labels), labels.device

    def between(low, high, *shape):
        return low + (high - low) * torch.rand(count, *(shape or (1, 1)), generator=generator, device=device)

    axis = torch.linspace(-1, 1, SIZE, device=device)
    y, x = axis[:, None], axis[None]  # (32, 1), (1, 32): of a pixel, from -1 to 1
    turn, size = between(-0.4, 0.4), between(0.5, 0.8)
    dx, dy = (x - between(-0.25, 0.25)) / size, (y - between(-0.25, 0.25)) / size
    u, v = dx * turn.cos() + dy * turn.sin(), dy * turn.cos() - dx * turn.sin()  # of a pixel, seen from the shape
    far = _distance(labels, u, v)
    inside = (0.5 - far * size * SIZE / 2).clamp(0, 1)[:, None]  # its edge is as wide as a pixel

    ground = between(0.15, 0.85, 3, 1, 1)
    colour = (ground + between(0.4, 0.8, 1, 1, 1) * (2 * between(0, 1, 3, 1, 1).round() - 1)).clamp(0, 1)
    waves = (between(2, 9) * x + between(-9, 9) * y + between(0, 6.3)).sin()[:, None]
    shade = (between(-0.2, 0.2) * x + between(-0.2, 0.2) * y)[:, None]
    image = ground + between(0.0, 0.1, 1, 1, 1) * waves + shade
    for _ in range(2):
        way = between(0, math.pi)
        stroke = ((x * way.cos() + y * way.sin() - between(-0.8, 0.8)).abs() < between(0.03, 0.09))[:, None]
        image = torch.where(stroke, between(0, 1, 3, 1, 1), image)
    image = torch.lerp(image, colour + 0.5 * shade, inside * between(0.75, 1, 1, 1, 1))
    grain = torch.randn(count, 3, SIZE, SIZE, generator=generator, device=device)
    return ((image + between(0.02, 0.06, 1, 1, 1) * grain) * 255).clamp(0, 255).to(torch.uint8)


def _distance(labels: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """How far each pixel is outside of its image's shape (below 0: inside), in units of the shape's size; (count, 32, 32)."""
    out = torch.empty_like(u)
    for label, shape in enumerate(SHAPES.values()):
        of = labels == label
        out[of] = shape(u[of], v[of])
    return out


def _radius(x, y):
    return (x * x + y * y).sqrt()


def _square(x, y):
    return torch.maximum(x.abs(), y.abs())


def _box(x, y, width, height):
    return torch.maximum(x.abs() - width, y.abs() - height)


def _dots(x, y):
    third = 2 * math.pi / 3
    aside = (torch.remainder(torch.atan2(y, x), third) - third / 2).abs() * _radius(x, y)
    return aside.hypot(_radius(x, y) - 0.6) - 0.32


SHAPES = {
    "disc": lambda x, y: _radius(x, y) - 0.85,
    "ring": lambda x, y: (_radius(x, y) - 0.75).abs() - 0.2,
    "square": lambda x, y: _square(x, y) - 0.75,
    "triangle": lambda x, y: torch.maximum(x.abs() * 0.866 + y * 0.5, -y) - 0.5,
    "cross": lambda x, y: torch.minimum(_box(x, y, 0.9, 0.27), _box(x, y, 0.27, 0.9)),
    "star": lambda x, y: _radius(x, y) - 0.65 - 0.3 * (5 * torch.atan2(y, x)).cos(),
    "half disc": lambda x, y: torch.maximum(_radius(x, y) - 0.9, y),
    "bars": lambda x, y: torch.maximum(_square(x, y) - 0.85, 0.2 - (torch.remainder(x, 0.57) - 0.285).abs()),
    "frame": lambda x, y: (_square(x, y) - 0.65).abs() - 0.18,
    "three dots": _dots,
}
