"""Images in tar files of thousands, read from beginning to end: one opening for all of them, in place of one for each.

    write("/path/to/photos/train", "shards", images=1000)     # shards/train-000000.tar, …: members CLASS/NAME.jpg, mixed
    decode = partial(training_image, image_size=224)
    loader = DataLoader(Shards("shards", decode, classes, seed=1), batch_size=256, num_workers=8)

Nothing here asks for the n-th image: a shard has no table of contents. So order comes from reading the shards in another order
each epoch, and from a pool of images out of which the next one is drawn. WebDataset does the same, and more of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import IterableDataset, get_worker_info

from .. import data
from ..system import paths
from ..system.errors import DataError, UsageError
from ..system.shown import apart

PIECE = 1 << 20  # bytes that one read asks for
# What a file begins with that is no tar, and what it then is.
OTHER_FORMATS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
FOREIGN = ((re.compile(rb"PK\x03\x04"), "it is a zip file"),
           (re.compile(rb"\s*<"), "it is a web page, perhaps of a failed download"),
           (re.compile(rb"version https://git-lfs"), "it is Git LFS's pointer to the file: run git lfs pull"))
LAYOUT = "members are CLASS/NAME.jpg, as dlojz.data.shards.write makes them of an image folder"


def write(folder: Path | str, target: Path | str, images: int = 1000, seed: int = 0) -> list[Path]:
    """Puts the images of ``folder``/CLASS/ into tar files of ``images`` each, mixed, so that no shard holds one class only.

    Takes the files that `ImageFolder` takes. What cannot be opened is named on stderr and left out, as there. The new shards
    replace those that an earlier call has made of a folder of this name; until all are whole, the old ones stay. Raises
    UsageError, also where ``target`` holds other tar files, which `Shards` would read with these.
    """
    folder, target = paths.given(folder, "photos/train"), paths.given(target, "shards")
    if isinstance(images, bool) or not isinstance(images, int) or images < 1:
        raise UsageError(f"images={images!r}: must be a whole number, 1 or more")
    try:
        classes = data.class_names(folder)
    except OSError as error:
        raise UsageError(f"{folder} holds no CLASS/FILE ({error.strerror}): name a folder such as photos/train") from None
    if not classes:
        raise UsageError(f"{folder} holds no CLASS/FILE: name a folder such as photos/train")
    names, labels = data.scan(folder, classes)
    files = [f"{classes[label]}/{name}" for name, label in zip(names, labels)]
    random.Random(seed).shuffle(files)
    name = os.path.basename(os.path.abspath(folder))
    own = re.compile(re.escape(name) + r"-\d{6,}\.tar")
    shards, beside = [], []
    try:
        target.mkdir(parents=True, exist_ok=True)
        there = _tars(target)
        if other := [path.name for path in there if not own.fullmatch(path.name)]:
            raise UsageError(f"{target} holds {other[0]}, which is no shard of {name}, and Shards would read both: name an empty "
                             "folder")
        skipped = 0
        for first in range(0, len(files), images):
            shards.append(target / f"{name}-{len(shards):06}.tar")
            beside.append(target / f".{shards[-1].name}.part")
            # dereference: a link's file, not the link; else the second name of a file would have no content
            with tarfile.open(beside[-1], "w", dereference=True) as tar:
                for file in files[first : first + images]:
                    skipped += not _added(tar, folder, file)
            if skipped > (limit := data.most_skipped(len(files))):
                raise DataError(f"{skipped} of the {len(files)} images in {folder} cannot be read, and no more than {limit} are "
                                "left out: fix or remove them")
        if skipped == len(files):
            raise DataError(f"none of the {len(files)} images in {folder} can be read")
        for part, shard in zip(beside, shards):
            part.replace(shard)
        for path in set(there) - set(shards):
            path.unlink()
    except OSError as error:
        raise UsageError(f"cannot write shards to {target}: {error.strerror or error}. Free some space, fix its permissions or "
                         "name another folder") from None
    finally:
        for part in beside:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    return shards


def _added(tar: tarfile.TarFile, folder: Path, file: str) -> bool:
    """Puts one file into a shard, if it can be read."""
    path = os.path.join(folder, file)
    try:
        if not os.path.isfile(path):  # a folder, or a pipe, which would never end
            os.stat(path)
            raise OSError("not a file")
        with open(path, "rb", buffering=0) as opened:
            content = opened.read()
        member = tar.gettarinfo(path, arcname=file)
    except OSError as error:
        data.say_skipped(path, error)
        return False
    member.size = len(content)  # it may be growing
    member.mtime = int(member.mtime)  # a fraction would take a header of its own
    tar.addfile(member, io.BytesIO(content))
    return True


def _tars(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.tar") if not path.name.startswith("."))


class _Member(tarfile.TarInfo):
    """A header. tarfile takes a broken one, or none at all, for the end of the archive: here only zeros are its end."""

    @classmethod
    def fromtarfile(cls, tar):
        try:
            return super().fromtarfile(tar)
        except tarfile.EOFHeaderError:
            tar.ended = True
            raise
        except tarfile.EmptyHeaderError:
            if getattr(tar, "ended", False):
                raise
            raise tarfile.ReadError("it ends in the middle" if tar.offset else "it is empty") from None
        except tarfile.HeaderError:
            raise tarfile.ReadError(f"it is damaged from byte {tar.offset:,} on" if tar.offset else "it is no tar file") from None


def members(shard: Path | str, opened=open) -> Iterator[tuple[str, bytes]]:
    """(name, content) of each file in a shard, in its order; of tars that were put one behind the other (``cat``), of all. A link
    has the content of its file. ``opened`` opens the shard. Raises DataError where it cannot be read to its end."""
    shard = paths.given(shard, "shards/train-000000.tar")
    try:
        with opened(shard, "rb", buffering=0) as file, contextlib.ExitStack() as stack:
            tar = stack.enter_context(tarfile.open(fileobj=file, mode="r|", bufsize=PIECE, tarinfo=_Member, ignore_zeros=True))
            again = None
            for member in tar:
                if (member.islnk() or member.issym()) and data.is_image(os.path.basename(member.name)):
                    if again is None:
                        again = stack.enter_context(tarfile.open(fileobj=stack.enter_context(opened(shard, "rb")), mode="r:",
                                                                 ignore_zeros=True))
                    yield member.name, _linked(again, member)
                elif member.isfile():
                    yield member.name, tar.extractfile(member).read()
                tar.members.clear()  # or it remembers all that it has passed
    except (DataError, MemoryError):
        raise
    except OSError as error:
        if error.errno is None:
            raise _unreadable(shard, error) from None
        raise DataError(f"the shard {shard} cannot be read: {error.strerror}") from None
    except Exception as error:  # tarfile raises more than its own on headers that are noise
        raise _unreadable(shard, error) from None


def _linked(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    try:
        found = tar.extractfile(member)
    except (KeyError, RecursionError):
        found = None
    if found is None:
        raise DataError(f"{member.name} in the shard {tar.fileobj.name} is a link to {member.linkname}, which is not in it: make "
                        "it again with tar --dereference")
    return found.read()


def _unreadable(shard: Path | str, error: Exception) -> DataError:
    """What there is to say of a file that cannot be read as a tar."""
    why = {"unexpected end of data": "it ends in the middle"}.get(str(error), str(error) or type(error).__name__)
    with contextlib.suppress(OSError), open(shard, "rb") as file:
        begin = file.read(512)
        packed = next((name for magic, name in OTHER_FORMATS.items() if begin.startswith(magic)), "")
        if packed:
            return DataError(f"the shard {shard} is compressed ({packed}), and images gain nothing by that: unpack it")
        why = next((said for pattern, said in FOREIGN if pattern.match(begin)), why)
    return DataError(f"the shard {shard} cannot be read: {why}. Copy or write it again")


class Shards(IterableDataset):
    """Yields ``decode(content, random.Random)`` and the label of each image in the shards ``folder``/\\*.tar; the class is the
    first part of its name.

    Each worker of each process reads shards of its own, so there must be as many. ``pool``: from how many images the next one is
    drawn. ``part``: (number of this process, how many there are).

    Of the members those count that `ImageFolder` would take. An image that cannot be decoded is named on stderr and left out;
    more than 1 % of those that a reader has passed, and more than 10, raise DataError. So does a shard that cannot be read, that
    holds no images, or whose classes are not in the list. Raises UsageError.
    """

    def __init__(self, folder: Path | str, decode: Callable, classes: list[str], seed: int = 0, pool: int = 1000,
                 part: tuple[int, int] = (0, 1)):
        folder = paths.given(folder, "shards")
        self.shards = list(map(str, _tars(folder)))
        if not self.shards:
            packed = next((path.name for path in folder.glob("*") if re.search(r"\.(tgz|tar\.\w+)$", path.name)), "")
            where = f"{folder} is a file: name the folder that it is in" if folder.is_file() else \
                f"{folder} holds no shards (*.tar)" + (f": unpack {packed} to a plain tar" if packed else
                                                      ": dlojz.data.shards.write makes them of an image folder")
            raise UsageError(where)
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
        own = shards[mine::readers]
        images = (image for shard in own for image in self._images(shard))
        skipped: list[str] = []
        passed = 0
        for passed, (name, content, label) in enumerate(drawn(images, self.pool, draw), 1):
            try:
                decoded = self.decode(content, draw)
            except MemoryError:
                raise
            except Exception as error:
                if _is_whole(content):
                    raise  # the fault is in ``decode``
                data.say_skipped(name, error)
                skipped.append(name)
                if len(skipped) > (limit := data.most_skipped(passed)):
                    raise DataError(f"{len(skipped)} of the first {passed} images cannot be read, and no more than {limit} are "
                                    f"skipped: write the shards again without them ({', '.join(skipped[:3])}, …)") from None
            else:
                yield decoded, label
        if skipped and len(skipped) == passed:
            raise DataError(f"none of the {passed} images in {', '.join(own[:3])} can be read")

    def _images(self, shard: str) -> Iterator[tuple[str, bytes, int]]:
        """(name, content, label) of each image in a shard; the name is for messages."""
        empty = True
        for name, content in members(shard):
            parts = [part for part in name.split("/") if part not in ("", ".")]
            if any(map(data.is_hidden, parts[:-1])) or not parts or not data.is_image(parts[-1]):
                continue
            empty = False
            if len(parts) == 1 or parts[0] not in self.labels:
                raise DataError(self._misplaced(shard, name, parts))
            yield f"{name} in {shard}", content, self.labels[parts[0]]
        if empty:
            raise DataError(f"the shard {shard} holds no images ({', '.join(data.EXTENSIONS)}): {LAYOUT}")

    def _misplaced(self, shard: str, name: str, parts: list[str]) -> str:
        said = f"{name} in the shard {shard}"
        if len(parts) == 1:
            return f"{said} is in no class folder (WebDataset keeps classes in files beside the images): {LAYOUT}"
        if len(parts) > 2 and parts[1] in self.labels:
            return f"{said} is in a folder {parts[0]}/ around the classes: make the shard with `tar -C {parts[0]} .`; {LAYOUT}"
        mine, *others = apart([parts[0], *self.labels])
        known = ", ".join(others[:5]) + ", …" * (len(others) > 5)
        return f"{said} is of class {mine}, which is none of the {len(self.labels)} classes given ({known}): {LAYOUT}"


def _is_whole(content: bytes) -> bool:
    """Whether Pillow can decode this image."""
    try:
        Image.open(io.BytesIO(content)).load()
    except Exception:
        return False
    return True


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
