"""What the check of parallelism does with parallelism.py: small inputs for its functions, and processes beside one that has
everything."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.nn import functional as F

from dlojz.training import distributed
from dlojz.training.sent import Sent

WIDTH, HIDDEN, GB = 6, 12, 1e9


# --------------------------------------------------------------------------------------------------- without processes
def messages():
    sizes = [2**power for power in range(8, 28, 2)]
    yield "two messages", ([1000, 1001000], [0.001, 0.002])
    yield "10 messages on a line: 20 us and 10 GB/s", (sizes, [2e-5 + size / 1e10 for size in sizes])
    yield "10 messages beside a line", (sizes, [(2e-5 + size / 1e10) * (1.3 if at % 3 else 0.8) for at, size in enumerate(sizes)])


def places():
    for devices, batches in ((1, 2), (2, 3), (4, 8), (4, 2)):
        for device in range(devices):
            yield f"device {device} of {devices}, {batches} microbatches", (device, devices, batches)


def listed(module):
    """`one_f_one_b`, with its order on one line: F0 F1 B0 B1."""
    def one_f_one_b(device, devices, batches):
        order = list(module.one_f_one_b(device, devices, batches))
        if not all(isinstance(each, (tuple, list)) and len(each) == 3 for each in order):
            return str(order)
        return " ".join(f"{kind}{batch}" + ("" if stage == device else f" (of stage {stage})") for kind, stage, batch in order)

    return one_f_one_b


def orders():
    whole, cut = {"F": 1.0, "B": 2.0}, {"F": 1.0, "I": 1.0, "W": 1.0}

    def all_forward(devices, batches):
        return [[(kind, device, batch) for kind in "FB" for batch in range(batches)] for device in range(devices)]

    yield "1 device, 1 microbatch", (all_forward(1, 1), whole)
    yield "2 devices, 1 microbatch", (all_forward(2, 1), whole)
    yield "3 devices, 4 microbatches, GPipe", (all_forward(3, 4), whole)
    yield "2 devices, 2 microbatches, the backward pass in two halves", (
        [[("F", 0, 0), ("F", 0, 1), ("I", 0, 0), ("W", 0, 0), ("I", 0, 1), ("W", 0, 1)],
         [("F", 1, 0), ("I", 1, 0), ("F", 1, 1), ("I", 1, 1), ("W", 1, 0), ("W", 1, 1)]], cut)
    yield "2 devices with 2 stages each", (
        [[("F", 0, 0), ("F", 2, 0), ("B", 2, 0), ("B", 0, 0)], [("F", 1, 0), ("F", 3, 0), ("B", 3, 0), ("B", 1, 0)]], whole)
    yield "2 devices, each of which begins with what needs the other one's second action", (
        [[("B", 0, 0), ("F", 0, 0)], [("B", 1, 0), ("F", 1, 0)]], whole)


def said(module):
    """`simulate`, with its result in words."""
    kinds = {"F": "forward", "B": "backward", "I": "the gradient of inputs", "W": "the gradient of weights"}

    def simulate(orders, seconds):
        try:
            times = module.simulate(orders, seconds)
        except ValueError:
            return {"the end": "ValueError"}
        if not isinstance(times, dict) or not all(isinstance(each, (tuple, list)) and len(each) == 2 for each in times.values()):
            return times
        return {"the end": "a result"} | {
            f"{kinds.get(kind, kind)}, stage {stage}, microbatch {batch}": {"begin": begin, "end": end}
            for (kind, stage, batch), (begin, end) in times.items()}

    return simulate


def pipelines():
    yield "gpipe, 1 device", ("gpipe", 1, 4)
    yield "gpipe, 4 devices, 8 microbatches", ("gpipe", 4, 8)
    yield "1f1b, 4 devices, 8 microbatches", ("1f1b", 4, 8)
    yield "interleaved, 4 devices, 8 microbatches, 2 chunks", ("interleaved", 4, 8, 2)
    yield "zero_bubble, 4 devices, 8 microbatches", ("zero_bubble", 4, 8)
    yield "zero_bubble, weights take half as long", ("zero_bubble", 2, 2, 1, (1.0, 1.0, 0.5))
    yield "interleaved, 3 chunks, other times", ("interleaved", 8, 16, 3, (3.0, 4.0, 2.0))


def cases():
    """Twelve: parameters, bytes of a row's activations, rows, GPUs, those of a node, bytes of each, a fast network."""
    def case(words, billions, row, rows, gpus, node, fast=True, memory=80):
        return (f"{billions:g} billion parameters, rows of {row:g} GB, {rows} rows, {gpus} GPUs of {memory} GB, {node} per node, "
                f"{'fast' if fast else 'slow'} network: {words}"), (billions * 1e9, row * GB, rows, gpus, node, memory * GB, fast)

    yield case("all fits", 1, 10, 64, 8, 8)
    yield case("all fits, many slow nodes", 1, 10, 64, 16, 4, False)
    yield case("two GPUs are enough, and one node needs no network", 7, 20, 64, 4, 4, False)
    yield case("a row is what does not fit beside the model", 4, 20, 64, 4, 4)
    yield case("many fast nodes", 30, 10, 256, 64, 8)
    yield case("a node is enough, the network is slow", 13, 20, 256, 32, 8, False)
    yield case("one GPU per node, slow", 7, 10, 64, 8, 1, False)
    yield case("fewer rows than GPUs", 7, 10, 16, 64, 8)
    yield case("a row is too long for one GPU", 7, 100, 64, 16, 8)
    yield case("fewer rows than GPUs, slow network", 30, 10, 16, 64, 8, False)
    yield case("a node is not enough, slow network", 70, 20, 256, 32, 8, False)
    yield case("nothing helps", 400, 10, 64, 64, 8)


# ------------------------------------------------------------------------------------------------------ with processes
def apart(mine, right) -> float:
    """The largest difference, as a fraction of the largest number that is right; infinite if there is none of that shape."""
    if mine is None or mine.shape != right.shape:
        return float("inf")
    return ((mine - right).abs().max() / right.abs().max()).item()


def begun():
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def tensor(module, note):
    """`Copied` and `Summed` alone, then `TensorMLP` beside both of its layers in one process."""
    rank, world = begun()
    for name in ("Copied", "Summed"):
        x = torch.full((2,), 1.0 + rank, dtype=torch.float64, requires_grad=True)
        y = getattr(module, name).apply(x, None)
        given = y.tolist()
        y.backward(torch.full_like(y, 10.0 * (1 + rank)))
        note("sum", name=name, forward=given[0], backward=x.grad[0].item(), kept=x.tolist() == [1.0 + rank] * 2)
    torch.manual_seed(1)
    up, down = nn.Linear(WIDTH, HIDDEN).double(), nn.Linear(HIDDEN, WIDTH).double()
    x, target = torch.randn(2, 4, 3, WIDTH, dtype=torch.float64)
    before = [each.detach().clone() for each in (*up.parameters(), *down.parameters())]
    net = module.TensorMLP(up, down)

    def parts(of):
        return {"up": of(up.weight).chunk(world, 0)[rank], "up_bias": of(up.bias).chunk(world)[rank],
                "down": of(down.weight).chunk(world, 1)[rank], "bias": of(down.bias)}

    mine, wanted = dict(net.named_parameters()), parts(torch.detach)
    note("parts", shapes={name: list(each.shape) for name, each in mine.items()},
         others=[name for name in wanted if name in mine and not torch.equal(mine[name], wanted[name])])
    mine, other = (x.clone().requires_grad_() for _ in range(2))
    right = down(F.gelu(up(other)))
    with Sent() as forward:
        y = net(mine)
    more = y - right - (world - 1) * down.bias
    note("forward", apart=apart(y, right), bias_again=more.abs().max().item() < 1e-9, sums=_sums(forward, y))
    F.mse_loss(right, target).backward()
    with Sent() as backward:
        F.mse_loss(y, target).backward()
    found = {name: apart(net.get_parameter(name).grad, right) for name, right in parts(lambda each: each.grad).items()}
    with torch.no_grad():
        for each in net.parameters():
            each += 1.0  # as a step of an optimizer does, in place
    note("backward", inputs=apart(mine.grad, other.grad), sums=_sums(backward, x), parts=found,
         kept=all(torch.equal(one, each) for one, each in zip(before, (*up.parameters(), *down.parameters()))))


def _sums(sent, like):
    """How many all-reduces of a tensor as large as ``like``, and how many other collectives."""
    right = [kind == "all_reduce" and size == like.nbytes for kind, size, _ in sent.found]
    return [sum(right), len(right) - sum(right)]


def ring(module, note):
    """`ring_attention` in three processes beside attention over all tokens."""
    rank, world = begun()
    for causal in (False, True):
        numbers = torch.Generator().manual_seed(1)
        q, k, v, upstream = torch.randn(4, 2, 2, 4 * world, 8, generator=numbers, dtype=torch.float64)
        mine = [each.chunk(world, 2)[rank].clone().requires_grad_() for each in (q, k, v)]
        wanted = [each.clone().requires_grad_() for each in (q, k, v)]
        with Sent() as sent:
            result = module.ring_attention(*mine, causal)
        right = F.scaled_dot_product_attention(*wanted, is_causal=causal)
        kinds = [kind for kind, _, _ in sent.found]
        own = F.scaled_dot_product_attention(*(each.detach() for each in mine), is_causal=causal)
        note("ring", causal=causal, apart=apart(result, right.chunk(world, 2)[rank]), alone=apart(result, own) < 1e-9,
             finite=bool(result.isfinite().all()), gathered=sum("gather" in kind or kind == "all_reduce" for kind in kinds),
             sent=sum(size for kind, size, _ in sent.found if kind in ("send", "all_to_all")),
             part=mine[1].nbytes + mine[2].nbytes)
        right.backward(upstream)
        result.backward(upstream.chunk(world, 2)[rank])
        note("back", causal=causal, parts={name: apart(each.grad, other.grad.chunk(world, 2)[rank])
                                          for name, each, other in zip("qkv", mine, wanted)})


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.blocks = nn.Linear(WIDTH, WIDTH), nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x


def two(module, note):
    """`two_dimensions` with four processes, two by two."""
    rank, world = begun()
    net, other = Net().double(), Net().double()
    plan = {f"blocks.{number}.{name}": way() for number in range(2) for name, way in
            (("up", ColwiseParallel), ("down", RowwiseParallel))}
    mesh = module.two_dimensions(net, "cpu", 2, plan)
    note("mesh", names=list(getattr(mesh, "mesh_dim_names", None) or ()), ranks=mesh.mesh.tolist() if mesh is not None else None)
    named = list(net.named_parameters())
    own = {name: (each.to_local() if isinstance(each, DTensor) else each).numel() for name, each in named}
    note("held", fraction=own["blocks.0.up.weight"] / other.blocks[0].up.weight.numel(), first=own["first.weight"] / WIDTH**2,
         units=[name or "the root" for name, part in net.named_modules() if isinstance(part, FSDPModule)])
    x = torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    right = other(x).square().mean()
    right.backward()
    loss = net(x.chunk(2)[rank // 2]).square().mean()
    loss.backward()
    mean = sum(distributed.from_everyone(loss.item())) / world
    gradients = {name: each.grad.full_tensor() if isinstance(each.grad, DTensor) else each.grad for name, each in named}
    note("trained", loss=mean, right=right.item(),
         parts={name: apart(gradients[name], each.grad) for name, each in other.named_parameters()})
