"""Ways of splitting one model over processes, by hand: what each process computes, holds and sends (the lab `parallelism`).
train_parallel.py runs them, beside those that PyTorch has, and beside one process that has everything.

A schedule is a list per device of the actions (kind, stage, microbatch) that it does in this order. Kinds: ``F`` forward; ``B``
backward; or its two halves ``I``, gradients of a stage's inputs, and ``W``, gradients of its weights. Stages are numbered along
the model, and spread over devices in turn: stage s is on device s % devices.
"""

import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional as F

from dlojz import todo  # noqa: F401


# ----------------------------------------------------------------------------------------------------------------- links
def fit(sizes, seconds) -> tuple[float, float]:
    """Latency and bandwidth of a link: (seconds, bytes per second), so that latency + size / bandwidth is near the times.

    ``sizes``: bytes of each message, ``seconds``: what each took. Least squares of *relative* errors, (latency + size /
    bandwidth) / time - 1: sizes span six powers of ten, and with absolute errors the largest alone would decide.
    """
    # >>> parallelism.fit: two unknowns, one equation per message, each divided by its time
    sizes, seconds = (torch.as_tensor(numbers, dtype=torch.float64) for numbers in (sizes, seconds))
    equations = torch.stack((1 / seconds, sizes / seconds), dim=1)
    latency, per_byte = torch.linalg.lstsq(equations, torch.ones_like(seconds)[:, None]).solution.flatten().tolist()
    return latency, 1 / per_byte
    # <<< parallelism.fit


# ------------------------------------------------------------------------------------------------------- tensor parallel
# >>> parallelism.sums: two functions, of which one adds up over processes forward, the other backward
class Copied(torch.autograd.Function):
    """Forward: x as it is; all processes have the same. Backward: the sum of all processes' gradients: each has used x."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class Summed(torch.autograd.Function):
    """Forward: the sum of all processes' x. Backward: the gradient as it is: each process's x counts once in the sum."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None
# <<< parallelism.sums


class TensorMLP(nn.Module):
    """One process's part of down(gelu(up(x))): the processes of ``group`` together compute what one would (Shoeybi et al. 2019,
    arXiv:1909.08053, section 3).

    ``up``: Linear (width → hidden), ``down``: Linear (hidden → width), both with a bias, the same in all processes; they stay as
    they are. Parameters ``up``, ``up_bias``, ``down``, ``bias`` are copies of what this process needs of them.
    """

    def __init__(self, up: nn.Linear, down: nn.Linear, group=None):
        super().__init__()
        self.group = group
        # >>> parallelism.split: rows of one weight (outputs), columns of the other (inputs), and the biases
        rank, world = dist.get_rank(group), dist.get_world_size(group)

        def part(tensor, dim):
            return nn.Parameter(tensor.detach().chunk(world, dim)[rank].clone())

        self.up, self.up_bias, self.down = part(up.weight, 0), part(up.bias, 0), part(down.weight, 1)
        self.bias = nn.Parameter(down.bias.detach().clone())
        # <<< parallelism.split

    def forward(self, x):
        """``x``: (…, width), the same in all processes; so is the result, (…, width)."""
        # >>> parallelism.forward: up, gelu, down; one sum over processes in each direction, and each bias once
        x = Copied.apply(x, self.group)
        x = F.gelu(F.linear(x, self.up, self.up_bias))
        return Summed.apply(F.linear(x, self.down), self.group) + self.bias
        # <<< parallelism.forward


# ------------------------------------------------------------------------------------------------------------- pipelines
def gpipe(device: int, devices: int, microbatches: int) -> list[tuple]:
    """All forward, then all backward (Huang et al. 2018, arXiv:1811.06965). One stage per device."""
    return [(kind, device, batch) for kind in "FB" for batch in range(microbatches)]


def one_f_one_b(device: int, devices: int, microbatches: int) -> list[tuple]:
    """One forward, one backward in turn (Narayanan et al. 2019, PipeDream), one stage per device: the backward pass of a
    microbatch comes as early as it can, so that a device holds activations of few of them.

    A device begins with one forward for each device behind it, then does one forward and one backward in turn, then the backward
    passes that are left. There may be fewer microbatches than devices.
    """
    # >>> parallelism.one_f_one_b: how many forwards come first, then pairs, then the rest
    first = min(microbatches, devices - 1 - device)
    order = [("F", device, batch) for batch in range(first)]
    for batch in range(microbatches - first):
        order += [("F", device, first + batch), ("B", device, batch)]
    return order + [("B", device, batch) for batch in range(microbatches - first, microbatches)]
    # <<< parallelism.one_f_one_b


def interleaved(device: int, devices: int, microbatches: int, chunks: int = 2) -> list[tuple]:
    """1F1B with ``chunks`` stages per device (Narayanan et al. 2021, arXiv:2104.04473): microbatches in groups of as many as
    there are devices, of which they must be a multiple."""
    def action(kind, number):
        turn, batch = divmod(number, devices)
        chunk = turn % chunks if kind == "F" else chunks - 1 - turn % chunks
        return kind, chunk * devices + device, turn // chunks * devices + batch

    every = microbatches * chunks
    first = min(every, (chunks - 1) * devices + 2 * (devices - 1 - device))
    order = [action("F", number) for number in range(first)]
    for number in range(every - first):
        order += [action("F", first + number), action("B", number)]
    return order + [action("B", number) for number in range(every - first, every)]


def zero_bubble(device: int, devices: int, microbatches: int) -> list[tuple]:
    """1F1B whose backward passes are cut in two (Qi et al. 2023, arXiv:2401.10241, ZB-H1): the next device waits for gradients
    of inputs only, so those of weights can wait until there is nothing else to do. Device n puts off n of them."""
    order, later = [], []
    for kind, stage, batch in one_f_one_b(device, devices, microbatches):
        if kind == "F":
            order.append((kind, stage, batch))
            continue
        order.append(("I", stage, batch))
        later.append(("W", stage, batch))
        if len(later) > device:
            order.append(later.pop(0))
    return order + later


def needs(action: tuple, stages: int) -> list[tuple]:
    """What must have ended before an action can begin, as actions. ``stages``: how many there are in all. Backward passes are
    either all whole (``B``) or all cut (``I`` and ``W``)."""
    kind, stage, batch = action
    if kind == "W":
        return [("I", stage, batch)]
    if kind == "F":
        return [("F", stage - 1, batch)] if stage else []
    return [("F", stage, batch), *([(kind, stage + 1, batch)] if stage < stages - 1 else [])]


def simulate(orders: list[list[tuple]], seconds: dict[str, float]) -> dict[tuple, tuple[float, float]]:
    """When each action begins and ends, by action: (begin, end) in seconds, from 0. Sending takes no time.

    ``orders``: of each device. ``seconds``: how long an action takes, by kind. A device does one action at a time, in its order;
    an action begins when its device is free and everything that it `needs` has ended. Raises ValueError where no device can go
    on: each waits for another one.
    """
    stages = 1 + max(stage for order in orders for _, stage, _ in order)
    # >>> parallelism.simulate: as long as there are actions left: those whose needs have ended get their times
    times, left, free = {}, [list(order) for order in orders], [0.0] * len(orders)
    while any(left):
        before = len(times)
        for device, waiting in enumerate(left):
            while waiting and all(need in times for need in needs(waiting[0], stages)):
                action = waiting.pop(0)
                begin = max([free[device], *(times[need][1] for need in needs(action, stages))])
                free[device] = begin + seconds[action[0]]
                times[action] = begin, free[device]
        if len(times) == before:
            raise ValueError(f"each device waits for another one: {[waiting[0] for waiting in left if waiting]}")
    return times
    # <<< parallelism.simulate


def bubble(schedule: str, devices: int, microbatches: int, chunks: int = 1, seconds=(1.0, 1.0, 1.0)) -> float:
    """The fraction of a step in which a device is idle: idle time / (idle time + work), if sending takes no time.

    ``schedule``: ``gpipe``, ``1f1b``, ``interleaved`` or ``zero_bubble``. ``seconds``: of forward, of the gradients of inputs and
    of weights, for one microbatch in *all* ``chunks`` of a device. Its work is microbatches x their sum. Its idle time is
    devices - 1 times: with gpipe and 1f1b, that sum; interleaved, that sum in *one* of its chunks; with zero_bubble, forward +
    inputs - weights.
    """
    # >>> parallelism.bubble: idle time by schedule, and its fraction
    forward, inputs, weights = seconds
    one = forward + inputs + weights
    waits = forward + inputs - weights if schedule == "zero_bubble" else one / chunks if schedule == "interleaved" else one
    idle = (devices - 1) * waits
    return idle / (idle + microbatches * one)
    # <<< parallelism.bubble


# ------------------------------------------------------------------------------------------------------ context parallel
class Passed(torch.autograd.Function):
    """Forward: sends x to the next process of a ring, and returns what the one before has sent. Backward: gradients go round the
    other way. All processes call it, forward and backward."""

    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        return _around(x, 1, group)

    @staticmethod
    def backward(ctx, grad):
        return _around(grad, -1, ctx.group), None


def _around(x, step, group):
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    after, before = ((rank + way) % world if group is None else dist.get_global_rank(group, (rank + way) % world)
                     for way in (step, -step))
    x, got = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, after, group), dist.P2POp(dist.irecv, got, before, group)]):
        work.wait()
    return got


def ring_attention(q, k, v, causal: bool = True, group=None):
    """Attention over a sequence of which each process has one part (Liu et al. 2023, arXiv:2310.01889): softmax(q kᵀ / √size) v.

    ``q, k, v``: float (batch, heads, length / processes, size), the part of this process; parts follow each other by rank.
    Returns this process's part of the result, of q's shape. ``causal``: a token looks at itself and at those before it.

    A process passes on (`Passed`) the keys and values that it has just worked with, so it never holds all of them. In turn 0 it
    has its own, in turn n those of rank - n. Every part takes part in the result, if only with weights of 0: else its gradient
    does not go round.
    """
    # >>> parallelism.ring: turn after turn: scores with the keys that are here, an online softmax, pass them on
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    here = torch.arange(q.shape[2], device=q.device)
    most, total = q.new_full((*q.shape[:3], 1), -math.inf), q.new_zeros((*q.shape[:3], 1))
    result, both = torch.zeros_like(q), torch.stack((k, v))
    for turn in range(world):
        scores = q @ both[0].transpose(-1, -2) / math.sqrt(q.shape[-1])
        if causal:
            columns = here + (rank - turn) % world * len(here)
            scores = scores.masked_fill(columns > (here + rank * len(here))[:, None], -math.inf)
        new = torch.maximum(most, scores.amax(-1, keepdim=True))
        weights, kept = (scores - new).exp(), (most - new).exp()
        total, result = total * kept + weights.sum(-1, keepdim=True), result * kept + weights @ both[1]
        most = new
        if turn < world - 1:
            both = Passed.apply(both, group)
    return result / total
    # <<< parallelism.ring


# ------------------------------------------------------------------------------------------------------- two ways at once
def two_dimensions(net, device_type: str, tensor: int, plan: dict):
    """Spreads ``net`` over all processes, in place, in two ways: over ``tensor`` neighbours by ``plan`` (tensor parallel: they
    are in one node), and each part of it over the processes with the same place in their node (`fully_shard`, block by block,
    then the rest). Returns the mesh, with the dimensions ``shard`` and ``tensor``.

    ``net.blocks``: its blocks. ``plan``: of `parallelize_module`.
    """
    # >>> parallelism.two: a mesh, then tensor parallel along one of its dimensions, then shards along the other
    mesh = init_device_mesh(device_type, (dist.get_world_size() // tensor, tensor), mesh_dim_names=("shard", "tensor"))
    parallelize_module(net, mesh["tensor"], plan)
    for module in (*net.blocks, net):
        fully_shard(module, mesh=mesh["shard"])
    return mesh
    # <<< parallelism.two


# -------------------------------------------------------------------------------------------------------- which way, when
def choose(parameters: float, row: float, rows: int, gpus: int, node: int, memory: float, fast: bool) -> str:
    """Which way of splitting a training needs, the simplest first.

    ``parameters`` of the model, 16 bytes each with gradient and AdamW's states. ``row``: bytes of activations of one row of the
    batch. ``rows``: of the batch, over all GPUs. ``gpus`` in all, ``node`` of them in each node, ``memory`` bytes of each.
    ``fast``: the network between nodes gathers parameters as fast as GPUs use them (some 400 Gbit/s each). One node needs none.

    The first of these that fits into memory:

    1. ``replicate``: each GPU has all of the model, and at least one row.
    2. ``shard``: the model split over all GPUs, each at least one row. Several nodes: if the network is fast.
    3. ``shard in nodes``: split over the GPUs of a node, replicated between nodes, each GPU at least one row.
    4. ``shard x tensor``: the model split over all GPUs, a row over those of a node, each node at least one row. Several nodes:
       if the network is fast.
    5. ``pipeline x tensor``: the same split between nodes that the network joins slowly, since stages send activations only.
    6. ``no``: it does not fit.
    """
    # >>> parallelism.choose: bytes per GPU in each case, and who has rows to work on
    state, near = 16 * parameters, fast or gpus <= node
    if rows >= gpus:
        if state + row <= memory:
            return "replicate"
        if near and state / gpus + row <= memory:
            return "shard"
        if state / min(node, gpus) + row <= memory:
            return "shard in nodes"
    node = min(node, gpus)
    if rows >= gpus / node and state / gpus + row / node <= memory:
        return "shard x tensor" if near else "pipeline x tensor"
    return "no"
    # <<< parallelism.choose
