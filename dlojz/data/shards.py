"""Images in tar files of thousands, read from beginning to end: one opening for all of them, in place of one for each.

    write("/path/to/photos/train", "shards", images=1000)     # shards/train-000000.tar, …: members CLASS/NAME.jpg, mixed
    decode = partial(training_image, image_size=224)
    loader = DataLoader(Shards("shards", decode, classes, seed=1), batch_size=256, num_workers=8)

Nothing here asks for the n-th image: a shard has no table of contents. So order comes from reading the shards in another order
each epoch, and from a pool of images out of which the next one is drawn. WebDataset does the same, and more of it.
"""

from __future__ import annotations

import random
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.utils.data import IterableDataset, get_worker_info

from .. import data
from ..system.errors import UsageError

PIECE = 1 << 20  # bytes that one read asks for


def write(folder: Path | str, target: Path | str, images: int = 1000, seed: int = 0) -> list[Path]:
    """Puts the files of ``folder``/CLASS/ into tar files of ``images`` each, mixed, so that no shard holds one class only."""
    folder, target = Path(folder), Path(target)
    files = sorted(file for file in folder.glob("*/*") if file.is_file())
    if not files:
        raise UsageError(f"{folder} holds no CLASS/FILE: name a folder such as photos/train")
    random.Random(seed).shuffle(files)
    target.mkdir(parents=True, exist_ok=True)
    shards = []
    for first in range(0, len(files), images):
        shards.append(target / f"{folder.name}-{len(shards):06}.tar")
        with tarfile.open(shards[-1], "w") as tar:
            for file in files[first : first + images]:
                tar.add(file.resolve(), arcname=str(file.relative_to(folder)))  # a link's file, not the link
    return shards


def members(shard: Path | str, opened=open) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each file in a shard, in its order. ``opened`` opens it."""
    with opened(shard, "rb", buffering=0) as file, tarfile.open(fileobj=file, mode="r|", bufsize=PIECE) as tar:
        for member in tar:
            if member.isfile():
                yield member.name, tar.extractfile(member).read()
            tar.members.clear()  # or it remembers all that it has passed


class Shards(IterableDataset):
    """Yields ``decode(content, random.Random)`` and the label of each image in the shards ``folder``/\\*.tar; the class is the
    first part of its name.

    Each worker of each process reads shards of its own, so there must be as many. ``pool``: from how many images the next one is
    drawn. ``part``: (number of this process, how many there are). Raises UsageError.
    """

    def __init__(self, folder: Path | str, decode: Callable, classes: list[str], seed: int = 0, pool: int = 1000,
                 part: tuple[int, int] = (0, 1)):
        self.shards = sorted(map(str, Path(folder).glob("*.tar")))
        if not self.shards:
            raise UsageError(f"{folder} holds no shards (*.tar): dlojz.data.shards.write makes them of an image folder")
        self.labels = {name: label for label, name in enumerate(classes)}
        self.decode, self.seed, self.pool, self.part = decode, seed, pool, part
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # reaches workers that are kept

    def set_epoch(self, epoch: int) -> None:
        """Another order from here on."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[tuple]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        readers, mine = workers * self.part[1], self.part[0] * workers + number
        if len(self.shards) < readers:
            raise UsageError(f"{len(self.shards)} shards are too few for {readers} readers: write smaller ones or use fewer")
        shards = list(self.shards)
        random.Random(f"{self.seed} {int(self._epoch)}").shuffle(shards)  # the same order in all readers
        draw = random.Random(f"{self.seed} {int(self._epoch)} {mine}")
        images = (member for shard in shards[mine::readers] for member in members(shard))
        for name, content in drawn(images, self.pool, draw):
            yield self.decode(content, draw), self.labels[name.partition("/")[0]]


def training_image(content: bytes, draw: random.Random, image_size: int) -> torch.Tensor:
    """A random crop, mirrored half of the time, as `dlojz.data.ImageFolder` makes it: uint8 (3, image_size, image_size)."""
    image = data.decode_image(content, image_size, lambda width, height: data.random_crop(width, height, draw))
    return image.flip(-1) if draw.random() < 0.5 else image


def drawn(items: Iterator, pool: int, draw: random.Random) -> Iterator:
    """The items in another order: the next one comes from a pool of those that follow."""
    waiting = []
    for item in items:
        waiting.append(item)
        if len(waiting) >= pool:
            yield _taken(waiting, draw)
    while waiting:
        yield _taken(waiting, draw)


def _taken(waiting: list, draw: random.Random):
    number = draw.randrange(len(waiting))
    waiting[number], waiting[-1] = waiting[-1], waiting[number]
    return waiting.pop()
