"""Optimizers, groups, schedules and the learning rate finder of optimizers.py, against formulas written out and torch's own."""

import copy
import importlib.util
import itertools
import math
from argparse import Namespace

import numpy as np
import pytest
import torch
from torch import nn
from training import SCRIPT

STEPS = 100


@pytest.fixture(scope="module")
def optimizers():
    spec = importlib.util.spec_from_file_location("optimizers", SCRIPT.parent / "optimizers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def args(**more):
    return Namespace(**{"optimizer": "sgd", "batch_size": 32, "accumulate": 1, **more})


def test_the_default_learning_rate(optimizers):
    assert optimizers.default_lr(args(batch_size=256), 1) == 0.1
    assert optimizers.default_lr(args(accumulate=2), 4) == optimizers.default_lr(args(batch_size=256), 1)
    assert optimizers.default_lr(args(optimizer="adamw", batch_size=4), 8) == 1e-3
    assert optimizers.default_lr(args(optimizer="lamb", batch_size=512), 1) == pytest.approx(0.04 / 8)  # its authors' table
    assert all(optimizers.default_lr(args(optimizer=name), 1) > 0 for name in optimizers.NAMES)


# --- by name --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sgd", "adamw"])
@pytest.mark.parametrize("fused", [False, True])
def test_an_optimizer_by_name(optimizers, name, fused):
    weight = nn.Parameter(torch.ones(3))
    optimizer = optimizers.make_optimizer(name, [{"params": [weight], "weight_decay": 0.01}], 0.1, 0.8, fused)
    [group] = optimizer.param_groups
    assert group["fused"] == (True if fused else None), "otherwise torch's own choice, which on a GPU is no loop over parameters"
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.01)
    assert group.get("momentum", group.get("betas", [None])[0]) == 0.8
    weight.sum().backward()
    optimizer.step()
    assert (weight < 1).all()


@pytest.mark.parametrize("name", ["sgd", "adamw", "adamw8", "adamw16", "lars", "lamb", "lion", "muon"])
def test_each_goes_on_from_what_a_checkpoint_holds(optimizers, name):
    def net_and_optimizer():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2))
        return net, optimizers.make_optimizer(name, optimizers.parameter_groups(net, 0.1), 0.01, 0.9, False)

    def step(net, optimizer, seed):
        torch.manual_seed(seed)  # two of them round at random
        optimizer.zero_grad()
        net(torch.rand(4, 2, 3, 3, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
        optimizer.step()

    (net, optimizer), (again, resumed) = net_and_optimizer(), net_and_optimizer()
    for seed in range(3):
        step(net, optimizer, seed)
    again.load_state_dict(net.state_dict())
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # as it is, both would share their tensors
    for seed in (7, 8):
        step(net, optimizer, seed)
        step(again, resumed, seed)
    for one, other in zip(net.parameters(), again.parameters()):
        torch.testing.assert_close(one, other)


def test_groups(optimizers):
    net = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2))
    net[0].bias.requires_grad_(False)
    decays, rest = optimizers.parameter_groups(net, 0.1)
    assert [id(each) for each in decays["params"]] == [id(net[0].weight), id(net[3].weight)] and decays["weight_decay"] == 0.1
    assert [id(each) for each in rest["params"]] == [id(net[1].weight), id(net[1].bias), id(net[3].bias)]
    assert rest["weight_decay"] == 0
    muon = optimizers.make_optimizer("muon", [decays, rest], 0.01, 0.9, False)
    assert [group["orthogonal"] for group in muon.param_groups] == [True, False, False], "hidden, the classifier, the rest"
    assert len(muon.param_groups[0]["params"]) == 1


# --- small states -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("name", "each"), [("adamw8", 2 + 8 / 256), ("adamw16", 4)])
def test_small_states_go_where_adamw_goes(optimizers, name, each, dtype):
    """300 updates with gradients of different size, with noise: each weight moves by as much as with AdamW."""
    torch.manual_seed(0)
    size = torch.logspace(-6, 2, 160).repeat_interleave(16)
    weight, right = (nn.Parameter(torch.ones(2560, dtype=one)) for one in (dtype, torch.float32))
    small = optimizers.make_optimizer(name, [{"params": [weight], "weight_decay": 0.0}], 1e-3, 0.9, False)
    plain = torch.optim.AdamW([right], 1e-3, weight_decay=0.0)
    for _ in range(300):
        right.grad = size * (1 + torch.randn(2560))
        weight.grad = right.grad.to(dtype)
        small.step()
        plain.step()
    moved, expected = ((1 - each.detach().float()).view(-1, 16).mean(1) for each in (weight, right))
    ratio = moved / expected
    assert ratio.mean().item() == pytest.approx(1, abs=0.05) and ratio.min() > 0.8 and ratio.max() < 1.25
    kept = [value for value in small.state[weight].values() if isinstance(value, torch.Tensor)]
    assert sum(value.nbytes for value in kept) / 2560 == pytest.approx(each, rel=0.02)


def test_in_a_block_with_large_gradients_small_ones_make_no_large_steps(optimizers):
    weight = nn.Parameter(torch.ones(256))
    optimizer = optimizers.make_optimizer("adamw8", [{"params": [weight], "weight_decay": 0.0}], 1e-3, 0.9, False)
    size = torch.logspace(-6, 2, 256)
    for _ in range(50):
        weight.grad = size.clone()
        optimizer.step()
    moved = 1 - weight.detach()
    assert moved[-64:].mean().item() == pytest.approx(50e-3, rel=0.1) and (moved <= 2 * 50e-3).all() and (moved >= 0).all()


def test_rounding_at_random_loses_nothing_on_average(optimizers):
    torch.manual_seed(0)
    x = torch.tensor([1 + 2**-10, -3.3, 2**-20 / 3]).repeat_interleave(40_000)
    for without, dtype in ((16, torch.bfloat16), (20, torch.float8_e4m3fn)):
        found = optimizers.rounded(x, without)
        assert torch.equal(found[:80_000], found[:80_000].to(dtype).float()), "what the format has"
        for values, exact in zip(found.view(3, -1), x.view(3, -1)):
            assert len(values.unique()) == 2 and values.mean().item() == pytest.approx(exact[0].item(), rel=1e-3)
    weight = nn.Parameter(torch.ones(20_000, dtype=torch.bfloat16))
    weights = {"adamw16": weight, "adamw": nn.Parameter(weight.detach().clone())}
    for name, each in weights.items():
        optimizer = optimizers.make_optimizer(name, [{"params": [each], "weight_decay": 0.0}], 1e-4, 0.9, False)
        for _ in range(50):
            each.grad = torch.ones_like(each)
            optimizer.step()
    assert weights["adamw"].unique().tolist() == [1.0], "rounded to the nearest, each update is lost"
    assert weight.float().mean().item() == pytest.approx(1 - 50e-4, abs=1e-4)


# --- formulas, written out in numpy's float64 -------------------------------------------------------------------------------


def lars(w, gradients, lr=0.5, momentum=0.9, decay=0.1, trust=0.001):
    v = np.zeros_like(w)
    for g in gradients:
        rate = trust * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w))
        v = momentum * v + lr * rate * (g + decay * w)
        w = w - v
    return w


def lamb(w, gradients, lr=0.05, one=0.9, two=0.999, eps=1e-6, decay=0.1):
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, 1):
        m, v = one * m + (1 - one) * g, two * v + (1 - two) * g * g
        r = m / (1 - one**t) / (np.sqrt(v / (1 - two**t)) + eps)
        u = r + decay * w
        w = w - lr * np.linalg.norm(w) / np.linalg.norm(u) * u
    return w


def lion(w, gradients, lr=0.01, one=0.9, two=0.99, decay=0.1):
    m = np.zeros_like(w)
    for g in gradients:
        w = w - lr * (np.sign(one * m + (1 - one) * g) + decay * w)
        m = two * m + (1 - two) * g
    return w


def trained(optimizer, parameter, gradients):
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def given(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    return (torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype),
            torch.randn(STEPS, *shape, generator=generator, dtype=torch.float64).to(dtype))


@pytest.mark.parametrize("name, formula, how", [
    ("Lars", lars, {"lr": 0.5}), ("Lamb", lamb, {"lr": 0.05}), ("Lion", lion, {"lr": 0.01})])
def test_as_published(optimizers, name, formula, how):
    start, gradients = given(6, 4)
    parameter = nn.Parameter(start.clone())
    found = trained(getattr(optimizers, name)([parameter], weight_decay=0.1, **how), parameter, gradients)
    torch.testing.assert_close(found, torch.from_numpy(formula(start.numpy(), gradients.numpy())), rtol=1e-6, atol=1e-6)
    assert (found - start).abs().max() > 0.1


def test_what_does_not_decay_is_updated_as_by_adam_and_sgd(optimizers):
    start, gradients = given(5)
    for name, how, torchs in (("Lamb", {"eps": 1e-8}, lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0)),
                              ("Lars", {}, lambda p: torch.optim.SGD(p, 0.01, momentum=0.9))):
        ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
        found = trained(getattr(optimizers, name)([ours], 0.01, **how), ours, gradients)
        torch.testing.assert_close(found, trained(torchs([theirs]), theirs, gradients), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["Lars", "Lamb", "Lion", "Muon"])
def test_weights_and_gradients_of_zero(optimizers, name):
    for weights, gradient in ((torch.zeros(3, 2), torch.ones(3, 2)), (torch.ones(3, 2), torch.zeros(3, 2))):
        parameter = nn.Parameter(weights.clone())
        optimizer = getattr(optimizers, name)([{"params": [parameter], "orthogonal": True}], 0.1, weight_decay=0.1)
        assert trained(optimizer, parameter, [gradient] * 3).isfinite().all()


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has it from 2.9 on")
@pytest.mark.parametrize("shape", [(6, 4), (4, 9)])
def test_muon_as_torch_has_it(optimizers, shape):
    start, gradients = given(*shape, dtype=torch.float32)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    muon = optimizers.Muon([{"params": [ours], "orthogonal": True}], 0.01, betas=(0.95, 0.999), weight_decay=0.1,
                           dtype=torch.bfloat16)  # in which torch's computes
    other = torch.optim.Muon([theirs], 0.01, momentum=0.95, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    torch.testing.assert_close(trained(muon, ours, gradients), trained(other, theirs, gradients), rtol=1e-6, atol=1e-6)


def test_muon_makes_kernels_orthogonal_and_leaves_the_rest_to_adamw(optimizers):
    start, gradients = given(4, 2, 3, 3, dtype=torch.float32)
    parameter = nn.Parameter(start.clone())
    step = trained(optimizers.Muon([{"params": [parameter], "orthogonal": True}], 1.0), parameter, gradients[:1]) - start
    values = torch.linalg.svdvals(step.flatten(1)) / (0.2 * math.sqrt(18))  # Newton's and Schulz's steps end between 0.7 and 1.2
    assert values.min() > 0.6 and values.max() < 1.3
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    found = trained(optimizers.Muon([ours], 0.01, weight_decay=0.1), ours, gradients)
    torch.testing.assert_close(found, trained(torch.optim.AdamW([theirs], 0.01, weight_decay=0.1), theirs, gradients),
                               rtol=1e-5, atol=1e-6)


# --- schedules ------------------------------------------------------------------------------------------------------------


def rates_of(optimizers, name, updates, warmup):
    weight = nn.Parameter(torch.ones(1))
    optimizer = optimizers.make_optimizer("sgd", [{"params": [weight]}], 0.1, 0.9, False)
    schedule, rates = optimizers.make_schedule(name, optimizer, 0.1, updates, warmup), []
    for _ in range(updates):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("name", ["constant", "onecycle", "cosine", "wsd"])
@pytest.mark.parametrize("updates", [1, 2, 3, 10, 97])
@pytest.mark.parametrize("warmup", [0, 1, 4, 200])
def test_a_schedule_lasts_as_long_as_the_training(optimizers, name, updates, warmup):
    rates = rates_of(optimizers, name, updates, warmup)
    assert all(0 <= rate <= 0.1 + 1e-12 for rate in rates) and max(rates) > 0
    if name != "onecycle":
        rising = min(warmup, updates)
        assert rates[:rising] == pytest.approx([0.1 * (step + 1) / warmup for step in range(rising)])
    if name == "constant":
        assert set(rates[warmup:]) <= {0.1}
    elif name == "cosine":
        expected = [0.05 * (1 + math.cos(math.pi * step / (updates - warmup))) for step in range(updates - warmup)]
        assert rates[warmup:] == pytest.approx(expected, abs=1e-9)
    elif name == "wsd":
        last = max(1, round(0.2 * updates))
        assert set(rates[warmup : updates - last]) <= {0.1}
        if warmup < updates - last:
            assert rates[-last:] == pytest.approx([0.1 * (last - step) / last for step in range(last)])
    elif updates > 9 and not warmup:
        assert rates[0] == pytest.approx(0.1 / 25) and rates[-1] < 1e-5 and max(rates) > 0.095


def test_onecycle_takes_its_warm_up_from_the_switch(optimizers):
    rates = rates_of(optimizers, "onecycle", 100, 10)
    assert rates.index(max(rates)) == 10


# --- the finder -----------------------------------------------------------------------------------------------------------


def test_the_finder_leaves_nothing_behind(optimizers):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()
    optimizer = optimizers.make_optimizer("adamw", optimizers.parameter_groups(net, 0.1), 0.01, 0.9, False)
    batches = [(torch.randn(16, 4), torch.randint(3, (16,))) for _ in range(40)]
    before = [each.clone() for each in net.state_dict().values()]

    def loss_of(net, batch):
        return nn.functional.cross_entropy(net(batch[0]), batch[1])

    found = optimizers.find_lr(net, optimizer, iter(batches), loss_of, 1e-4, 1e3, 40)
    assert found[0][0] == 1e-4 and [two / one for (one, _), (two, _) in itertools.pairwise(found)] == pytest.approx(
        [10 ** (7 / 39)] * (len(found) - 1))
    assert len(found) < 40 and not found[-1][1] <= 4 * min(loss for _, loss in found[:-1]), "it has diverged"
    assert all(map(torch.equal, before, net.state_dict().values())) and not net.training
    assert {group["lr"] for group in optimizer.param_groups} == {0.01} and not optimizer.state
    assert all(each.grad is None for each in net.parameters())
