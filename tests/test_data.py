"""Image folders, broken files, random tensors, samplers."""

import io
import itertools
import os
import pickle
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as reference
from patience import LIMIT
from PIL import Image, ImageOps, PngImagePlugin
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torchvision.transforms import RandomResizedCrop

from dlojz import data
from dlojz.system.errors import UsageError
from dlojz.training.distributed import Processes

SIZE = 32


def picture(width=100, height=75, seed=0) -> Image.Image:
    """Smooth colours, different in each place, so that a wrong crop shows."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def make_folder(root: Path, train=4, val=2, classes=("cat", "dog")) -> Path:
    for split, count in (("train", train), ("val", val)):
        for label, name in enumerate(classes):
            (root / split / name).mkdir(parents=True)
            for n in range(count):
                picture(seed=10 * n + label).save(root / split / name / f"{n}.jpg", quality=95)
    return root


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "set")


def read(dataset, **loader):
    """Every image and label through a DataLoader."""
    batches = list(DataLoader(dataset, 3, **loader))
    return torch.cat([images for images, _ in batches]), torch.cat([labels for _, labels in batches])


# Items


@pytest.mark.parametrize("split", ["train", "val"])
def test_an_item_is_a_uint8_tensor_and_its_label(folder, split):
    dataset = data.dataset(folder, split, SIZE)
    image, label = dataset[0]
    assert image.shape == (3, SIZE, SIZE) and image.dtype == torch.uint8 and image.is_contiguous()
    assert label == 0 and isinstance(label, int)
    assert dataset.classes == ["cat", "dog"]
    assert [dataset[i][1] for i in range(len(dataset))] == [label for _, label in dataset.samples]
    assert all(Path(path).parent == folder / split / dataset.classes[label] for path, label in dataset.samples)


def test_other_file_types_and_spellings_count_and_hidden_files_do_not(folder):
    cat = folder / "train" / "cat"
    picture().save(cat / "big.JPEG", "JPEG")
    picture().save(cat / "p.png")
    (cat / "._0.jpg").write_bytes(b"what macOS leaves behind")
    (cat / "notes.txt").write_text("not an image")
    (folder / "train" / ".ipynb_checkpoints").mkdir()
    assert len(data.dataset(folder, "train", SIZE)) == 4 + 4 + 2


def test_folders_that_other_programs_leave_are_no_classes(folder):
    for name in ("__MACOSX", "@eaDir", "lost+found", ".ipynb_checkpoints"):
        (folder / "train" / name).mkdir()
        (folder / "train" / name / "._0.jpg").write_bytes(b"x")
    found = data.ImageFolder(folder, "train", SIZE)
    assert found.classes == ["cat", "dog"] and len(found) == 8


def test_images_in_a_folder_inside_a_class_are_left_out_and_the_folder_is_named(folder, capfd, monkeypatch):
    for inside in ("cat/more/2024", "cat/.hidden", "cat/@eaDir", "dog/notes"):
        (folder / "train" / inside).mkdir(parents=True)
    for place in ("cat/more/2024", "cat/.hidden", "cat/@eaDir"):
        picture().save(folder / "train" / place / "9.jpg")
    (folder / "train" / "dog" / "notes" / "readme.txt").write_text("no image")
    assert len(data.ImageFolder(folder, "train", SIZE)) == 8
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and f"{folder}/train/cat/more are left out" in said
    assert f"move them up into {folder}/train/cat\n" in said
    monkeypatch.setenv("RANK", "1")
    data.ImageFolder(folder, "train", SIZE)
    assert capfd.readouterr().err == "", "each process lists the same files"
    for file in (folder / "train" / "cat").glob("*.jpg"):
        file.unlink()
    with pytest.raises(UsageError, match=r"cat holds no images.* only in folders inside it, such as .*cat/more: move them up"):
        data.ImageFolder(folder, "train", SIZE)


def test_repeat_lists_training_files_several_times_with_other_crops(folder):
    once, thrice = data.dataset(folder, "train", SIZE), data.dataset(folder, "train", SIZE, repeat=3)
    assert len(thrice) == 3 * len(once) == len(thrice.samples)
    assert thrice.samples[len(once)] == thrice.samples[0]
    assert thrice[0][1] == thrice[len(once)][1] and not torch.equal(thrice[0][0], thrice[len(once)][0])
    assert len(data.dataset(folder, "val", SIZE, repeat=3)) == 4


def test_a_data_set_ends(folder):
    assert len(list(data.dataset(folder, "train", SIZE, repeat=2))) == 16


# Random numbers


def test_crops_depend_on_seed_epoch_and_index_alone(folder):
    def images(seed=0, epoch=0):
        dataset = data.dataset(folder, "train", SIZE, seed=seed)
        dataset.set_epoch(epoch)
        return dataset

    first = images(epoch=3)
    backwards = [first[i][0] for i in reversed(range(8))][::-1]
    again = images(epoch=3)
    assert all(torch.equal(a, again[i][0]) for i, a in enumerate(backwards))
    assert not any(torch.equal(a, images(epoch=4)[i][0]) for i, a in enumerate(backwards))
    assert not any(torch.equal(a, images(seed=1, epoch=3)[i][0]) for i, a in enumerate(backwards))


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_crops_are_the_same_for_any_number_of_workers(folder, workers):
    dataset = data.dataset(folder, "train", SIZE)
    dataset.set_epoch(2)
    expected = torch.stack([dataset[i][0] for i in range(8)])
    assert torch.equal(read(dataset, num_workers=workers)[0], expected)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_set_epoch_reaches_workers_that_stay(folder, start):
    dataset = data.dataset(folder, "train", SIZE)
    loader = DataLoader(dataset, 8, num_workers=1, persistent_workers=True, multiprocessing_context=start)
    seen = []
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        seen.append(next(iter(loader))[0])
    assert not torch.equal(*seen)
    assert torch.equal(seen[1], torch.stack([dataset[i][0] for i in range(8)]))


def test_validation_images_stay_the_same(folder):
    dataset = data.dataset(folder, "val", SIZE)
    before = dataset[0][0]
    dataset.set_epoch(1)
    assert torch.equal(before, dataset[0][0])


def test_a_transform_draws_its_own_random_numbers(folder):
    def noise(image):
        return (image + torch.randint(0, 256, image.shape)).to(torch.uint8)

    dataset = data.dataset(folder, "train", SIZE, transform=noise)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    here = torch.stack([dataset[i][0] for i in range(8)])
    assert torch.equal(torch.rand(3), expected)  # the training's own generator did not move
    assert torch.equal(read(dataset, num_workers=2)[0], here)
    plain = data.dataset(folder, "train", SIZE)
    assert not torch.equal(plain[0][0], here[0])
    dataset.set_epoch(1)
    assert not torch.equal(dataset[0][0], here[0])


# Crops


def test_random_crops_are_distributed_as_torchvisions():
    rng = random.Random(0)
    torch.manual_seed(0)
    image = Image.new("L", (500, 375))
    ours = np.array([data.random_crop(500, 375, rng) for _ in range(4000)], float)
    theirs = np.array([RandomResizedCrop.get_params(image, (0.08, 1), (3 / 4, 4 / 3)) for _ in range(4000)], float)
    theirs = theirs[:, [1, 0, 3, 2]]  # top, left, height, width
    assert (ours >= 0).all() and (ours[:, 0] + ours[:, 2] <= 500).all() and (ours[:, 1] + ours[:, 3] <= 375).all()
    for crops in (ours, theirs):
        crops[:, 2], crops[:, 3] = crops[:, 2] * crops[:, 3], np.log(crops[:, 2] / crops[:, 3])
    for quantile in (0.05, 0.25, 0.5, 0.75, 0.95):
        a, b = (np.quantile(crops, quantile, axis=0) for crops in (ours, theirs))
        assert (abs(a - b) < 0.05 * theirs.std(0) * 2 + 1).all(), (quantile, a, b)


@pytest.mark.parametrize("size", [(1000, 10), (10, 1000), (1, 1), (3, 1)])
def test_random_crop_of_an_image_too_long_for_any(size):
    top, left, height, width = RandomResizedCrop.get_params(Image.new("L", size), (0.999, 1), (3 / 4, 4 / 3))
    rng = random.Random(0)
    rng.uniform = lambda low, high: high  # 10 tries that are all too wide
    rng.randint = lambda low, high: low
    if size != (1, 1):
        assert data.random_crop(*size, rng) == (left, top, width, height)
    for seed in range(200):
        left, top, width, height = data.random_crop(*size, random.Random(seed))
        assert left >= 0 and top >= 0 and width >= 1 and height >= 1
        assert left + width <= size[0] and top + height <= size[1]


@pytest.mark.parametrize(
    "size, crop",
    [
        ((100, 75), (10, 20, 60, 50)),  # too small to be decoded at half the size
        ((100, 75), (0, 0, 100, 75)),
        ((640, 480), (99, 51, 301, 333)),
        ((1001, 601), (3, 5, 900, 590)),
    ],
)
def test_pixels_are_those_of_a_full_decode_and_torchvisions_resize(tmp_path, size, crop):
    file = tmp_path / "a.jpg"
    picture(*size).save(file, quality=95)
    left, top, width, height = crop
    ours = data.read_image(file, SIZE, lambda w, h: crop if (w, h) == size else None)
    theirs = reference.resized_crop(reference.pil_to_tensor(Image.open(file)), top, left, height, width, [SIZE, SIZE])
    assert (ours.float() - theirs.float()).abs().mean() < 2.5
    shifted = data.read_image(file, SIZE, lambda w, h: (left, top, width * 4 // 5, height * 4 // 5))
    assert (shifted.float() - theirs.float()).abs().mean() > 8  # what a wrong crop would give


def test_large_jpegs_are_decoded_small(tmp_path, monkeypatch):
    file = tmp_path / "a.jpg"
    picture(1600, 1200).save(file)
    decoded = []
    rgb = data._rgb
    monkeypatch.setattr(data.folders, "_rgb", lambda image: decoded.append(image.size) or rgb(image))
    data.read_image(file, 64, lambda w, h: (0, 0, w, h))
    data.read_image(file, 64, lambda w, h: (0, 0, 140, 140))
    data.read_image(file, 64, lambda w, h: (0, 0, 127, 127))
    assert decoded == [(200, 150), (800, 600), (1600, 1200)]


def test_validation_takes_the_centre(tmp_path):
    folder = make_folder(tmp_path)
    image = np.zeros((64, 128, 3), np.uint8)
    image[4:60, 36:92] = 255  # 56 x 56 = 64 * 224 / 256, in the middle
    Image.fromarray(image).save(folder / "val" / "cat" / "0.png")
    (folder / "val" / "cat" / "0.jpg").unlink()
    pixels, _ = data.dataset(folder, "val", SIZE)[0]
    assert pixels.min() == 255
    image[:] = 255 - image
    Image.fromarray(image).save(folder / "val" / "cat" / "0.png")
    assert data.dataset(folder, "val", SIZE)[0][0].max() == 0


def test_half_of_the_training_images_are_mirrored(tmp_path):
    folder = make_folder(tmp_path, train=1, val=1)
    for name in ("cat", "dog"):
        ramp = np.repeat(np.linspace(0, 255, 100, dtype=np.uint8)[None], 75, 0)  # dark on the left
        Image.fromarray(ramp).convert("RGB").save(folder / "train" / name / "0.jpg")
    dataset = data.dataset(folder, "train", SIZE, repeat=100)
    falling = sum(int(image[0, 0, 0] > image[0, 0, -1]) for image, _ in dataset)
    assert 70 < falling < 130


# Odd files


def sixteen_bits():
    values = np.linspace(0, 65535, 100 * 75).reshape(75, 100).astype(np.uint16)
    return Image.fromarray(values)


def palette():
    image = picture().convert("P", palette=Image.Palette.ADAPTIVE)
    image.info["transparency"] = bytes([0, 128, 255])
    return image


@pytest.mark.parametrize(
    "name, make",
    [
        ("grey.jpg", lambda: picture().convert("L")),
        ("cmyk.jpg", lambda: picture().convert("CMYK")),
        ("palette.png", palette),
        ("alpha.png", lambda: picture().convert("RGBA")),
        ("grey-alpha.png", lambda: picture().convert("LA")),
        ("bits.png", lambda: picture().convert("1")),
        ("sixteen.png", sixteen_bits),
        ("photo.webp", picture),
        ("photo.bmp", picture),
        ("one.jpg", lambda: Image.new("RGB", (1, 1), (200, 100, 50))),
        ("one-wide.png", lambda: Image.new("RGB", (1, 400), (200, 100, 50))),
    ],
)
@pytest.mark.filterwarnings("error")
def test_any_kind_of_image_becomes_rgb(tmp_path, name, make):
    image = make()
    image.save(tmp_path / name)
    pixels = data.read_image(tmp_path / name, SIZE, lambda w, h: (0, 0, w, h))
    grey = np.array(image).astype(float) // 256 if name == "sixteen.png" else np.array(image.convert("RGBA").convert("L"), float)
    assert pixels.shape == (3, SIZE, SIZE) and pixels.dtype == torch.uint8
    assert abs(pixels.float().mean() - grey.mean()) < 12
    assert abs(pixels[:, :8].float().mean() - grey[: max(1, len(grey) // 4)].mean()) < 16


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("size", [(100, 75), (640, 240)])  # the second one is decoded at half the size
def test_photos_are_turned_the_way_their_camera_was_held(tmp_path, turn, size):
    image, exif = picture(*size), Image.Exif()
    exif[0x0112] = turn
    image.save(tmp_path / "a.jpg", quality=95, exif=exif)
    upright = ImageOps.exif_transpose(Image.open(tmp_path / "a.jpg"))
    pixels = data.read_image(tmp_path / "a.jpg", SIZE, lambda w, h: (0, 0, w, h) if (w, h) == upright.size else None)
    expected = reference.resize(reference.pil_to_tensor(upright), [SIZE, SIZE])
    assert (pixels.float() - expected.float()).abs().mean() < 2


def test_a_broken_exif_tag_does_not_lose_the_picture(tmp_path):
    picture().save(tmp_path / "a.jpg", exif=b"Exif\0\0II*\0\xff\xff\xff\x7fgarbage")
    assert data.read_image(tmp_path / "a.jpg", SIZE, data.centre_crop).shape == (3, SIZE, SIZE)


# Files that cannot be read


def truncated(file: Path):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def replaced(content: bytes):
    return lambda file: file.write_bytes(content)


def loop(file: Path):
    file.unlink()
    file.symlink_to(file.name)


def dangling(file: Path):
    file.unlink()
    file.symlink_to("nowhere.jpg")


def directory(file: Path):
    file.unlink()
    file.mkdir()


def bomb(file: Path):
    """A PNG that says it has 60,000 x 60,000 pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b""))


def broken_png(file: Path):
    out = io.BytesIO()
    picture().save(out, "PNG")
    content = bytearray(out.getvalue())
    content[len(content) // 2 : len(content) // 2 + 40] = bytes(40)
    file.write_bytes(content)


def forbidden(file: Path):
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")


BROKEN = [truncated, replaced(b""), replaced(b"this is no image"), replaced(b"\xff\xd8\xff\xe0"), loop, dangling, directory, bomb]
BROKEN += [broken_png, forbidden]
NAMES = ["truncated", "empty", "text", "header", "loop", "dangling", "directory", "bomb", "png", "forbidden"]


@pytest.mark.parametrize("damage", BROKEN, ids=NAMES)
def test_a_file_that_cannot_be_read_is_named_and_skipped(folder, damage, capfd):
    bad = folder / "train" / "cat" / "1.jpg", folder / "val" / "cat" / "1.jpg"
    train, val = data.dataset(folder, "train", SIZE), data.dataset(folder, "val", SIZE)
    whole = [train[i] for i in range(8)]
    for file in bad:
        damage(file)
    images = [train[i] for i in range(8)]
    assert [train[i][1] for i in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert all(torch.equal(images[i][0], whole[i][0]) for i in range(8) if i != 1)
    assert images[1][0].float().std() > 5  # a picture
    assert val[1][1] == -100 and val[1][0].shape == (3, SIZE, SIZE)
    assert val[0][1] == 0 and val[1][1] == -100
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    for line, file in zip(said, bad):
        assert line.startswith(f"dlojz.data: skipped {file}: ") and len(line) > len(f"dlojz.data: skipped {file}: ") + 5


def test_what_replaces_a_broken_file_is_the_same_whenever_it_is_found(folder):
    truncated(folder / "train" / "cat" / "1.jpg")
    dataset = data.dataset(folder, "train", SIZE)
    found_now, known = dataset[1][0], dataset[1][0]
    assert torch.equal(found_now, known)


def test_a_broken_last_file_is_replaced_too(folder):
    truncated(folder / "train" / "dog" / "3.jpg")
    dataset = data.dataset(folder, "train", SIZE, repeat=2)
    assert dataset[7][1] == 0 and dataset[15][1] == 0


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_name_a_broken_file_once_over_all_epochs(folder, capfd, persistent):
    truncated(folder / "train" / "cat" / "1.jpg")
    dataset = data.dataset(folder, "train", SIZE, repeat=2)
    loader = DataLoader(dataset, 2, num_workers=1, persistent_workers=persistent)
    for _ in range(2):
        assert sum(len(labels) for _, labels in loader) == 16
    assert capfd.readouterr().err.count("skipped") == 1


def test_validation_counts_no_image_twice(folder):
    for n in (0, 1):
        truncated(folder / "val" / "cat" / f"{n}.jpg")
    _, labels = read(data.dataset(folder, "val", SIZE), num_workers=0)
    assert labels.tolist() == [-100, -100, 1, 1]
    loss = torch.nn.functional.cross_entropy(torch.zeros(4, 2), labels, reduction="sum")
    assert loss.item() == pytest.approx(2 * np.log(2))


@pytest.fixture
def many_broken(tmp_path):
    folder = make_folder(tmp_path / "set", train=8, val=1)
    for n in range(8):
        truncated(folder / "train" / "cat" / f"{n}.jpg")
        if n < 3:
            truncated(folder / "train" / "dog" / f"{n}.jpg")
    return folder


@pytest.mark.parametrize("workers", [0, 1])
def test_more_broken_files_than_the_limit_end_the_run_with_one_line(many_broken, workers):
    dataset = data.dataset(many_broken, "train", SIZE)
    try:
        for _ in DataLoader(dataset, 2, num_workers=workers):
            pass
    except UsageError as caught:
        error = caught.with_traceback(None)  # which would keep the loader, and its end for the next test
    message = str(error)
    assert type(error) is data.DataError and "\n" not in message
    assert message.startswith(f"11 of the 16 images in {many_broken / 'train'} cannot be read")
    assert str(many_broken / "train" / "cat" / "0.jpg") in message


def test_as_many_broken_files_as_the_limit_are_skipped(many_broken):
    picture().save(many_broken / "train" / "dog" / "0.jpg")
    assert [label for _, label in data.dataset(many_broken, "train", SIZE)] == [1] * 16


MARKING = """
import multiprocessing, sys, time
from dlojz import data
dataset = data.ImageFolder(sys.argv[1], "train", 16)

def another_worker():
    while True:
        dataset._skipped.fill_(True).fill_(False)

other = multiprocessing.get_context("fork").Process(target=another_worker, daemon=True)
other.start()
end = time.monotonic() + 1.5
while time.monotonic() < end:
    try:
        dataset._skip(0, "", OSError())
    except data.DataError as error:
        assert "cannot be read" in str(error)
other.kill()
"""


def test_a_worker_that_counts_broken_files_while_another_marks_them(many_broken):
    environment = dict(os.environ, PYTHONPATH=str(Path(data.__file__).parents[1]))
    command = [sys.executable, "-c", MARKING, many_broken]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert run.returncode == 0, run.stderr[-500:]


def test_no_readable_image_at_all(tmp_path):
    folder = make_folder(tmp_path / "set", train=1, val=1)
    for name in ("cat", "dog"):
        truncated(folder / "train" / name / "0.jpg")
    with pytest.raises(data.DataError, match="none of the 2 images"):
        data.dataset(folder, "train", SIZE)[0]


def test_the_error_survives_pickling():
    assert str(pickle.loads(pickle.dumps(data.DataError("what is wrong")))) == "what is wrong"


# Folders that are not laid out as they should be


def remove(path: Path):
    subprocess.run(["rm", "-r", str(path)], check=True)


@pytest.mark.parametrize(
    "damage, words",
    [
        (lambda root: remove(root), "is not there"),
        (lambda root: remove(root / "train"), "has no folder train/"),
        (lambda root: remove(root / "val"), "has no folder val/"),
        (lambda root: (remove(root / "train"), (root / "train").mkdir()), "holds no class folders"),
        (lambda root: (remove(root / "val" / "dog"), (root / "val" / "dog").mkdir()), "dog holds no images"),
        (lambda root: remove(root / "val" / "dog"), "dog only in train/"),
        (lambda root: (root / "val" / "cow").mkdir(), "cow only in val/"),
        (lambda root: (root / "train" / "cow").symlink_to("cow"), "cow"),
    ],
    ids=["missing", "no-train", "no-val", "empty-train", "empty-class", "val-lacks", "val-more", "symlink-loop"],
)
@pytest.mark.parametrize("split", ["train", "val"])
def test_a_folder_of_another_layout_is_refused_with_one_line(folder, damage, words, split):
    damage(folder)
    if words == "dog holds no images" and split == "train":
        assert len(data.dataset(folder, split, SIZE)) == 8
        return
    with pytest.raises(UsageError) as caught:
        data.dataset(folder, split, SIZE)
    message = str(caught.value)
    assert words in message and "train/CLASS/*.jpg" in message and "\n" not in message


# On the device


@pytest.mark.parametrize("format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype, exact", [(torch.float32, 1e-5), (torch.bfloat16, 0.01)])
def test_normalize(format, dtype, exact):
    images = torch.randint(0, 256, (2, 3, 5, 7), dtype=torch.uint8).contiguous(memory_format=format)
    floats = data.normalize(images, dtype)
    expected = reference.normalize(images.double() / 255, data.MEAN, data.STD)
    assert floats.dtype == dtype and floats.stride() == images.stride()
    torch.testing.assert_close(floats.double(), expected, rtol=exact, atol=exact)


def test_normalize_compiles_to_one_graph(monkeypatch):
    images = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    expected = data.normalize(images)
    monkeypatch.setattr(data.folders, "_SCALE_AND_SHIFT", {})
    compiled = torch.compile(data.normalize, fullgraph=True, backend="eager")  # raises at a graph break
    for _ in range(2):
        assert torch.equal(compiled(images), expected)


def test_random_batches():
    batches = data.random_batches(4, SIZE, 10, steps=3, device="cpu", seed=1)
    seen = list(batches)
    assert len(batches) == len(seen) == len(list(batches)) == 3
    images, labels = seen[0]
    assert images.shape == (4, 3, SIZE, SIZE) and images.dtype == torch.uint8 and images.float().std() > 60
    assert labels.shape == (4,) and labels.dtype == torch.int64 and labels.min() >= 0 and labels.max() < 10
    assert all(batch[0].data_ptr() == images.data_ptr() for batch in seen)  # no copies
    assert torch.equal(next(iter(data.random_batches(4, SIZE, 10, 3, "cpu", seed=1)))[0], images)
    assert not torch.equal(next(iter(data.random_batches(4, SIZE, 10, 3, "cpu", seed=2)))[0], images)


class Counting(torch.utils.data.Dataset):
    def __init__(self):
        self.loaded = []

    def __len__(self):
        return 10

    def __getitem__(self, index):
        self.loaded.append(index)
        return index


def test_a_resumed_epoch_leaves_out_what_was_done_and_only_once():
    dataset = Counting()
    sampler = data.Resumable(SequentialSampler(dataset))
    loader = DataLoader(dataset, 2, sampler=sampler)
    sampler.begin(0, 6)
    assert torch.cat(list(loader)).tolist() == [6, 7, 8, 9] == dataset.loaded
    assert torch.cat(list(loader)).tolist() == list(range(10))
    assert len(sampler) == 10 and len(loader) == 5


def test_a_resumed_epoch_has_the_order_that_it_had_before():
    order = torch.Generator()
    sampler = data.Resumable(RandomSampler(range(10), generator=order), None, order, seed=3)
    epochs = []
    for epoch in (0, 1):
        sampler.begin(epoch)
        epochs.append(list(sampler))
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1]) == list(range(10))
    sampler.begin(1, 4)
    assert list(sampler) == epochs[1][4:]


def test_a_resumable_distributed_sampler():
    inner = torch.utils.data.DistributedSampler(range(10), num_replicas=2, rank=1)
    sampler = data.Resumable(inner)
    sampler.set_epoch(3)
    assert inner.epoch == 3
    whole = list(sampler)
    sampler.begin(0, 2)
    assert list(sampler) == whole[2:] and len(sampler) == 5
    data.Resumable(SequentialSampler(range(3))).set_epoch(1)  # has none: nothing to do


@pytest.mark.parametrize("world", [1, 3])
def test_each_sample_is_validated_by_one_process(world):
    parts = [data.part(range(10), Processes(rank, world)).indices for rank in range(world)]
    assert sorted(itertools.chain(*parts)) == list(range(10)) and max(map(len, parts)) - min(map(len, parts)) <= 1
    assert [data.part(range(10), Processes(rank, world), 2).indices for rank in range(world)] == [part[:2] for part in parts]


# The command


def test_the_command_makes_a_set_of_the_size_asked_for(tmp_path):
    command = [sys.executable, "-m", "dlojz.data", "set", "--images", "60", "--distinct", "25", "--val", "10", "--mean-kb", "60"]
    run = subprocess.run(command, cwd=tmp_path, env=dict(os.environ, PYTHONPATH=str(Path(data.__file__).parents[1])))
    assert run.returncode == 0
    files = sorted((tmp_path / "set").glob("train/*/*.jpg"))
    assert len(files) == 60 and len({file.stat().st_ino for file in files}) == 20
    assert 54_000 < sum(file.stat().st_size for file in files) / 60 < 66_000
    dataset = data.dataset(tmp_path / "set", "train", SIZE)
    by_inode = {}
    for path, label in dataset.samples:
        by_inode.setdefault(os.stat(path).st_ino, set()).add(label)
    assert len(dataset) == 60 and all(len(labels) == 1 for labels in by_inode.values())
    assert len(data.dataset(tmp_path / "set", "val", SIZE)) == 10


@pytest.mark.parametrize(
    "arguments, words",
    [(["--images", "5"], "at least 10"), (["--mean-kb", "5000"], "choose from"), ([], "is there already")],
)
def test_the_command_refuses_with_one_line(tmp_path, capsys, arguments, words):
    target = tmp_path / "set"
    if not arguments:
        target.mkdir()
    assert data.main([str(target), *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1 and list(itertools.chain(tmp_path.glob("set/*"))) == []


# --- where a file says how the camera was held ----------------------------------------------------------------------------


def exif_bytes(turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    return exif.tobytes()


def xmp_text(turn, element=False):
    inside = f"><tiff:Orientation>{turn}</tiff:Orientation></rdf:Description>" if element else f' tiff:Orientation="{turn}"/>'
    return f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/"{inside}</x:xmpmeta>'


def behind_the_pixels(png, kind, body):
    chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return png[:-12] + chunk + png[-12:]


def profile(name, content):
    info = PngImagePlugin.PngInfo()
    info.add_text(f"Raw profile type {name}", f"\n{name}\n{len(content):8}\n{content.hex()}\n", zip=True)
    return {"pnginfo": info}


def itxt(turn):
    info = PngImagePlugin.PngInfo()
    info.add_itxt("XML:com.adobe.xmp", xmp_text(turn))
    return {"pnginfo": info}


PLACES = {
    "jpeg, exif": lambda saved: saved("JPEG", exif=exif_bytes(6)),
    "jpeg, xmp": lambda saved: saved("JPEG", xmp=xmp_text(6).encode()),
    "jpeg, xmp in an element": lambda saved: saved("JPEG", xmp=xmp_text(6, element=True).encode()),
    "jpeg, exif before xmp": lambda saved: saved("JPEG", exif=exif_bytes(6), xmp=xmp_text(3).encode()),
    "webp, exif": lambda saved: saved("WEBP", exif=exif_bytes(6)),
    "webp, xmp": lambda saved: saved("WEBP", xmp=xmp_text(6).encode()),
    "png, eXIf": lambda saved: saved("PNG", exif=exif_bytes(6)),
    "png, eXIf behind the pixels": lambda saved: behind_the_pixels(saved("PNG"), b"eXIf",
                                                                   exif_bytes(6).removeprefix(b"Exif\0\0")),
    "png, ImageMagick's exif": lambda saved: saved("PNG", **profile("exif", exif_bytes(6))),
    "png, ImageMagick's APP1": lambda saved: saved("PNG", **profile("APP1", exif_bytes(6))),
    "png, ImageMagick's xmp": lambda saved: saved("PNG", **profile("xmp", xmp_text(6).encode())),
    "png, xmp": lambda saved: saved("PNG", **itxt(6)),
    "tiff": lambda saved: saved("TIFF", tiffinfo={0x0112: 6}),
}


@pytest.mark.parametrize("where", PLACES)
def test_a_photo_is_turned_wherever_the_file_says_so(where):
    pixels = np.zeros((60, 90, 3), np.uint8)
    pixels[:30, :45] = 255, 0, 0

    def saved(kind, **how):
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, kind, **how)
        return out.getvalue()

    seen = []
    turned = data.decode_image(PLACES[where](saved), 32, lambda *size: seen.append(size) or (0, 0, *size))
    assert seen == [(60, 90)], "the crop is of the upright picture"
    assert [turned[0, y, x].item() > 128 for y, x in ((8, 8), (8, 24), (24, 8), (24, 24))] == [False, True, False, False]


@pytest.mark.parametrize("broken", [{"exif": b"Exif\0\0noise"}, {"xmp": b'tiff:Orientation="9"'}, {"xmp": b"\xff" * 50}])
def test_what_says_nothing_turns_nothing(broken):
    out = io.BytesIO()
    Image.new("RGB", (90, 60)).save(out, "JPEG", **broken)
    data.decode_image(out.getvalue(), 32, lambda width, height: (0, 0, width, height) if width == 90 else pytest.fail("turned"))
