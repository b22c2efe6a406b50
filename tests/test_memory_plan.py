"""The memory that is counted beforehand: against sums by hand, and against what real tensors take."""

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from dlojz.system.errors import UsageError
from dlojz.training import memory_plan
from dlojz.training.memory_plan import Count, Made, of_command

LM = "train_lm.py --model 1m --length 64 -b 4 --vocabulary 4096 --data random"


def test_a_small_step_by_hand():
    """Two layers: at the peak, in the backward pass, there is what can be added up."""
    def make():
        net = nn.Sequential(nn.Linear(256, 512, bias=False), nn.ReLU(), nn.Linear(512, 128, bias=False))
        return Made(net, torch.optim.Adam(net.parameters(), foreach=True), (torch.zeros(1024, 256),), lambda x: net(x).sum())

    plan = memory_plan.count_steps(make)
    weights = 4 * (256 * 512 + 512 * 128)
    assert plan.parts["parameters"] == weights and plan.parts["batch"] == 4 * 1024 * 256
    assert plan.parts["optimizer"] == 2 * weights + 2 * memory_plan.ROUND  # two moments, and a step for each
    hidden = 4 * 1024 * 512
    forward = 3 * weights + 1024 + 4 * 1024 * 256
    # Before ReLU and after it are there together; its input goes when Sequential lets go of it.
    assert plan.peaks["forward"] == forward + 2 * hidden
    # ReLU's backward pass: what it has kept, the gradient behind it and the one before it; and that of the second weight.
    assert plan.peaks["backward"] == forward + 3 * hidden + 4 * 512 * 128 + 2 * memory_plan.ROUND
    assert plan.peaks["validation"] == forward + 2 * hidden
    assert plan.peak == max(plan.peaks.values()) == sum(plan.parts.values())


@pytest.mark.parametrize("half", [None, torch.bfloat16])
def test_fake_tensors_take_what_real_ones_take(half):
    """The same steps, with tensors that have numbers, on the CPU."""
    def make():
        net = torchvision.models.resnet18(num_classes=10)
        return Made(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, foreach=True),
                    (torch.zeros(2, 3, 32, 32), torch.zeros(2, dtype=torch.long)), lambda x, y: F.cross_entropy(net(x), y), half)

    plan = memory_plan.count_steps(make)
    made = make()
    with memory_plan.as_cuda(), Count() as count:
        for tensor in (*made.net.parameters(), *made.net.buffers(), *made.batch):
            count.see(tensor)
        memory_plan.steps(made, "cpu", 2, lambda phase: setattr(count, "phase", phase))
    assert count.plan().peak == pytest.approx(plan.peak, rel=0.01)


def test_parts_of_a_language_model():
    plan = of_command(f"{LM} --amp bf16")
    assert plan.batch == 4 and plan.title == f"{LM} --amp bf16"
    logits = 4 * 64 * 4096
    assert plan.parts["logits and loss"] == pytest.approx(3 * 4 * logits, rel=0.2)  # log-probabilities, two gradients
    parameters = plan.parts["parameters"]
    assert plan.parts["optimizer"] == pytest.approx(2 * parameters, rel=0.02)
    assert plan.parts["weights in half precision"] == pytest.approx(parameters / 2, rel=0.02)
    twice = of_command(f"{LM} --amp bf16", batch_size=8)
    for part in ("activations", "logits and loss"):
        assert twice.parts[part] == pytest.approx(2 * plan.parts[part], rel=0.02)
    assert twice.parts["parameters"] == parameters


def test_what_is_held_after_a_forward_pass_is_what_real_tensors_keep():
    """Of a resnet18: what its layers keep for the backward pass, and the result, which nobody keeps for long."""
    net = torchvision.models.resnet18()
    own = {weight.data_ptr() for weight in (*net.parameters(), *net.buffers())}
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = F.cross_entropy(net(torch.randn(2, 3, 64, 64)), torch.tensor([0, 1]))
    held = memory_plan.held("train.py --model resnet18 --image-size 64 -b 2")
    assert held["activations"] == pytest.approx(sum(size for place, size in kept.items() if place not in own), rel=0.02)
    weights = 4 * sum(weight.numel() for weight in net.parameters())
    for part in ("parameters", "gradients", "optimizer"):  # momentum
        assert held[part] == pytest.approx(weights, rel=0.01)
    del loss


def test_autocast_halves_what_is_held_of_the_batch_and_nothing_else():
    command = "train.py --model resnet18 --image-size 64 -b 8 --optimizer adamw"
    plain, half = memory_plan.held(command), memory_plan.held(f"{command} --amp bf16")
    for part in ("parameters", "gradients", "optimizer"):
        assert half[part] == plain[part]
    assert 0.45 < half["activations"] / plain["activations"] < 0.6
    weights = sum(p.numel() for p in torchvision.models.resnet18().parameters() if p.dim() > 1)
    assert half["weights in half precision"] == pytest.approx(2 * weights, rel=0.1) and "weights in half precision" not in plain


def test_what_saves_memory_is_seen():
    """Also what a selective checkpoint keeps, which hooks on saved tensors do not see."""
    plain = of_command(LM)
    kept = {name: of_command(f"{LM} {switches}") for name, switches in {
        "products": "--checkpoint-activations products", "all": "--checkpoint-activations", "chunks": "--chunked-loss 8",
        "lora": "--lora 4", "sgd": "--optimizer sgd"}.items()}
    assert kept["all"].parts["activations"] < kept["products"].parts["activations"] < 0.8 * plain.parts["activations"]
    assert kept["chunks"].peak < 0.9 * plain.peak
    assert kept["chunks"].parts.get("logits and loss", 0) < 0.3 * plain.parts["logits and loss"]
    assert kept["lora"].parts["optimizer"] < 0.1 * plain.parts["optimizer"]
    assert kept["sgd"].parts["optimizer"] == pytest.approx(plain.parts["parameters"], rel=0.02)
    # Validation of a chunked loss must not make all logits at once either.
    assert plain.peaks["validation"] - kept["chunks"].peaks["validation"] > 1.4 * 4 * 256 * 4096


def test_autocast_halves_the_activations_of_resnet18():
    command = "train.py --model resnet18 --image-size 64 -b 64 --data random"
    plain, half, wide = (of_command(f"{command} {more}") for more in ("", "--amp bf16", "--amp bf16 --channels-last"))
    assert 0.45 < half.parts["activations"] / plain.parts["activations"] < 0.6
    assert wide.peak == pytest.approx(half.peak, rel=0.05)
    weights = sum(p.numel() for p in torchvision.models.resnet18().parameters())
    assert plain.parts["parameters"] == pytest.approx(4 * weights, rel=0.01)
    assert of_command(f"{command} --checkpoint-activations").parts["activations"] < 0.6 * plain.parts["activations"]


def test_the_functions_are_as_before_afterwards():
    before = F.rms_norm, F.cross_entropy
    of_command(LM)
    assert (F.rms_norm, F.cross_entropy) == before
    assert torch.zeros(2).sum().item() == 0


@pytest.mark.parametrize("command, said", [("", "nothing cannot be predicted"), ("heads.py -b 3", "the memory of heads.py"),
                                           ("train.py --amp fp8", "its switches are refused")])
def test_another_command_is_refused(command, said):
    with pytest.raises(UsageError, match=said):
        of_command(command)


def test_gradients_are_there_in_the_forward_pass_where_several_batches_make_an_update():
    alone, several = of_command(LM), of_command(f"{LM} --accumulate 4")
    assert several.peaks["forward"] == pytest.approx(alone.peaks["forward"] + alone.parts["parameters"], rel=0.01)
    assert several.peaks["update"] == alone.peaks["update"]


@pytest.mark.parametrize(("command", "said"), [
    (f"{LM} 'x", "is no command"), (5, "5 is no command"), ("python train_vit.py", "the memory of python cannot"),
    (f"{LM} -b 0", "--batch-size must be at least 1"), (f"torchrun --nproc-per-node 2 {LM} --shard", "--shard: what a process")])
def test_what_cannot_be_counted_is_said(command, said):
    with pytest.raises(UsageError, match=said):
        of_command(command)


def test_what_starts_the_script_does_not_matter():
    assert of_command(f"python {LM}").title == LM
