"""Data augmentation as the training script does it: what is mixed, by which random numbers, and what the loss makes of it."""

import importlib.util
import sys
from argparse import Namespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import v2
from training import SCRIPT, make_images

from dlojz import data
from dlojz.training import records
from dlojz.ui import words

MIXING = ["mixup-cpu", "mixup", "cutmix-loop", "cutmix"]


@pytest.fixture(scope="module")
def augment():
    spec = importlib.util.spec_from_file_location("augment", SCRIPT.parent / "augment.py")
    module = sys.modules["augment"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["augment"]


def args(name, **more):
    return Namespace(**{"augment": name, "alpha": None, "label_smoothing": 0.0, "seed": 1} | more)


def batch(count=6, classes=5, dtype=torch.uint8):
    generator = torch.Generator().manual_seed(count)
    images = torch.randint(0, 256, (count, 3, 18, 26), generator=generator).to(dtype)
    return images, torch.randint(0, classes, (count,), generator=generator)


def test_it_can_be_read_in_one_sitting():
    assert len((SCRIPT.parent / "augment.py").read_text().splitlines()) <= 165


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [1, 2, 64])
def test_the_batch_is_what_the_loop_is(augment, count, dtype):
    images, labels = batch(count, dtype=dtype)
    lam, partner, centres = augment.draw(count, 1.0, np.random.default_rng(count))
    box, targets = augment.boxes(lam, centres, *images.shape[2:]), augment.soft_labels(labels, 5)
    loop, whole = (function(images, targets, box, partner) for function in (augment.cutmix, augment.cutmix_batch))
    assert torch.equal(loop[0], whole[0]) and torch.allclose(loop[1], whole[1], atol=1e-6)
    assert loop[0].dtype == whole[0].dtype == dtype


def test_lambda_is_the_area_that_is_left(augment):
    """Counted from the pixels, over many boxes of which most are cut off at the border."""
    count = 400
    images = torch.arange(count, dtype=torch.float32)[:, None, None, None].expand(count, 3, 18, 26)
    lam, partner, centres = augment.draw(count, 1.0, np.random.default_rng(3))
    targets = augment.soft_labels(torch.arange(count), count)
    mixed, soft = augment.cutmix_batch(images, targets, augment.boxes(lam, centres, 18, 26), partner)
    kept = (mixed[:, 0] == images[:, 0]).float().mean((1, 2))
    assert torch.allclose(soft[torch.arange(count), torch.arange(count)], kept, atol=1e-6)
    assert torch.allclose(soft.sum(1), torch.ones(count)) and (kept > lam + 0.02).float().mean() > 0.3


@pytest.mark.parametrize("name", MIXING)
def test_nothing_is_changed_in_place(augment, name):
    images, labels = batch()
    before = images.clone(), labels.clone()
    augment.Mixer(args(name), 5, 0)(images, labels, 4)
    assert torch.equal(images, before[0]) and torch.equal(labels, before[1])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("name", MIXING)
def test_an_image_that_could_not_be_read_poisons_nothing(augment, name, smoothing):
    images, labels = batch(8)
    labels[[2, 5]] = data.UNREADABLE
    images[[2, 5]] = 0
    outputs = torch.randn(8, 5, generator=torch.Generator().manual_seed(0))
    for at in range(20):
        mixed, soft = augment.Mixer(args(name, label_smoothing=smoothing), 5, 0)(images, labels, at)
        assert not mixed[[2, 5]].any() and not soft[[2, 5]].any()
        read = labels >= 0
        assert torch.allclose(soft[read].sum(1), torch.ones(6)) and augment.dominating(soft)[~read].tolist() == [-100, -100]
        whole = torch.nn.functional.cross_entropy(outputs, soft) * 8
        assert whole.item() == pytest.approx((torch.nn.functional.cross_entropy(outputs[read], soft[read]) * 6).item(), rel=1e-5)


def test_smoothing_is_what_torch_makes_of_it(augment):
    """Smoothed before or after they are mixed, soft labels are the same."""
    images, labels = batch(32)
    _, plain = augment.Mixer(args("mixup", alpha=1.0), 5, 0)(images, labels, 1)
    _, smooth = augment.Mixer(args("mixup", alpha=1.0, label_smoothing=0.2), 5, 0)(images, labels, 1)
    outputs = torch.randn(32, 5)
    expected = torch.nn.functional.cross_entropy(outputs, plain, label_smoothing=0.2)
    assert torch.nn.functional.cross_entropy(outputs, smooth).item() == pytest.approx(expected.item(), rel=1e-5)


def test_accuracy_counts_the_larger_share(augment):
    assert augment.dominating(torch.tensor([3, -100])).tolist() == [3, -100]
    assert augment.dominating(torch.tensor([[0.3, 0.7], [0.6, 0.4], [0.0, 0.0]])).tolist() == [1, 0, -100]


# Random numbers


@pytest.mark.parametrize("name", MIXING)
def test_random_numbers_are_their_own_and_follow_from_seed_rank_and_step(augment, name):
    images, labels = batch(16)
    state = torch.get_rng_state(), np.random.get_state()[1].copy()

    def mixed(seed=1, rank=0, at=7):
        return augment.Mixer(args(name, seed=seed), 5, rank)(images, labels, at)[0]

    assert torch.equal(mixed(), mixed())
    assert not any(torch.equal(mixed(), mixed(**other)) for other in ({"seed": 2}, {"rank": 1}, {"at": 8}))
    assert torch.equal(torch.get_rng_state(), state[0]) and (np.random.get_state()[1] == state[1]).all()


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), 24, 2)


@pytest.mark.parametrize("name", ["mixup-cpu", "randaugment"])
def test_any_number_of_workers_makes_the_same_batches(augment, images, name):
    def batches(workers, start=0, epoch=0):
        folder = data.dataset(images, "train", 16, transform=augment.of_image(args(name)))
        folder.set_epoch(epoch)
        order = [*range(24)][start:]
        return [*DataLoader(torch.utils.data.Subset(folder, order), 6, num_workers=workers,
                            collate_fn=augment.in_loader(args(name, alpha=1.0), 2, 0))]

    alone = batches(0)
    for other in (batches(2), batches(1, start=12)):  # as in a run that is resumed after two batches
        for (one, labels), (two, twos) in zip(alone[-len(other):], other):
            assert one.dtype == torch.uint8 and torch.equal(one, two) and torch.equal(labels, twos)
    assert not torch.equal(alone[0][0], batches(0, epoch=1)[0][0])
    assert alone[0][1].dtype == (torch.float32 if name == "mixup-cpu" else torch.int64)


def test_randaugment_takes_uint8_and_gives_it_back(augment):
    """Each of its transforms, on a tensor as the data set makes it."""
    image = batch(1)[0][0]
    transform = augment.of_image(args("randaugment"))
    assert isinstance(transform, v2.RandAugment) and augment.of_image(args("mixup")) is None
    for name in transform._AUGMENTATION_SPACE:
        only = v2.RandAugment(1)
        only._AUGMENTATION_SPACE = {name: transform._AUGMENTATION_SPACE[name]}
        found = only(image)
        assert found.dtype == torch.uint8 and found.shape == image.shape, name


# Training


def test_the_model_draws_what_it_draws_without(training):
    """Dropout has drawn as many numbers, and the same ones, after an epoch with mixing as after one without."""
    plain, mixed = (training.run(name, "--model", "tiny_dropout", "-e", 1, "--augment", name, "--checkpoint-every", 9)
                    for name in ("none", "cutmix"))
    ours, theirs = (torch.load(run.folder / "checkpoint.pt", weights_only=True)["ranks"][0]["random"] for run in (plain, mixed))
    assert torch.equal(ours, theirs)
    assert plain.losses != mixed.losses


def test_the_record_says_it(training):
    record = training.run("run", "-e", 1, "--augment", "mixup", "--alpha", 0.4, "--label-smoothing", 0.1).record
    assert record.start["switches"]["augment"] == "mixup" and record.start["args"]["alpha"] == 0.4
    assert all(0 <= step["accuracy"] <= 1 for step in record.steps)


def test_losses_are_those_of_soft_labels(training):
    """With a model that says the same for all classes each image has a loss of log 2, mixed or not, and smoothed or not."""
    flat = "import torch\ntorch.nn.functional.linear = lambda x, w, b=None: torch.zeros(len(x), len(w)) + 0 * w.sum()"
    for argv in (("--augment", "mixup", "--label-smoothing", 0.3), ("--augment", "cutmix")):
        run = training.run("run" + argv[1], "-e", 1, *argv, before=flat)
        assert [step["loss"] for step in run.record.steps] == pytest.approx([np.log(2)] * 6, rel=1e-4)
        assert run.record.validations[0]["loss"] == pytest.approx(np.log(2), rel=1e-4)


def test_validation_does_not_smooth(training):
    argv = ("-e", 1, "--lr", 0)  # the same model, whatever it is trained for
    plain, smooth = (training.run(name, *argv, *more) for name, more in (("a", ()), ("b", ("--label-smoothing", 0.5))))
    assert plain.record.validations[0]["loss"] == smooth.record.validations[0]["loss"]
    assert plain.losses[1] != smooth.losses[1]


def test_two_ranks_mix_otherwise(training):
    noted = """
import numpy as np, os
made = np.random.default_rng
def noted(seed=None):
    print("SEED", seed, flush=True)
    return made(seed)
np.random.default_rng = noted
"""
    runs = training.start_ranks("run", 2, "-e", 1, "-b", 2, "--augment", "mixup", before=noted)
    seeds = [line for run in runs for line in run.wait().out.splitlines() if line.startswith("SEED")]
    assert [run.code for run in runs] == [0, 0] and len(seeds) == 12 == len(set(seeds))


# What is not written yet


def test_a_loader_s_worker_says_it_once_and_writes_none_of_the_training_s_lines(training):
    unwritten = """
import torch.utils.data, dlojz
collate = torch.utils.data.default_collate
def unwritten(samples):
    dlojz.todo("augmentation")
    return collate(samples)
torch.utils.data.default_collate = unwritten
"""
    run = training.run("run", "-e", 3, "--augment", "mixup-cpu", "--num-workers", 2, before=unwritten)
    assert [todo["lab"] for todo in run.record.todos] == ["augmentation"]
    steps = [event["step"] for event in records.Reader(run.folder).poll() if event["event"] == "step"]
    assert steps == list(range(1, 19)) and run.out.count("todo: ") <= 3  # workers begin anew in each epoch


def test_a_run_s_augmentation_in_words():
    said = {"augment": "cutmix", "alpha": 0.5, "num_workers": 0, "label_smoothing": 0.0}
    assert words.switches(said) == ["CutMix (alpha 0.5)"]
    assert words.switches(said, {"augmentation"}) == ["CutMix (alpha 0.5) (not written yet)"]
    assert words.switches(said | {"augment": "none"}) == [] == words.switches({})
    assert words.difference("none") == "-" and words.difference(0) == "0" and words.switch("augment", "none") == ""
