"""Several processes compute what one does: the same parameters, the same sums, each image counted once."""

import pytest
import torch
from training import make_images

# A step sees all eight images, so that it makes no difference which process has which.
EIGHT = ("--epochs", 3, "--checkpoint-every", 1)
WAYS = {"1 x 8": (1, 8, 1), "1 x 4, accumulate 2": (1, 4, 2), "2 x 4": (2, 4, 1), "2 x 2, accumulate 2": (2, 2, 2),
        "4 x 2": (4, 2, 1), "2 x 1, accumulate 4": (2, 1, 4), "4 x 1, accumulate 2": (4, 1, 2)}


@pytest.fixture(scope="session")
def eight(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("eight") / "set", train=8, val=7)


def train(training, data, name, *more):
    world, batch, accumulate = WAYS[name]
    return training.run_ranks(name.replace(" ", ""), world, "-b", batch, "--accumulate", accumulate, *EIGHT, *more, data=data)


def close(one, other):
    assert one.keys() == other.keys()
    for key in one:
        torch.testing.assert_close(one[key], other[key], rtol=1e-4, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}")


def epochs(run):
    """Loss and accuracy of each pass over the eight images, from the record's steps."""
    found = {}
    for step in run.record.steps:
        sums = found.setdefault(step["epoch"], [0, 0, 0])
        for place, value in enumerate((1, step["loss"], step["accuracy"])):
            sums[place] += value * step["images"]
    assert all(images == 8 for images, _, _ in found.values())
    return [value / 8 for _, *sums in found.values() for value in sums]


@pytest.mark.parametrize("name", list(WAYS)[1:])
def test_the_same_parameters_after_three_updates(training, eight, name):
    alone, run = train(training, eight, "1 x 8"), train(training, eight, name)
    close(run.checkpoint["model"], alone.checkpoint["model"])
    moments = [[state["momentum_buffer"] for state in of.checkpoint["optimizer"]["state"].values()] for of in (run, alone)]
    torch.testing.assert_close(*moments, rtol=1e-4, atol=1e-6)
    assert epochs(run) == pytest.approx(epochs(alone), rel=1e-4)
    mine, expected = run.record.validations, alone.record.validations
    assert [v["images"] for v in mine] == [v["images"] for v in expected] == [7, 7, 7]
    for key in ("loss", "accuracy"):
        assert [v[key] for v in mine] == pytest.approx([v[key] for v in expected], rel=1e-4)
    world, batch, accumulate = WAYS[name]
    assert run.record.start["global_batch"] == world * batch * accumulate == 8
    assert run.record.start["world_size"] == world


def test_the_learning_rate_is_that_of_all_images_of_an_update(training, eight):
    for name in ("1 x 8", "2 x 2, accumulate 2"):
        run = train(training, eight, name, "--lr", "0.1", "--epochs", 1)
        assert run.record.steps[0]["lr"] == 0.1
    training.COMMON = ("--model", "tiny", "--image-size", 16)  # without --lr
    for name, (world, batch, accumulate) in (("alone", (1, 4, 2)), ("two", (2, 2, 2))):
        run = training.run_ranks(name, world, "-b", batch, "--accumulate", accumulate, data=eight)
        assert run.record.steps[0]["lr"] == pytest.approx(0.1 * 8 / 256)
    run = training.run("adam", "-b", 8, "--optimizer", "adamw", data=eight)
    assert run.record.steps[0]["lr"] == 1e-3


def test_the_last_group_of_an_epoch_may_be_smaller(training, training_images):
    """Six batches in groups of four: updates after the fourth and the sixth, the second from the mean of its two batches."""
    seen = """
import torch
step = torch.optim.SGD.step
def noted(self, *args, **more):
    print("UPDATE", sum(p.grad.double().sum().item() for g in self.param_groups for p in g["params"]))
    return step(self, *args, **more)
torch.optim.SGD.step = noted
"""
    updates = {}
    for name, batch, accumulate in (("groups", 4, 4), ("whole", 16, 1)):
        run = training.run(name, "-b", batch, "--accumulate", accumulate, "-e", 2, before=seen)
        updates[name] = [float(line.split()[1]) for line in run.out.splitlines() if line.startswith("UPDATE")]
    assert len(updates["groups"]) == 4 and updates["groups"] == pytest.approx(updates["whole"], rel=1e-3)


def test_ranks_talk_once_an_update_and_once_a_metric(training, eight):
    """no_sync: gradients travel with the last batch of a group only."""
    counted = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
init = DDP.__init__
def noted(self, *args, **more):
    init(self, *args, **more)
    def hook(state, bucket):
        print("GRADIENTS")
        return dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(lambda f: f.value()[0])
    self.register_comm_hook(None, hook)
DDP.__init__ = noted
reduce = dist.all_reduce
def count(tensor, *args, **more):
    print("METRICS" if tensor.shape == (3,) and tensor.element_size() == 4 else "OTHER")
    return reduce(tensor, *args, **more)
dist.all_reduce = count
"""
    run = training.run_ranks("sync", 2, "-b", 1, "--accumulate", 2, "--metric-every", 3, "-e", 2, data=eight, before=counted)
    lines = run.out.splitlines()
    assert lines.count("GRADIENTS") == 4  # two updates in each of two epochs; the tiny model is one bucket
    assert lines.count("METRICS") == 4  # after steps 3 and 6, and at the end of both epochs
    metrics = [step["step"] for step in run.record.steps if "loss" in step]
    assert metrics == [3, 4, 6, 8]


def test_metrics_are_sums_over_all_steps_since_the_last(training, eight):
    each = train(training, eight, "2 x 2, accumulate 2", "--epochs", 1)
    rare = training.run_ranks("rare", 2, "-b", 2, "--accumulate", 2, *EIGHT, "--epochs", 1, "--metric-every", 5, data=eight)
    losses = [step["loss"] for step in each.record.steps]
    assert [step.get("loss") for step in rare.record.steps] == [None, pytest.approx(sum(losses) / 2)]


@pytest.mark.parametrize("world", [2, 4])
def test_batch_norm_validates_with_the_statistics_of_rank_0(training, eight, world):
    shown = """
import torch.distributed as dist
import atexit, torch
from torch.nn.modules.batchnorm import _BatchNorm
seen = []
forward = _BatchNorm.forward
def noted(self, x):
    if not self.training:
        seen.append(self.running_mean.double().sum().item())
    return forward(self, x)
_BatchNorm.forward = noted
atexit.register(lambda: print("STATISTICS", sorted(set(seen))))
"""
    ranks = training.start_ranks("bn", world, "--model", "tiny_bn", "-b", 8 // world, *EIGHT, data=eight, before=shown)
    for rank in ranks:
        assert rank.wait().code == 0, rank.err
    shown = [next(line for line in rank.out.splitlines() if line.startswith("STATISTICS")) for rank in ranks]
    assert len(set(shown)) == 1 and len(shown[0].split()) == 1 + 9  # three layers, three validations
    assert [v["images"] for v in ranks[0].record.validations] == [7, 7, 7]


@pytest.mark.parametrize("world", [2, 4])
def test_fewer_images_to_validate_than_processes(training, tmp_path, world):
    data = make_images(tmp_path / "few", train=8, val=3, classes=("a",))
    run = training.run_ranks("few", world, "-b", 2, data=data)
    assert run.record.validations[0]["images"] == 3


def test_only_rank_0_prints_and_writes(training, eight):
    ranks = training.start_ranks("quiet", 2, "-b", 4, *EIGHT, data=eight)
    for rank in ranks:
        assert rank.wait().code == 0
    assert ranks[0].out and not ranks[1].out and not ranks[1].err
    record = ranks[0].record
    assert len(record.starts) == 1 and len(record.steps) == 3 and len(record.checkpoints) == 3


def test_two_epochs_in_another_order_and_the_ranks_together_read_all(training, eight):
    told = """
import dlojz.data as data
item = data.ImageFolder.__getitem__
def noted(self, index):
    if self.training:
        print("READ", int(self._epoch), index)
    return item(self, index)
data.ImageFolder.__getitem__ = noted
"""
    ranks = training.start_ranks("order", 2, "-b", 2, "-e", 3, data=eight, before=told)
    read = {}
    for number, rank in enumerate(ranks):
        assert rank.wait().code == 0
        for line in rank.out.splitlines():
            if line.startswith("READ"):
                _, epoch, index = line.split()
                read.setdefault(int(epoch), [[], []])[number].append(int(index))
    assert sorted(read) == [0, 1, 2]
    assert all(sorted(one + two) == list(range(8)) for one, two in read.values())
    assert len({tuple(one + two) for one, two in read.values()}) == 3
