"""Images of 32 pixels in memory: those that the kit draws, and CIFAR-10 as its authors give it."""

import io
import pickle
import tarfile

import numpy as np
import pytest
import torch

from dlojz import data
from dlojz.data import small
from dlojz.system import sites
from dlojz.system.errors import DataError, UsageError


def test_drawn_images_are_the_same_for_a_seed_and_of_all_classes():
    (images, labels), again, other = small.drawn(60, 3), small.drawn(60, 3), small.drawn(60, 4)
    assert images.shape == (60, 3, 32, 32) and images.dtype == torch.uint8 and labels.dtype == torch.int64
    assert torch.equal(images, again[0]) and torch.equal(labels, again[1]) and not torch.equal(images, other[0])
    assert set(small.drawn(500, 1)[1].tolist()) == set(range(10)) == set(range(len(small.SHAPES)))


def test_a_shape_is_where_its_distance_is_below_zero():
    places = torch.tensor([[0.0, 0.0], [0.75, 0.0], [0.9, 0.9]])  # the middle, to the right, the corner
    inside = {name: (shape(places[None, :, 0], places[None, :, 1])[0] < 0).tolist() for name, shape in small.SHAPES.items()}
    assert inside["disc"] == [True, True, False] and inside["ring"] == [False, True, False]
    assert inside["square"] == [True, False, False] and inside["frame"] == [False, True, False]
    assert inside["cross"] == [True, True, False]


def test_a_training_image_is_shifted_and_mirrored_by_seed_epoch_and_index():
    images = torch.arange(2 * 3 * 32 * 32, dtype=torch.int32).remainder(251).to(torch.uint8).view(2, 3, 32, 32)
    labels = torch.tensor([4, 2])

    def of(training, seed=0, size=32):
        return small.SmallImages(images, labels, tuple("abcdefghij"), "here", training, size, seed)

    plain, one = of(False), of(True)
    assert torch.equal(plain[1][0], images[1]) and plain[1][1] == 2
    first = one[0][0]
    assert torch.equal(first, of(True)[0][0]) and not torch.equal(first, of(True, seed=1)[0][0])
    one.set_epoch(1)
    assert not torch.equal(first, one[0][0])
    seen = set()
    for epoch in range(60):
        one.set_epoch(epoch)
        image = one[0][0].int()
        for mirrored in (False, True):
            back = image.flip(-1) if mirrored else image
            for x in range(-4, 5):
                for y in range(-4, 5):
                    rows, columns = ((torch.arange(32) + by).clamp(0, 31) for by in (y, x))
                    if torch.equal(back, images[0].int()[:, rows][:, :, columns.flip(0) if mirrored else columns].flip(-1)
                                   if mirrored else images[0].int()[:, rows][:, :, columns]):
                        seen.add((mirrored, x, y))
    assert len(seen) > 20 and {mirrored for mirrored, *_ in seen} == {False, True}
    assert of(False, size=48)[0][0].shape == (3, 48, 48)
    with pytest.raises(IndexError):
        plain[2]


def batch(count, seed):
    rng = np.random.default_rng(seed)
    return {b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8), b"labels": rng.integers(0, 10, count).tolist()}


BATCHES = {**{f"data_batch_{number}": batch(3, number) for number in range(1, 6)}, "test_batch": batch(2, 9)}


@pytest.fixture(params=["folder", "archive"])
def cifar10(request, tmp_path):
    if request.param == "folder":
        place = tmp_path / "data" / small.FOLDER
        place.mkdir(parents=True)
        for name, content in BATCHES.items():
            (place / name).write_bytes(pickle.dumps(content, protocol=2))
        return place
    place = tmp_path / "data" / "CIFAR_10" / small.ARCHIVE
    place.parent.mkdir(parents=True)
    with tarfile.open(place, "w:gz") as archive:
        for name, content in BATCHES.items():
            said = pickle.dumps(content, protocol=2)
            entry = tarfile.TarInfo(f"{small.FOLDER}/{name}")
            entry.size = len(said)
            archive.addfile(entry, io.BytesIO(said))
    return place


def test_cifar10_from_a_path_and_from_the_sites_folder(cifar10, tmp_path, monkeypatch):
    monkeypatch.setattr(sites, "current", lambda: sites.Site(name="here", data=str(tmp_path / "data")))
    for source in (str(cifar10), str(cifar10.parent), "cifar10"):
        train, val = (data.dataset(source, split, 32) for split in ("train", "val"))
        assert (len(train), len(val)) == (15, 2) and train.classes[3] == "cat"
        first = BATCHES["test_batch"]
        assert torch.equal(val[0][0], torch.from_numpy(first[b"data"][0].reshape(3, 32, 32))) and val[1][1] == first[b"labels"][1]


def test_cifar10_that_is_not_there_says_where_it_should_be(tmp_path, monkeypatch):
    for folder, said in (("", "names no data folder"), (str(tmp_path / "none"), "there is no folder"),
                         (str(tmp_path), "it is not in")):
        monkeypatch.setattr(sites, "current", lambda folder=folder: sites.Site(name="here", data=folder))
        with pytest.raises(UsageError, match=said) as error:
            data.dataset("cifar10", "train", 32)
        assert "not in a job" in str(error.value) and "--data tiny" in str(error.value)


def test_a_pickle_of_something_else_calls_nothing(cifar10, tmp_path):
    (folder := tmp_path / "other").mkdir()

    class Evil:
        def __reduce__(self):
            return (folder / "called").touch, ()

    (folder / "test_batch").write_bytes(pickle.dumps({b"data": Evil(), b"labels": []}))
    with pytest.raises(DataError, match="which no file of CIFAR-10 does"):
        small.cifar10(folder, "val")
    assert not (folder / "called").exists()
    (folder / "test_batch").write_bytes(b"\x80")
    with pytest.raises(DataError, match="cannot be read as CIFAR-10"):
        small.cifar10(folder, "val")


def test_their_defaults_are_a_small_model_and_32_pixels():
    assert data.defaults("tiny") == data.defaults("cifar10") == {"model": "small_resnet", "image_size": 32}
    assert data.defaults("photos") == data.defaults("random") == {}
