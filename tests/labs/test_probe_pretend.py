"""GPUs that are not there: what torch says of devices, where it mixes them and where not. Each case is a small script."""

import textwrap

import pytest

from dlojz.labs.probe import Limits, Probe, Session

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F

def refused(function):
    try:
        function()
    except (RuntimeError, TypeError, ValueError) as error:  # NotImplementedError is one of the first
        return str(error)
    raise AssertionError("nothing was raised")

cpu = torch.arange(6.0).reshape(2, 3)
gpu = cpu.to("cuda")
"""

CASES = {
    "devices": """
        assert torch.cuda.is_available() and torch.cuda.device_count() == 2
        assert gpu.device == torch.device("cuda", 0) and gpu.is_cuda and not cpu.is_cuda and cpu.device.type == "cpu"
        assert gpu.cpu().device.type == "cpu" and gpu.to(torch.device("cpu")).device.type == "cpu" and gpu.get_device() == 0
        assert cpu.cuda(1).device == torch.device("cuda:1") and cpu.to(1).device.index == 1 and cpu.to(gpu).is_cuda
        torch.cuda.set_device(1)
        assert cpu.cuda().device.index == 1 and torch.cuda.current_device() == 1 and cpu.to("cuda").device.index == 1
        with torch.cuda.device(0):
            assert cpu.cuda().device.index == 0
        assert "index" in refused(lambda: torch.cuda.set_device(torch.device("cuda")))
        assert "invalid device ordinal" in refused(lambda: cpu.cuda(2))
    """,
    "values": """
        assert torch.equal((gpu * 2 + 1).cpu(), cpu * 2 + 1)
        assert gpu.sum().item() == 15 and float(gpu.max()) == 5 and gpu.tolist() == cpu.tolist()
        assert gpu.to("cuda") is gpu and cpu.cpu() is cpu
        copy = cpu.to("cuda"); copy += 1
        assert cpu[0, 0] == 0, "a move is a copy"
        half = cpu.to("cuda", torch.float16)
        assert half.dtype == torch.float16 and half.is_cuda
        last = torch.zeros(2, 3, 4, 4).to("cuda", memory_format=torch.channels_last)
        assert last.is_cuda and last.is_contiguous(memory_format=torch.channels_last)
        assert "numpy" in refused(gpu.numpy) and gpu.cpu().numpy().sum() == 15
    """,
    "views": """
        assert gpu.view(-1).is_cuda and gpu[0].is_cuda and gpu.t().is_cuda and gpu.detach().is_cuda and gpu.split(1)[0].is_cuda
        first = gpu[0]; first.zero_()
        assert gpu[0].sum().item() == 0 and cpu[0].sum() == 3
    """,
    "factories": """
        for made in (torch.zeros(2, device="cuda"), torch.randn(2, 2, device=torch.device("cuda:1")),
                     torch.tensor([1], device="cuda"),
                     torch.as_tensor(cpu, device="cuda"), torch.full((2,), 1.0, device=0), gpu.new_zeros(2), torch.ones_like(gpu),
                     torch.empty_like(cpu, device="cuda"), torch.arange(3, device="cuda")):
            assert made.is_cuda, made
        assert not cpu.is_cuda and not torch.zeros_like(gpu, device="cpu").is_cuda and not gpu.new_zeros(2, device="cpu").is_cuda
        with torch.device("cuda:1"):
            assert torch.zeros(2).device.index == 1 and nn.Linear(2, 2).weight.device.index == 1
            assert not torch.zeros(2, device="cpu").is_cuda
        torch.set_default_device("cuda")
        assert torch.zeros(2).is_cuda
        torch.set_default_device(None)
        assert not torch.zeros(2).is_cuda
    """,
    "made on the way": """
        labels = torch.tensor([1, 0]).cuda(1)
        assert F.one_hot(labels, 3).device.index == 1 and (F.one_hot(labels, 3) * (labels >= 0)[:, None]).tolist()[1] == [1, 0, 0]
        assert not F.one_hot(torch.tensor([1, 0]), 3).is_cuda and not torch.zeros(2).is_cuda
        assert "same device" in refused(lambda: F.one_hot(labels, 3) * torch.ones(2, 3))
        attention = nn.MultiheadAttention(4, 2, add_zero_attn=True).to("cuda")
        words = torch.ones(2, 3, 4, device="cuda", requires_grad=True)
        attention(words, words, words)[0].sum().backward()
        assert words.grad.is_cuda
        made = []
        words = torch.ones(2, device="cuda", requires_grad=True)
        words.register_hook(lambda gradient: made.append(torch.ones(2)))
        words.sum().backward()
        assert not made[0].is_cuda, "what a hook makes without a device is on the CPU"
    """,
    "mixing": """
        assert "same device" in refused(lambda: gpu + cpu) and "cuda:0 and cpu" in refused(lambda: gpu + cpu)
        assert "cuda:1 and cuda:0" in refused(lambda: gpu + cpu.cuda(1))
        assert "same device" in refused(lambda: torch.cat([gpu, cpu])) and "same device" in refused(lambda: gpu @ cpu.t())
        assert "same device" in refused(lambda: F.cross_entropy(gpu, torch.tensor([0, 1])))
        assert "same device" in refused(lambda: cpu + gpu.sum()), "a number on the GPU does not go with the CPU"
        assert (gpu + cpu.sum()).is_cuda and (gpu * 2).is_cuda, "a number on the CPU goes with everything"
        assert gpu[torch.tensor([0])].is_cuda, "indices may be on the CPU"
        gpu[torch.tensor([0])] = 7.0
        target = torch.empty_like(gpu); target.copy_(cpu)
        assert target.is_cuda and target[1, 2] == 5
        back = torch.empty_like(cpu); back.copy_(gpu)
        assert not back.is_cuda
    """,
    "training": """
        for make in (lambda p: torch.optim.AdamW(p), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
                     lambda p: torch.optim.AdamW(p, fused=True)):
            net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 5)).to("cuda")
            assert all(p.is_cuda for p in [*net.parameters(), *net.buffers()])
            optimizer, scaler = make(net.parameters()), torch.amp.GradScaler("cuda")
            images, labels = torch.randn(2, 3, 4, 4, device="cuda"), torch.tensor([0, 1]).cuda()
            for _ in range(2):
                with torch.autocast("cuda", torch.float16):
                    loss = F.cross_entropy(net(images), labels)
                scaler.scale(loss).backward()
                assert all(p.grad.is_cuda for p in net.parameters())
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        assert all(value.is_cuda for value in net.state_dict().values())
        net.cpu()
        assert not any(p.is_cuda for p in net.parameters())
        assert "same device" in refused(lambda: net(images))
    """,
    "autocast of another device": """
        linear = nn.Linear(3, 2).cuda()
        for device, dtype, computed in (("cuda", torch.bfloat16, torch.bfloat16), ("cuda", None, torch.float16),
                                        ("cpu", torch.bfloat16, torch.float32)):
            with torch.autocast(device, dtype):
                assert linear(gpu).dtype == computed, device
    """,
    "without a kernel": """
        assert "torch has no `" in refused(lambda: torch.histogramdd(gpu, bins=[2, 2, 2]))
        assert "torch has no `" in refused(lambda: torch.histogram(gpu, 3)) and torch.histogram(cpu, 3)
    """,
    "put and sparse": """
        place, table = torch.tensor([1, 1]), torch.zeros(3).cuda()
        table.index_put_((place,), torch.ones(2).cuda(), accumulate=True)  # indices may be on the CPU
        assert table.tolist() == [0, 2, 0]
        assert "same device" in refused(lambda: table.index_put_((place.cuda(),), torch.ones(2), accumulate=True))
        table[place] = torch.tensor(1.0)  # one number goes with everything
        sparse = torch.sparse_coo_tensor(place[None].cuda(), torch.ones(2).cuda(), (3,)).coalesce()
        assert sparse.to_dense().is_cuda and (table + sparse.to_dense()).tolist() == [0, 3, 0]
    """,
    "gradients": """
        leaf = torch.ones(3, requires_grad=True)
        (leaf.to("cuda") * 2).sum().cpu().backward()
        assert not leaf.grad.is_cuda and leaf.grad.tolist() == [2, 2, 2]
    """,
    "storages": """
        for _ in range(3000):  # addresses are used again
            torch.ones(5, device="cuda")
            fresh = torch.frombuffer(bytearray(20), dtype=torch.float32)
            assert not fresh.is_cuda and not torch.ones(5).is_cuda
    """,
    "timing": """
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record(); last.record(); torch.cuda.synchronize()
        assert first.elapsed_time(last) >= 0
        assert torch.empty(4, pin_memory=True).copy_(gpu.sum(), non_blocking=True).device.type == "cpu"
        assert cpu.pin_memory() is cpu and torch.cuda.memory_allocated() == 0
    """,
}


@pytest.fixture(scope="module")
def session():
    with Session(Limits(seconds=60)) as session:
        yield session


@pytest.mark.parametrize("case", CASES)
def test_pretended(case, session, tmp_path):
    file = tmp_path / f"{case}.py"
    file.write_text(HEAD + textwrap.dedent(CASES[case]))
    session.begin(Limits(seconds=60))
    run = Probe(session, file.parent, file.name).run(gpus=2)
    assert run.first("end") and run.first("end").code == 0, f"{run.ended}\n{session.text()}"


def test_what_is_noted(session, tmp_path):
    """Moves and waits, with the line; those of torch's own scaler and of the kit count as theirs."""
    file = tmp_path / "moves.py"
    code = "import torch\nx = torch.ones(2)\ny = x.cuda()\nz = y.cpu()\nif y.sum() > 1:\n    w = y.to('cpu', torch.float16)\n"
    file.write_text(code)
    session.begin(Limits(seconds=60))
    run = Probe(session, file.parent, file.name).run(gpus=1)
    assert [(move.line, move.source, move.target, move.by) for move in run.all("move")] == [
        (3, "cpu", "cuda:0", "own"), (4, "cuda:0", "cpu", "own"), (6, "cuda:0", "cpu", "own")]
    assert [(wait.line, wait.by) for wait in run.all("sync")] == [(5, "own")]


def test_one_hot(session, tmp_path):
    """On a GPU it waits only where it has to find out how many classes there are."""
    file = tmp_path / "hot.py"
    code = "import torch\nx = torch.tensor([2, 0]).cuda()\nhot = torch.nn.functional.one_hot\n"
    code += "assert hot(x, 4).is_cuda and hot(input=x, num_classes=4).shape == (2, 4)\nassert hot(x).is_cuda\n"
    file.write_text(code)
    session.begin(Limits(seconds=60))
    run = Probe(session, file.parent, file.name).run(gpus=1)
    assert run.first("end").code == 0, session.text()
    assert {wait.line for wait in run.all("sync")} == {5}


@pytest.mark.parametrize("code, how", [
    ("torch.bincount(x)", "bincount"), ("torch.unique(x)", "unique"), ("x.nonzero()", "nonzero"),
    ("x[x > 0]", "indexing with a mask"),
    ("torch.sparse_coo_tensor(x[None], x, (3,)).coalesce()", "coalesce"), ("x[x]", None),
    ("torch.zeros_like(x).scatter_add_(0, x, x)", None),
])
def test_a_size_that_depends_on_values_is_waited_for(code, how, session, tmp_path):
    file = tmp_path / "sizes.py"
    file.write_text(f"import torch\nx = torch.tensor([1, 0]).cuda()\ny = {code}\n")
    session.begin(Limits(seconds=60))
    run = Probe(session, file.parent, file.name).run(gpus=1)
    assert run.first("end").code == 0, session.text()
    assert [(wait.line, wait.how) for wait in run.all("sync")][:1] == ([(3, how)] if how else [])
