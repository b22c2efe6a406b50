"""Shards: what is written comes back, once for all readers together, in another order each epoch, with few calls."""

import io
import random
import tarfile
from collections import Counter

import pytest
import torch
from torch.utils.data import DataLoader

from dlojz import data
from dlojz.data import photos, shards
from dlojz.system.errors import UsageError

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


def test_a_cut_shard_is_no_silent_end(folder, tmp_path):
    (shard,) = shards.write(folder, tmp_path / "shards", images=100)
    shard.write_bytes(shard.read_bytes()[:20_000])
    with pytest.raises(tarfile.ReadError):
        list(shards.members(shard))
