"""Shards: what is written comes back, once for all readers together, in another order each epoch, with few calls."""

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
from collections import Counter
from functools import partial

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from dlojz import data
from dlojz.data import photos, shards
from dlojz.system.errors import DataError, UsageError

CLASSES = ["blue", "green", "red"]


@pytest.fixture
def folder(tmp_path):
    """60 files of three classes, whose content is their name; one of them a link."""
    for number in range(60):
        file = tmp_path / "train" / CLASSES[number % 3] / f"{number:03}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}")
    link = tmp_path / "train" / "red" / "059.jpg"
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    return tmp_path / "train"


def number_of(content, _draw):
    return int(content)


def set_of(folder, tmp_path, images=10, **how):
    shards.write(folder, tmp_path / "shards", images=images)
    return shards.Shards(tmp_path / "shards", number_of, CLASSES, **how)


def test_what_is_written_comes_back(folder, tmp_path):
    written = shards.write(folder, tmp_path / "shards", images=25)
    assert [path.name for path in written] == ["train-000000.tar", "train-000001.tar", "train-000002.tar"]
    found = {name: content for shard in written for name, content in shards.members(shard)}
    assert found == {str(file.relative_to(folder)): file.read_bytes() for file in folder.glob("*/*")}
    classes = Counter(name.split("/")[0] for name, _ in shards.members(written[0]))
    assert set(classes) == set(CLASSES), "mixed before they are written"
    with tarfile.open(written[0]) as tar:
        assert tar.getnames() == [name for name, _ in shards.members(written[0])]  # any tar can read it


def test_labels_are_the_classes(folder, tmp_path):
    assert all(label == number % 3 for number, label in set_of(folder, tmp_path))


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_each_image_comes_once_whatever_the_workers(folder, tmp_path, workers):
    loader = DataLoader(set_of(folder, tmp_path), batch_size=4, num_workers=workers)
    numbers = torch.cat([numbers for numbers, _ in loader]).tolist()
    assert sorted(numbers) == list(range(60))


def test_processes_share_the_set(folder, tmp_path):
    parts = [[number for number, _ in set_of(folder, tmp_path, part=(rank, 2))] for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == list(range(60)) and min(map(len, parts)) == 30


def test_another_epoch_another_order_and_the_same_again(folder, tmp_path):
    dataset = set_of(folder, tmp_path, seed=3)
    first, again = ([number for number, _ in dataset] for _ in range(2))
    dataset.set_epoch(1)
    other = [number for number, _ in dataset]
    assert first == again and sorted(first) == sorted(other) and first != other
    assert [number for number, _ in set_of(folder, tmp_path, seed=4)] != first


def test_kept_workers_hear_of_the_epoch(folder, tmp_path):
    dataset = set_of(folder, tmp_path)
    loader = DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True)
    orders = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        orders.append([int(number) for number, _ in loader])
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])


def test_a_training_image_is_that_of_the_image_folder(tmp_path):
    """The same random numbers give the same pixels, from a file and from a shard."""
    file = next(photos.folder().glob("train/*/*.jpg"))
    draw = random.Random(5)
    crop = data.read_image(file, 48, lambda width, height: data.random_crop(width, height, draw))
    expected = crop.flip(-1) if draw.random() < 0.5 else crop
    assert torch.equal(shards.training_image(file.read_bytes(), random.Random(5), 48), expected)


def test_a_pool_mixes_as_far_as_it_is_large():
    def order(pool):
        return list(shards.drawn(iter(range(1000)), pool, random.Random(0)))

    assert order(1) == list(range(1000))
    for pool in (10, 100):
        found = order(pool)
        assert sorted(found) == list(range(1000))
        assert all(item <= place + pool - 1 for place, item in enumerate(found)), "nothing comes from beyond the pool"
        assert sum(abs(item - place) for place, item in enumerate(found)) / 1000 > pool / 4
    assert sorted(order(5000)) == list(range(1000))


def test_a_shard_is_opened_once_and_read_in_large_pieces(folder, tmp_path):
    calls = Counter()

    class Counting(io.FileIO):
        def __init__(self, *args, buffering=-1):
            calls["open"] += 1
            super().__init__(*args)

        def read(self, size=-1):
            calls["read"] += 1
            return super().read(size)

    (shard,) = shards.write(folder, tmp_path / "shards", images=100)
    assert len(list(shards.members(shard, Counting))) == 60
    assert calls["open"] == 1 and calls["read"] <= 3, calls


def test_what_is_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="holds no CLASS/FILE"):
        shards.write(tmp_path / "nowhere", tmp_path / "shards")
    with pytest.raises(UsageError, match="holds no shards"):
        shards.Shards(tmp_path, number_of, CLASSES)
    dataset = set_of(folder, tmp_path, images=30, part=(2, 3))
    with pytest.raises(UsageError, match="2 shards are too few for 3 readers"):
        list(dataset)


# --- foreign and broken ones: one sentence that names the file, and as ImageFolder would have it -------------------------------


def jpeg(colour="red"):
    out = io.BytesIO()
    Image.new("RGB", (40, 40), colour).save(out, "JPEG")
    return out.getvalue()


@pytest.fixture
def pictures(tmp_path):
    """16 images of two classes."""
    for number in range(16):
        file = tmp_path / "pictures" / ("cat", "dog")[number % 2] / f"{number:02}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(jpeg())
    return tmp_path / "pictures"


def read(folder, classes=("cat", "dog")):
    """How many images come out."""
    return len(list(shards.Shards(folder, partial(shards.training_image, image_size=8), list(classes))))


def packed(file, members):
    """A tar of (name, content or TarInfo) in this order."""
    file.parent.mkdir(exist_ok=True)
    with tarfile.open(file, "w") as tar:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = 0 if info is content else len(content)
            tar.addfile(info, None if info is content else io.BytesIO(content))
    return file


def link(name, target, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return name, info


def test_hard_links_are_files(pictures, tmp_path):
    for file in sorted(pictures.glob("*/*.jpg")):
        os.link(file, file.with_name(f"copy-{file.name}"))
    assert len(shards.write(pictures, tmp_path / "shards", images=10)) == 4 and read(tmp_path / "shards") == 32
    file = packed(tmp_path / "foreign" / "a.tar", [
        ("./cat/0.jpg", jpeg()), link("./cat/1.jpg", "./cat/0.jpg", tarfile.LNKTYPE), link("cat/2.jpg", "0.jpg", tarfile.SYMTYPE),
        link("cat/latest", "gone", tarfile.SYMTYPE)])
    assert [content == jpeg() for _, content in shards.members(file)] == [True] * 3
    packed(tmp_path / "dangling" / "a.tar", [link("cat/2.jpg", "../0.jpg", tarfile.SYMTYPE)])
    with pytest.raises(DataError, match=r"cat/2.jpg in the shard .*dangling/a.tar is a link to ../0.jpg, which is not in it"):
        read(tmp_path / "dangling")


def test_what_image_folder_leaves_out_is_left_out(pictures, tmp_path):
    junk = ["cat/.DS_Store", "cat/._00.jpg", "dog/Thumbs.db", ".ipynb_checkpoints/00-checkpoint.jpg", "cat/notes.txt"]
    for name in junk:
        (pictures / name).parent.mkdir(exist_ok=True)
        (pictures / name).write_bytes(b"no image")
    shards.write(pictures, tmp_path / "shards")
    assert read(tmp_path / "shards") == 16
    # The same in a shard that somebody else has made.
    packed(tmp_path / "foreign" / "a.tar", [("cat/0.jpg", jpeg()), *((name, b"no image") for name in
                                                                           [*junk, "__MACOSX/cat/._00.jpg"])])
    assert read(tmp_path / "foreign") == 1
    (pictures / "bird").mkdir()
    with pytest.raises(UsageError, match="bird holds no images"):
        shards.write(pictures, tmp_path / "shards")
    assert read(tmp_path / "shards") == 16, "what was there before stays"


def test_written_again_replaces_what_was_there(pictures, tmp_path):
    assert len(shards.write(pictures, tmp_path / "shards", images=4)) == 4
    assert len(shards.write(pictures, tmp_path / "shards", images=16)) == 1 and read(tmp_path / "shards") == 16
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == ["pictures-000000.tar"]
    other = pictures.rename(tmp_path / "val")
    with pytest.raises(UsageError, match=r"holds pictures-000000.tar, which is no shard of val"):
        shards.write(other, tmp_path / "shards")


def test_files_that_cannot_be_read_are_named_and_left_out(pictures, tmp_path, capsys):
    (pictures / "cat" / "gone.jpg").symlink_to("nowhere")
    (pictures / "cat" / "folder.jpg").mkdir()
    os.mkfifo(pictures / "cat" / "pipe.jpg")
    shards.write(pictures, tmp_path / "shards")
    said = capsys.readouterr().err
    assert all(f"skipped {pictures}/cat/{name}: {why}" in said for name, why in
               (("gone.jpg", "No such file"), ("folder.jpg", "not a file"), ("pipe.jpg", "not a file")))
    assert read(tmp_path / "shards") == 16
    for number in range(8):
        (pictures / "dog" / f"gone-{number}.jpg").symlink_to("nowhere")
    with pytest.raises(DataError, match=r"11 of the 27 images in .*pictures cannot be read, and no more than 10"):
        shards.write(pictures, tmp_path / "shards")
    assert read(tmp_path / "shards") == 16, "what was there before stays"


def test_a_broken_image_is_named_and_skipped(pictures, tmp_path, capsys):
    (pictures / "cat" / "cut.jpg").write_bytes(jpeg()[:200])
    (pictures / "dog" / "empty.jpg").write_bytes(b"")
    shards.write(pictures, tmp_path / "shards")
    assert read(tmp_path / "shards") == 16
    said = capsys.readouterr().err
    assert f"skipped cat/cut.jpg in {tmp_path}/shards/pictures-000000.tar: " in said and "skipped dog/empty.jpg in" in said
    packed(tmp_path / "broken" / "a.tar", [(f"cat/{number}.jpg", b"") for number in range(3)])
    with pytest.raises(DataError, match=r"none of the 3 images in .*broken/a.tar can be read"):
        read(tmp_path / "broken")
    packed(tmp_path / "broken" / "a.tar", [(f"cat/{number}.jpg", b"" if number % 2 else jpeg()) for number in range(30)])
    with pytest.raises(DataError, match=r"11 of the first .* images cannot be read, and no more than 10 are skipped"):
        read(tmp_path / "broken")
    with pytest.raises(ZeroDivisionError):  # the fault of ``decode`` is none of the images
        list(shards.Shards(tmp_path / "shards", lambda content, draw: 1 / 0, ["cat", "dog"]))


def whole(pictures, tmp_path):
    (shard,) = shards.write(pictures, tmp_path / "shards")
    return shard


@pytest.mark.parametrize("change, why", [
    (lambda tar: tar[: len(tar) * 2 // 3], "ends in the middle"),
    (lambda tar: tar[:3072], "ends in the middle"),  # after a whole member: tarfile takes that for the end
    (lambda tar: tar[:3200], "ends in the middle|damaged"),  # within a header
    (lambda tar: tar[:4608] + b"x" * 512 + tar[5120:], "damaged from byte 4,608 on"),  # 512 bytes of header, 1024 of image
    (lambda tar: b"", "it is empty"),
    (lambda tar: bytes(len(tar)), "holds no images"),  # zeros, as a disk that was full leaves them
    (lambda tar: b"noise" * 1000, "it is no tar file"),
    (lambda tar: b"short", "it is no tar file"),
    (lambda tar: b"<!DOCTYPE html><title>403</title>" * 50, "a web page"),
    (lambda tar: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    (gzip.compress, r"compressed \(gzip\).*unpack it"),
    (bz2.compress, r"compressed \(bzip2\).*unpack it"),
    (lzma.compress, r"compressed \(xz\).*unpack it"),
], ids=["cut", "cut-after-a-member", "cut-in-a-header", "damaged", "empty", "zeros", "noise", "short", "html", "lfs", "gzip",
        "bzip2", "xz"])
def test_a_broken_shard_is_named(pictures, tmp_path, change, why):
    shard = whole(pictures, tmp_path)
    shard.write_bytes(change(shard.read_bytes()))
    with pytest.raises(DataError, match=rf"^the shard {shard} .*({why})") as refused:
        read(tmp_path / "shards")
    assert "\n" not in str(refused.value)


def test_tars_one_behind_the_other_are_all_read(pictures, tmp_path):
    shard = whole(pictures, tmp_path)
    shard.write_bytes(shard.read_bytes() * 2)
    assert read(tmp_path / "shards") == 32


def test_a_foreign_layout_is_told(tmp_path):
    packed(tmp_path / "dot" / "a.tar", [("./cat/0.jpg", jpeg()), (".//dog/1.JPG", jpeg())])
    assert read(tmp_path / "dot") == 2
    packed(tmp_path / "outer" / "a.tar", [("train/cat/0.jpg", jpeg())])
    with pytest.raises(DataError, match=r"^train/cat/0.jpg in the shard .*outer/a.tar is in a folder train/ around the classes"):
        read(tmp_path / "outer")
    packed(tmp_path / "web" / "a.tar", [("000000.cls", b"0"), ("000000.jpg", jpeg())])
    with pytest.raises(DataError, match=r"^000000.jpg in the shard .*web/a.tar is in no class folder \(WebDataset"):
        read(tmp_path / "web")
    with pytest.raises(DataError, match=r"dog/1.JPG in the shard .*dot/a.tar is of class dog, which is none of the 1 classes"):
        read(tmp_path / "dot", ["cat"])


def test_a_worker_says_it_in_one_sentence(tmp_path):
    packed(tmp_path / "web" / "a.tar", [("000000.jpg", jpeg())])
    dataset = shards.Shards(tmp_path / "web", partial(shards.training_image, image_size=8), ["cat"])
    with pytest.raises(DataError, match=r"^000000.jpg in the shard \S+ is in no class folder [^\n]*$"):
        list(DataLoader(dataset, num_workers=1))
    with pytest.raises(UsageError, match=r"^1 shards are too few for 2 readers[^\n]*$"):
        list(DataLoader(dataset, num_workers=2))


@pytest.mark.parametrize("images", [0, -1, 2.5, None, True, "many"])
def test_a_size_that_is_none(folder, tmp_path, images):
    with pytest.raises(UsageError, match="must be a whole number, 1 or more"):
        shards.write(folder, tmp_path / "shards", images=images)


def test_where_there_are_no_shards(pictures, tmp_path):
    shard = whole(pictures, tmp_path)
    with pytest.raises(UsageError, match="is a file: name the folder"):
        shards.Shards(shard, number_of, CLASSES)
    shard.rename(shard.with_suffix(".tar.gz"))
    with pytest.raises(UsageError, match=r"unpack pictures-000000.tar.gz to a plain tar"):
        shards.Shards(tmp_path / "shards", number_of, CLASSES)
    (tmp_path / "shards" / "folder.tar").mkdir()
    with pytest.raises(DataError, match=r"folder.tar cannot be read: Is a directory"):
        read(tmp_path / "shards")
    for nothing in (None, 5, b"x"):
        with pytest.raises(UsageError, match="is no path: give one such as"):
            shards.Shards(nothing, number_of, CLASSES)
