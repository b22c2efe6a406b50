"""Images for training: folders of files, the photo set that the kit draws itself, random tensors.

    python -m dlojz.data DIR --images 20000 --mean-kb 50      # a set for benchmarks, of pictures like those of `photos`

A loader has to feed a GPU from a few cores, so an image stays uint8 from the file to the device: a worker decodes
the JPEG, crops and resizes it, and nothing else. ``normalize`` makes floats of a whole batch on the device, where it
costs next to nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import math
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch.nn.functional import interpolate
from torch.utils.data import Dataset, Sampler, Subset

from ..system import paths
from ..system.errors import DataError, UsageError
from ..system.shown import apart, say
from ..training import records
from ..training.distributed import Processes
from . import photos, small

EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
NO_CLASSES = ("__MACOSX", "@eaDir", "lost+found")  # what macOS' zip, Synology's thumbnails and ext4 leave among folders
LAYOUT = "expected DIR/train/CLASS/*.jpg and DIR/val/CLASS/*.jpg, with the same classes in both"
UNREADABLE = -100  # the label of a validation image that cannot be read: cross_entropy's ignore_index
MEAN = (0.485, 0.456, 0.406)  # of ImageNet's pixels: red, green, blue, on a scale of 0 to 1
STD = (0.229, 0.224, 0.225)
XMP = re.compile(rb"""tiff:Orientation(?:\s*=\s*["']|>)\s*([1-8])""")
TURNS = {  # what puts a photo upright, by the tag Orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

# Pillow warns of each broken EXIF tag; ImageNet has several, and none of them hurts a picture.
warnings.filterwarnings("ignore", module=r"PIL\.TiffImagePlugin")


def dataset(
    source: str | Path, split: str, image_size: int, seed: int = 0, repeat: int = 1, transform: Callable | None = None
) -> ImageFolder | small.SmallImages:
    """The ``split`` ("train" or "val") of a folder, or of ``photos``, which is drawn first where it isn't there yet; of ``tiny``,
    ``cifar10`` or the files of the latter, images of 32 pixels in memory (`small`), without ``repeat``.

    Raises UsageError where the folder isn't laid out as train/CLASS/*.jpg and val/CLASS/*.jpg.
    """
    if small.is_small(source):
        return small.dataset(source, split, image_size, seed, transform)
    folder = photos.folder() if str(source) == "photos" else paths.given(source, "photos")
    return ImageFolder(folder, split, image_size, seed, repeat, transform)


class ImageFolder(Dataset):
    """``[i]`` is (uint8 tensor (3, image_size, image_size), label).

    A training image is a random crop (8 to 100 % of the area, sides from 3:4 to 4:3), resized, and mirrored half of the
    time; a validation image is the centre square, 224/256 of the short side. The random numbers of an image come from
    (seed, epoch, index) alone: they are the same for any number of workers, and in a resumed run.

    ``repeat`` lists each training file that many times, so that an epoch of a small set lasts on a big machine.
    ``transform`` is called on the uint8 tensor. What it draws from torch's default generator depends on (seed, epoch,
    index) alone, too.

    A file that cannot be read is named once on stderr. In training the next one takes its place; in validation its
    label is -100, which ``cross_entropy`` ignores. More than 1 % of such files, and more than 10, raise DataError.

    Photos are turned the way their EXIF or XMP tag says; grey, palette, CMYK and 16-bit images become RGB; transparency is
    dropped; images above Pillow's limit of 179 million pixels count as unreadable.
    """

    def __init__(
        self,
        folder: str | Path,
        split: str,
        image_size: int,
        seed: int = 0,
        repeat: int = 1,
        transform: Callable | None = None,
    ):
        if split not in ("train", "val"):
            raise ValueError(f"split is 'train' or 'val', not {split!r}")
        self.classes = _classes(Path(folder))
        self.folder = Path(folder) / split
        self.training = split == "train"
        self.image_size = image_size
        self.seed = seed
        self.repeat = repeat if self.training else 1
        self.transform = transform
        names, labels = scan(self.folder, self.classes)
        # Two arrays, not a million tuples: a forked worker that looks at a Python object copies the page it lies in.
        self._names = np.array([os.fsencode(name) for name in names])
        self._labels = np.array(labels)
        # Shared with the workers, those that are already running too.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._skipped = torch.zeros(len(names), dtype=torch.bool).share_memory_()

    @property
    def samples(self) -> list[tuple[str, int]]:
        """(path, label) of each index, as torchvision's ImageFolder has it."""
        return [(self._path(file), int(label)) for file, label in enumerate(self._labels)] * self.repeat

    def set_epoch(self, epoch: int) -> None:
        """Other random crops from here on. Reaches workers that are kept from epoch to epoch."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self._labels) * self.repeat

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} of {len(self)} images")
        for attempt in range(len(self._labels)):
            file = (index + attempt) % len(self._labels)
            if not self._skipped[file]:
                # From the start for each file, so that it makes no difference when a broken one was found.
                rng = random.Random((self.seed << 80) + (int(self._epoch) << 48) + int(index))
                path = self._path(file)
                try:
                    image = self._read(path, rng)
                except MemoryError:
                    raise
                except Exception as error:  # Pillow's decoders raise anything on a broken file
                    self._skip(file, path, error)
                else:
                    return self._transformed(image, rng), int(self._labels[file])
            if not self.training:
                return torch.zeros(3, self.image_size, self.image_size, dtype=torch.uint8), UNREADABLE
        raise DataError(f"none of the {len(self._labels)} images in {self.folder} can be read")

    def _path(self, file: int) -> str:
        return os.path.join(self.folder, self.classes[self._labels[file]], os.fsdecode(self._names[file]))

    def _read(self, path: str, rng: random.Random) -> torch.Tensor:
        if not self.training:
            return read_image(path, self.image_size, centre_crop)
        image = read_image(path, self.image_size, lambda width, height: random_crop(width, height, rng))
        return image.flip(-1) if rng.random() < 0.5 else image

    def _transformed(self, image: torch.Tensor, rng: random.Random) -> torch.Tensor:
        if self.transform is None:
            return image
        with torch.random.fork_rng(devices=[]):  # without workers, this generator is the training's own
            torch.default_generator.manual_seed(rng.getrandbits(63))
            return self.transform(image)

    def _skip(self, file: int, path: str, error: Exception) -> None:
        say_skipped(path, error)
        self._skipped[file] = True
        # A copy: nonzero reads twice, and writes past its result where another worker has marked a file in between.
        skipped = self._skipped.clone().nonzero().flatten().tolist()
        limit = most_skipped(len(self._labels))
        if len(skipped) > limit:
            named = ", ".join(self._path(file) for file in skipped[:3])
            raise DataError(
                f"{len(skipped)} of the {len(self._labels)} images in {self.folder} cannot be read, and no more than "
                f"{limit} are skipped: fix or remove them ({named}, …)"
            ) from None


def say_skipped(name: str, error: Exception) -> None:
    """One line on stderr for an image that cannot be read."""
    reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, UnidentifiedImageError):  # whose message speaks of a buffer in memory
        reason = "not an image that Pillow can read"
    say(f"dlojz.data: skipped {name}: {reason}", file=sys.stderr)


def most_skipped(images: int) -> int:
    """How many of so many images may be unreadable: 1 %, and 10 at least."""
    return max(10, images // 100)


def is_hidden(name: str) -> bool:
    """Whether a folder of this name counts as none of a data set's."""
    return name.startswith(".") or name in NO_CLASSES


def is_image(name: str) -> bool:
    """Whether a file of this name counts as an image: one with its extension, and not hidden, as macOS' ._0.jpg is."""
    return not name.startswith(".") and name.lower().endswith(EXTENSIONS)


def class_names(folder: Path) -> list[str]:
    """The folders in this one that are not hidden (`is_hidden`), in order. Raises OSError."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not is_hidden(entry.name) and entry.is_dir())


def _classes(folder: Path) -> list[str]:
    """The class names, in order, after a look at train/ and val/: what is wrong is said before anything starts."""
    if not folder.is_dir():
        raise UsageError(f"the data folder {folder} is not there; {LAYOUT}")
    found = {}
    for split in ("train", "val"):
        if not (folder / split).is_dir():
            raise UsageError(f"{folder} has no folder {split}/; {LAYOUT}")
        try:
            found[split] = class_names(folder / split)
        except OSError as error:
            raise UsageError(f"cannot read {error.filename or folder / split}: {error.strerror}; {LAYOUT}") from None
        if not found[split]:
            raise UsageError(f"{folder / split} holds no class folders; {LAYOUT}")
    odd = sorted(set(found["train"]) ^ set(found["val"]))
    if odd:
        named = ", ".join(f"{said} only in {'train' if name in found['train'] else 'val'}/"
                          for name, said in list(zip(odd, apart(odd)))[:3])
        raise UsageError(f"{folder} has other classes in train/ than in val/ ({named}{', …' * (len(odd) > 3)}); {LAYOUT}")
    return found["train"]


def scan(folder: Path, classes: list[str]) -> tuple[list[str], list[int]]:
    """File names and labels of a split, sorted. The files themselves are not touched: a set may have millions. Images in a folder
    inside a class folder, which torchvision would read, are not: such a folder is named on stderr."""
    names, labels, inner = [], [], []
    for label, name in enumerate(classes):
        files, folders = [], []
        try:
            with os.scandir(folder / name) as entries:
                for entry in entries:
                    if is_image(entry.name):
                        files.append(entry.name)
                    elif not is_hidden(entry.name) and entry.is_dir():
                        folders.append(entry.path)
        except OSError as error:
            raise UsageError(f"cannot read {folder / name}: {error.strerror}") from None
        folders = [path for path in sorted(folders) if any(is_image(file) for *_, files_ in os.walk(path) for file in files_)]
        if not files:
            there = f" itself, only in folders inside it, such as {folders[0]}: move them up" if folders else ""
            raise UsageError(f"{folder / name} holds no images ({', '.join(EXTENSIONS)}){there}; {LAYOUT}")
        names += sorted(files)
        labels += [label] * len(files)
        inner += folders
    if inner and os.environ.get("RANK", "0") == "0":
        more = f", and in {len(inner) - 1} other such folders" * (len(inner) > 1)
        say(f"dlojz.data: the images in {inner[0]}{more} are left out, because only those directly in a class folder are read: "
            f"move them up into {os.path.dirname(inner[0])}", file=sys.stderr)
    return names, labels


# From a file to a tensor

Crop = Callable[[int, int], tuple[int, int, int, int]]  # (width, height) of an image -> left, top, width, height in it


def random_crop(width: int, height: int, rng: random.Random) -> tuple[int, int, int, int]:
    """torchvision's RandomResizedCrop: 8 to 100 % of the area, sides from 3:4 to 4:3."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return rng.randint(0, width - w), rng.randint(0, height - h), w, h
    # The image is too wide or too high for any of them: the largest crop in its middle
    w, h = min(width, round(height * 4 / 3)), min(height, round(width * 4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h


def centre_crop(width: int, height: int) -> tuple[int, int, int, int]:
    """What a resize of the short side to 256 and then a centre crop of 224 leave."""
    side = max(1, round(min(width, height) * 224 / 256))
    return (width - side) // 2, (height - side) // 2, side, side


def read_image(path: str | Path, image_size: int, crop: Crop) -> torch.Tensor:
    """A crop of an image file, resized to a uint8 tensor (3, image_size, image_size). Raises whatever Pillow raises."""
    with open(path, "rb", buffering=0) as file:
        return decode_image(file.read(), image_size, crop)


def decode_image(data: bytes, image_size: int, crop: Crop) -> torch.Tensor:
    """The same from the content of the file."""
    image = Image.open(io.BytesIO(data))
    turn = _orientation(image)
    width, height = reversed(image.size) if turn >= 5 else image.size
    left, top, w, h = crop(width, height)
    if image.format == "JPEG":
        # Decode at 1/2, 1/4 or 1/8 of the size where the crop is then still at least as large as asked for.
        wanted = math.ceil(width * image_size / w), math.ceil(height * image_size / h)
        image.draft(None, wanted[::-1] if turn >= 5 else wanted)
        image.decodermaxblock = max(len(data), image.decodermaxblock)
    image = _rgb(image)
    if turn > 1:
        image = image.transpose(TURNS[turn])
    shrunk = round(width / image.width)
    image = image.crop([round(edge / shrunk) for edge in (left, top, left + w, top + h)])
    pixels = torch.from_numpy(np.array(image))[None].permute(0, 3, 1, 2)
    # torch's resize of uint8 in channels-last order is vectorised: four times as quick as Pillow's, and looks the same.
    pixels = interpolate(pixels, (image_size, image_size), mode="bilinear", antialias=True)[0]
    return torch.from_numpy(np.ascontiguousarray(pixels.numpy()))  # in half the time of pixels.contiguous()


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):  # 16 bits a pixel, which Pillow would clip at 255
        return Image.fromarray((np.asarray(image) // 256).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "P":  # with a transparent colour, straight to RGB warns
        image = image.convert("RGBA")
    return image.convert("RGB")


def _orientation(image: Image.Image) -> int:
    """How the camera was held, as the file says: 1 is upright, the others are in TURNS. EXIF counts first, then XMP.

    A PNG is loaded for it, for what it says of itself may come behind the pixels. Pillow turns a TIFF while it loads it.
    """
    if image.format in ("PNG", "TIFF"):
        image.load()
    if image.format == "TIFF":
        return 1
    exif = image.info.get("exif") or _profile(image, "exif") or _profile(image, "APP1")
    turn = None
    if exif:
        with contextlib.suppress(Exception):  # a broken tag is no reason to lose the picture
            tags = Image.Exif()
            tags.load(exif)
            turn = tags.get(0x0112)
    if turn is None:
        xmp = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or _profile(image, "xmp") or _profile(image, "APP1")
        found = XMP.search(xmp.encode(errors="replace") if isinstance(xmp, str) else xmp or b"")
        turn = int(found[1]) if found else None
    return turn if isinstance(turn, int) and turn in TURNS else 1


def _profile(image: Image.Image, name: str) -> bytes:
    """What ImageMagick has put into a PNG's text: its name, the number of bytes, and those in hexadecimal."""
    text = image.info.get(f"Raw profile type {name}")
    with contextlib.suppress(ValueError):
        return bytes.fromhex("".join(str(text or "").split()[2:]))
    return b""


# On the device

_SCALE_AND_SHIFT: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}


def normalize(images: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """uint8 (B, 3, H, W), on any device -> ``dtype``: minus ImageNet's mean, over its standard deviation.

    The memory format is kept. One pass over the images for float32; torch.compile makes it one for any type.
    """
    records.tell("batch", images=images)
    if images.device not in _SCALE_AND_SHIFT:
        scale = torch.tensor([1 / (255 * std) for std in STD]).view(1, 3, 1, 1)
        shift = torch.tensor([-mean / std for mean, std in zip(MEAN, STD)]).view(1, 3, 1, 1)
        _SCALE_AND_SHIFT[images.device] = scale.to(images.device), shift.to(images.device)
    scale, shift = _SCALE_AND_SHIFT[images.device]
    return torch.addcmul(shift, images, scale).to(dtype)


class random_batches:
    """``steps`` times the same batch, on the device: what a model does without a loader.

    A batch is uint8 (batch_size, 3, image_size, image_size) and int64 labels (batch_size), as from a loader.
    """

    def __init__(self, batch_size: int, image_size: int, classes: int, steps: int, device, seed: int = 0):
        generator = torch.Generator().manual_seed(seed)
        images = torch.randint(0, 256, (batch_size, 3, image_size, image_size), dtype=torch.uint8, generator=generator)
        labels = torch.randint(0, classes, (batch_size,), generator=generator)
        self.batch = images.to(device), labels.to(device)
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return itertools.repeat(self.batch, self.steps)


def defaults(source: str | Path) -> dict:
    """What train.py's switches are by default where its images are these: a model and a size for images of 32 pixels."""
    if not small.is_small(source):
        return {}
    from ..training import small_resnet

    return {"model": small_resnet.NAME, "image_size": small.SIZE}


def endless(loader) -> Iterator:
    """The batches of a loader, epoch after epoch."""
    return itertools.chain.from_iterable(itertools.repeat(loader))


def part(dataset: Dataset, procs: Processes, limit: int | None = None) -> Subset:
    """The samples that this process validates, at most ``limit``. Each sample is in the part of one process, so the lengths of
    the parts may differ by one. Their order is random, so that the first ones are of all classes, and the same in each run."""
    mixed = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(0)).tolist()
    return Subset(dataset, mixed[procs.rank :: procs.world_size][:limit])


class Resumable(Sampler):
    """A sampler whose next iteration may leave out the first indices of another one: those that a resumed run has trained on.

    ``len`` stays that of a whole epoch. ``generator``: what the other one draws from, if it is seeded here; it is seeded with
    ``seed`` and the number of the epoch. ``dataset``: one that has to know the epoch.
    """

    def __init__(self, sampler: Sampler, dataset: Dataset | None = None, generator: torch.Generator | None = None, seed: int = 0):
        self.sampler, self.dataset, self.generator, self.seed = sampler, dataset, generator, seed
        self.start = 0

    def begin(self, epoch: int, start: int = 0) -> None:
        """The next iteration is of this epoch, from index ``start`` on."""
        if self.dataset is not None:
            self.dataset.set_epoch(epoch)
        if self.generator is not None:
            self.generator.manual_seed(self.seed + epoch)
        self.start = start

    def __iter__(self) -> Iterator[int]:
        start, self.start = self.start, 0
        return itertools.islice(iter(self.sampler), start, None)

    def __len__(self) -> int:
        return len(self.sampler)

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dlojz.data",
        description="Draw an image folder for benchmarks: pictures like those of `photos`, in any number.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("folder", metavar="DIR", type=Path, help="the folder to make")
    add("--images", type=int, default=20_000, metavar="N", help="training images")
    add("--distinct", type=int, default=2_000, metavar="N", help="training files to draw; the others are links to them")
    add("--val", type=int, default=500, metavar="N", help="validation images")
    add("--mean-kb", type=float, default=100, metavar="KB", help="mean size of a file, in 1000 bytes")
    add("--seed", type=int, default=1, help="another number, other pictures")
    args = parser.parse_args(argv)
    try:
        photos.make(args.folder, args.images, args.val, args.distinct, args.mean_kb, args.seed)
    except UsageError as error:
        say(f"dlojz.data: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
