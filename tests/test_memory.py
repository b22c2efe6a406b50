"""Activation checkpointing: the same gradients, statistics and dropout, and less memory."""

import pytest
import torch
import torchvision
import training_models  # noqa: F401  registers small models
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.vision_transformer import VisionTransformer

from dlojz.training import activation_checkpointing

OWN = {  # as torchvision's, but small
    "vit": lambda: VisionTransformer(32, 8, num_layers=3, num_heads=2, hidden_dim=32, mlp_dim=64, dropout=0.1, num_classes=4),
    "convnext": lambda: ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 2)], 0.5, num_classes=4),
}


def build(name, checkpointed):
    torch.manual_seed(0)
    net = OWN[name]() if name in OWN else torchvision.models.get_model(name, num_classes=4)
    blocks = activation_checkpointing.checkpoint_activations(net) if checkpointed else 0
    return net, blocks


def steps(net, size, count=2, batch=3):
    """Gradients of the last of some steps, and what the network keeps."""
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    torch.manual_seed(1)
    for _ in range(count):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.rand(batch, 3, size, size)), torch.arange(batch) % 4).backward()
        optimizer.step()
    return {name: p.grad for name, p in net.named_parameters()}, net.state_dict()


@pytest.mark.parametrize("name, size, blocks", [
    ("tiny_bn", 16, 2), ("tiny", 16, 0), ("resnet18", 32, 8), ("vit", 32, 3), ("convnext", 32, 4), ("mobilenet_v3_small", 32, 11),
])
def test_the_same_gradients_and_statistics(name, size, blocks):
    """Dropout and stochastic depth draw the same random numbers the second time."""
    (plain, _), (net, found) = build(name, False), build(name, True)
    assert found == blocks
    assert list(net.state_dict()) == list(plain.state_dict())
    (grads, state), (expected, kept) = steps(net, size), steps(plain, size)
    for of, other in ((grads, expected), (state, kept)):
        for key in other:
            assert torch.equal(of[key], other[key]), key


def test_compiled_it_is_the_same():
    found = []
    for checkpointed in (False, True):
        net, _ = build("tiny_bn", checkpointed)
        grads, _ = steps(torch.compile(net, backend="aot_eager"), 16)
        found.append([*grads.values(), *net.state_dict().values()])
        torch.compiler.reset()
    assert all(torch.equal(one, other) for one, other in zip(*found))


def test_the_random_numbers_afterwards_are_the_same():
    numbers = []
    for checkpointed in (False, True):
        net, _ = build("tiny_bn", checkpointed)
        steps(net, 16)
        numbers.append(torch.rand(3))
    assert torch.equal(*numbers)


def test_evaluation_is_not_touched():
    net, _ = build("tiny_bn", True)
    steps(net, 16)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    net.eval()
    with torch.no_grad():
        net(torch.rand(2, 3, 16, 16))
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())


def test_batch_norm_that_averages_over_all_batches():
    """momentum=None: the mean of all batches so far, which counts them."""
    states = []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.ModuleDict({"body": torch.nn.BatchNorm2d(3, momentum=None)}))
        net[0].forward = net[0]["body"].forward
        if checkpointed:
            assert activation_checkpointing.checkpoint_activations(net) == 1
        torch.manual_seed(1)
        for _ in range(3):
            net(torch.rand(4, 3, 5, 5, requires_grad=True)).square().sum().backward()
        states.append(net.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert states[1]["0.body.num_batches_tracked"] == 3


def saved_bytes(net, size, batch=8) -> int:
    """What the forward pass keeps for the backward pass, without the parameters."""
    kept, own = {}, {p.data_ptr() for p in net.parameters()}

    def pack(tensor):
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = net(torch.rand(batch, 3, size, size)).sum()
    del held
    return sum(kept.values())


@pytest.mark.parametrize("name, ratio", [("resnet18", 0.6), ("resnet50", 0.4), ("vit", 0.4)])
def test_less_memory(name, ratio):
    size = 32 if name == "vit" else 64
    plain, less = (saved_bytes(build(name, checkpointed)[0], size) for checkpointed in (False, True))
    print(f"{name}: {plain / 1e6:.0f} MB kept for the backward pass, {less / 1e6:.0f} with checkpointing")
    assert less < ratio * plain


def test_a_training_with_it_is_the_same(training):
    argv = ("--model", "tiny_bn", "-e", 2, "--checkpoint-every", 100)
    plain, run = training.run("plain", *argv), training.run("less", *argv, "--checkpoint-activations")
    assert run.losses == plain.losses
    assert run.record.start["notes"] == []
    run = training.run("none", "--model", "tiny", "-e", 1, "--checkpoint-activations")
    assert run.record.start["notes"] == ["--checkpoint-activations has no effect: this model has no repeated blocks"]
