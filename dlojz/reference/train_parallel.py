"""A small language model split over processes in several ways (parallelism.py), each beside one process that has everything.

    torchrun --nproc-per-node 2 train_parallel.py links      # time of an all-reduce by its size
    torchrun --nproc-per-node 2 train_parallel.py tensor     # by hand, then `parallelize_module`, sequence and loss parallel
    torchrun --nproc-per-node 4 train_parallel.py pipeline   # the schedules of torch.distributed.pipelining
    torchrun --nproc-per-node 2 train_parallel.py context    # ring attention
    torchrun --nproc-per-node 4 train_parallel.py two        # FSDP x tensor parallel

Each part prints a table, and writes its rows into the record of the run. Processes use a GPU each where there are enough.
"""

import copy
import statistics
import sys
import time
from contextlib import nullcontext

import parallelism
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining.schedules import PipelineScheduleMulti
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F

from dlojz.system import machine
from dlojz.system.errors import UsageError
from dlojz.training import distributed, failures, options, records
from dlojz.training.sent import Sent

SCHEDULES = {  # names as torch has them; how many stages each process has
    "GPipe": 1, "1F1B": 1, "LoopedBFS": 2, "Interleaved1F1B": 2, "InterleavedZeroBubble": 1, "ZBVZeroBubble": 2, "DualPipeV": 2,
}
STEPS = 3


# ------------------------------------------------------------------------------------------------------------------ model
class Attention(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.size = size
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        heads = (layer(x).unflatten(-1, (-1, self.size)).transpose(1, 2) for layer in (self.q, self.k, self.v))  # those here
        return self.out(F.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, size)
        self.norm2, self.mlp = nn.LayerNorm(width), MLP(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Net(nn.Module):
    """Tokens, int64 (rows, length), to logits (rows, length, vocabulary)."""

    def __init__(self, args):
        super().__init__()
        torch.manual_seed(1)  # the same in all processes: nothing here broadcasts parameters
        self.embedding = nn.Embedding(args.vocabulary, args.width)
        self.blocks = nn.ModuleList(Block(args.width, args.width // args.heads) for _ in range(args.blocks))
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, args.vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def made(args, device):
    """A `Net`, drawn where it will be: a billion numbers take a CPU as long as the rest takes a GPU."""
    with device:
        return Net(args)


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def batch(args, device, step):
    """Tokens and targets of a step, the same in all processes: each takes the part that it is to work on."""
    rows = torch.randint(args.vocabulary, (args.rows, args.length + 1), generator=torch.Generator().manual_seed(100 + step))
    return rows[:, :-1].to(device), rows[:, 1:].to(device)


# --------------------------------------------------------------------------------------------------------------- one way
def plan_of(blocks, sequence=False, loss=False):
    """What `parallelize_module` does with each layer of `Net`. ``sequence``: between the products, each process has a part of the
    tokens of a row (Korthikanti et al. 2022, arXiv:2205.05198). ``loss``: logits stay split over the vocabulary."""
    between = Shard(1) if sequence else Replicate()
    whole = {"input_layouts": (between,), "desired_input_layouts": (Replicate(),)}
    plan = {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
            "head": ColwiseParallel(input_layouts=between, output_layouts=Shard(-1) if loss else Replicate(),
                                    use_local_output=not loss)}
    for number in range(blocks):
        block = f"blocks.{number}"
        plan |= {f"{block}.{name}": PrepareModuleInput(**whole) for name in ("attention", "mlp")}  # one sum for q, k and v
        plan |= {f"{block}.attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {f"{block}.attention.out": RowwiseParallel(output_layouts=between), f"{block}.mlp.up": ColwiseParallel(),
                 f"{block}.mlp.down": RowwiseParallel(output_layouts=between)}
        plan |= {f"{block}.{name}": SequenceParallel() for name in ("norm1", "norm2") if sequence}
    return plan | ({"norm": SequenceParallel()} if sequence else {})


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def apart(values, wanted) -> float:
    """The largest difference of tensors, as a fraction of the largest number that is wanted."""
    return max(((whole(mine) - right).abs().max() / right.abs().max().clamp(min=1e-12)).item()
               for mine, right in zip(values, wanted))


class Beside:
    """The same training in one process: what each step's loss and gradients should be, and how long a step takes."""

    def __init__(self, args, device):
        net = made(args, device)
        self.parameters = sum(each.numel() for each in net.parameters())
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        self.losses, self.gradients, self.seconds = [], None, float("inf")
        for step in range(STEPS):
            tokens, targets = batch(args, device, step)
            begun = clock(device)
            loss = loss_of(net(tokens), targets)
            loss.backward()
            self.seconds = min(self.seconds, clock(device) - begun)
            self.losses.append(loss.item())
            self.gradients = self.gradients or {name: each.grad.clone() for name, each in net.named_parameters()}
            optimizer.step()
            optimizer.zero_grad()


def trained(net, args, device, beside, way, part=lambda tensor: tensor, groups=1, in_parts=False) -> dict:
    """Trains ``net`` beside one process. ``part``: the rows of a batch that this process works on; ``groups``: how many different
    parts there are; ``in_parts``: the loss is computed from logits that are split."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, foreach=False)
    losses, seconds, first = [], [], {}
    for step in range(STEPS):
        tokens, targets = (part(each) for each in batch(args, device, step))
        begun = clock(device)
        forward, backward = Sent(), Sent()
        with loss_parallel() if in_parts else nullcontext():
            with forward:
                loss = loss_of(net(tokens), targets)
            with backward:
                loss.backward()
        seconds.append(clock(device) - begun)
        losses.append(sum(distributed.from_everyone(whole(loss.detach()).item())) / dist.get_world_size())
        if not step:
            first = {name: whole(each.grad) for name, each in net.named_parameters()}
            counted = {"sent_forward": forward.facts(), "sent_backward": backward.facts()}
        optimizer.step()
        optimizer.zero_grad()
    return {"way": way, "loss": max(abs(mine / right - 1) for mine, right in zip(losses, beside.losses)),
            "gradient": apart([first[name] for name in beside.gradients], beside.gradients.values()), "seconds": min(seconds),
            "held": sum((each.to_local() if isinstance(each, DTensor) else each).numel() for each in net.parameters()),
            "alone": beside.seconds, "parameters": beside.parameters, **counted}


def clock(device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


# ----------------------------------------------------------------------------------------------------------------- parts
def links(args, device):
    """An all-reduce over all processes, from 256 bytes on. Each time is that of the slowest process; of all times the lower
    quartile: what other programs do to the rest is not the link's."""
    size = 256
    while size <= args.largest:
        numbers = torch.ones(size // 4, device=device)
        times = []
        until = time.perf_counter() + args.seconds
        for turn in range(200):
            dist.barrier()
            begun = clock(device)
            dist.all_reduce(numbers)
            times.append(clock(device) - begun)
            numbers.fill_(1.0)
            if turn % 5 == 4 and any(distributed.from_everyone(time.perf_counter() > until)):  # all stop at the same turn
                break
        took = torch.tensor(times, device=device)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        yield {"bytes": size, "seconds": statistics.quantiles(took.tolist())[0], "times": len(times)}
        size *= 4


def tensor(args, device):
    beside = Beside(args, device)
    net = made(args, device)
    for block in net.blocks:
        block.mlp = parallelism.TensorMLP(block.mlp.up, block.mlp.down)
    yield by_hand(net, args, device, beside)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),), mesh_dim_names=("tensor",))
    for way, sequence, loss in (("tensor", False, False), ("+ sequence", True, False), ("+ loss", True, True)):
        net = parallelize_module(made(args, device), mesh, plan_of(args.blocks, sequence, loss))
        yield trained(net, args, device, beside, way, in_parts=loss)


def by_hand(net, args, device, beside):
    """The MLPs alone are split: a parameter of theirs is compared with this process's part of the right gradient."""
    rank, world = dist.get_rank(), dist.get_world_size()
    right = copy.copy(beside)
    right.gradients = dict(beside.gradients)
    for number in range(args.blocks):
        mlp = f"blocks.{number}.mlp"
        for mine, its, dim in (("up", "up.weight", 0), ("up_bias", "up.bias", 0), ("down", "down.weight", 1),
                               ("bias", "down.bias", None)):
            gradient = right.gradients.pop(f"{mlp}.{its}")
            split = net.get_parameter(f"{mlp}.{mine}").shape != gradient.shape
            right.gradients[f"{mlp}.{mine}"] = gradient.chunk(world, dim)[rank] if split else gradient
    return trained(net, args, device, right, "MLPs by hand")


def two(args, device):
    if dist.get_world_size() % 2:
        raise UsageError("the part two needs an even number of processes: torchrun --nproc-per-node 4 train_parallel.py two")
    beside = Beside(args, device)
    net = made(args, device)
    mesh = parallelism.two_dimensions(net, device.type, 2, plan_of(args.blocks))
    groups, mine = (mesh["shard"].size(), mesh["shard"].get_local_rank()) if mesh is not None else (1, 0)
    yield trained(net, args, device, beside, f"FSDP over {groups} x tensor over 2", lambda rows: rows.chunk(groups)[mine])


def context(args, device):
    rank, world = dist.get_rank(), dist.get_world_size()
    shape = (args.rows, args.heads, args.length * world, args.width // args.heads)
    numbers = torch.Generator().manual_seed(1)
    q, k, v, upstream = (torch.randn(shape, generator=numbers).to(device) for _ in range(4))
    mine = [each.chunk(world, 2)[rank].clone().requires_grad_() for each in (q, k, v)]
    wanted = [each.requires_grad_() for each in (q, k, v)]
    for way, causal in (("first", False), ("all tokens", False), ("causal", True)):  # the first one opens the connections
        begun = clock(device)
        with Sent() as sent:
            result = parallelism.ring_attention(*mine, causal)
            result.backward(upstream.chunk(world, 2)[rank])
        took = clock(device) - begun
        right = F.scaled_dot_product_attention(*wanted, is_causal=causal)
        right.backward(upstream)
        gradients = [(each.grad, other.grad.chunk(world, 2)[rank]) for each, other in zip(mine, wanted)]
        row = {"way": f"ring, {way}", "result": apart([result], [right.chunk(world, 2)[rank]]),
               "gradient": apart(*zip(*gradients)), "seconds": took, "tokens": shape[2], "sent": sent.facts()}
        if way != "first":
            yield row
        for each in (*mine, *wanted):
            each.grad = None


# ------------------------------------------------------------------------------------------------------------- pipelines
class Busy(torch.autograd.Function):
    """x as it is, and a while in which this process does nothing else, as a host that waits for its GPU: backward."""

    @staticmethod
    def forward(ctx, x, wait, kind, log):
        ctx.given = wait, kind, log
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        busy(*ctx.given)
        return grad, None, None, None


def busy(wait, kind, log):
    begun = time.monotonic()
    time.sleep(wait)
    log.append((kind, begun, time.monotonic()))


class Layer(nn.Module):
    """x + tanh(W x). With ``wait``, each of its three products takes so many seconds more: forward, the gradient of x, and that
    of W. So it has the timing of a device of its own, whatever the cores of this machine are doing."""

    def __init__(self, width, wait, log):
        super().__init__()
        self.weight, self.wait, self.log = nn.Parameter(torch.randn(width, width) / width**0.5), wait, log

    def forward(self, x):
        if not self.wait:
            return x + torch.tanh(F.linear(x, self.weight))
        busy(self.wait, "F", self.log)
        weight = Busy.apply(self.weight, self.wait, "W", self.log) if self.weight.requires_grad else self.weight
        inner = Busy.apply(x, self.wait, "I", self.log) if x.requires_grad else x
        return x + torch.tanh(F.linear(inner, weight))


def pipeline(args, device):
    """Every schedule that this version of torch has: seconds of a step, and what of them is not work."""
    rank, world = dist.get_rank(), dist.get_world_size()
    layers, log = 2 * world, []
    numbers = torch.Generator().manual_seed(1)
    alone = working_alone(args, device, layers // world)
    x, y = (torch.randn(args.microbatches * args.rows, args.width, generator=numbers).to(device) for _ in range(2))
    for name, chunks in SCHEDULES.items():
        kind = getattr(pipelining, f"Schedule{name}", None)
        if kind is None:
            yield {"schedule": name, "error": f"torch {torch.__version__} does not have it"}
            continue
        if "V" in name and device.type == "cpu" and not hasattr(kind, "_initialize_pp_stages"):  # seen in 2.11
            yield {"schedule": name, "error": f"torch {torch.__version__} sends itself a message first, which gloo cannot"}
            continue
        torch.manual_seed(1)
        with device:
            net = nn.Sequential(*(Layer(args.width, args.wait / 1000, log) for _ in range(layers)))
        right = copy.deepcopy(net)
        for layer in right:
            layer.wait = 0.0
        stages, each = world * chunks, layers // (world * chunks)
        mine = [rank] if chunks == 1 else [rank, stages - 1 - rank] if "V" in name else [rank, rank + world]
        parts = [pipelining.PipelineStage(net[each * number : each * (number + 1)], number, stages, device) for number in mine]
        single = name in ("GPipe", "1F1B")
        try:
            schedule = kind(parts[0] if single else parts, args.microbatches, loss_fn=F.mse_loss)
        except ValueError as error:  # older versions want two stages per process, or other numbers of microbatches
            yield {"schedule": name, "error": f"torch {torch.__version__}: {error}"}
            continue
        best = float("inf")
        for step in range(3 if args.wait else 8):  # in the first one stages learn which shapes come
            net.zero_grad()
            log.clear()
            losses = []
            dist.barrier()
            begun = clock(device), time.monotonic()
            schedule.step(*([x] if 0 in mine else []), target=y if stages - 1 in mine else None,
                          losses=losses if stages - 1 in mine else None)
            took = max(distributed.from_everyone(clock(device) - begun[0]))
            if step and took < best:
                best, spans = took, [(what, round(a - begun[1], 4), round(b - begun[1], 4)) for what, a, b in log]
        loss = F.mse_loss(right(x), y)
        loss.backward()
        weights = [(net[number].weight.grad, right[number].weight.grad) for stage in mine
                   for number in range(each * stage, each * (stage + 1))]
        found = distributed.from_everyone({
            "spans": spans if args.wait else [], "losses": [one.item() for one in losses],
            "gradient": apart(*zip(*weights))})
        means = [sum(one["losses"]) / args.microbatches for one in found if one["losses"]]
        work = 3 * args.wait / 1000 * args.microbatches * layers / world if args.wait else alone
        yield {"schedule": name, "chunks": chunks, "stages": stages, "microbatches": args.microbatches, "wait": args.wait / 1000,
               "layers": layers, "seconds": best, "loss": abs(means[0] / loss.item() - 1),
               "gradient": max(one["gradient"] for one in found),
               "bubble": max(0.0, 1 - work / best), "spans": [one["spans"] for one in found],
               "orders": orders_of(schedule, world)}


def working_alone(args, device, layers):
    """Seconds that a device's own layers take for all microbatches of a step, where nothing is sent and nobody waits."""
    with device:
        net = nn.Sequential(*(Layer(args.width, 0.0, []) for _ in range(layers)))
    x = torch.randn(args.rows, args.width, device=device, requires_grad=True)
    times = []
    for _ in range(3 if not args.wait else 0):
        begun = clock(device)
        for _ in range(args.microbatches):
            net(x).sum().backward()
        times.append(clock(device) - begun)
    return min(times, default=0.0)


def orders_of(schedule, world):
    """What torch does on each device, as (kind, stage, microbatch). None of GPipe and 1F1B: they do not go by a list, and the one
    that torch 2.14 shows of 1F1B is not what it does (its last device begins with microbatch 1)."""
    order = schedule.pipeline_order if isinstance(schedule, PipelineScheduleMulti) else None
    if not order:
        return None
    orders = [[(one.computation_type.value, one.stage_index, one.microbatch_index) for action in filter(None, order[device])
               for one in (getattr(action, "sub_actions", None) or (action,))] for device in range(world)]
    orders = [[one for one in actions if one[0] in ("F", "B", "I", "W")] for actions in orders]  # nothing is sent or summed here
    if any(kind == "I" for actions in orders for kind, *_ in actions):  # where some backward passes are cut, all are
        orders = [[(part, *which) for kind, *which in actions for part in ("IW" if kind == "B" else kind)] for actions in orders]
    return orders


PARTS = {"links": links, "tensor": tensor, "pipeline": pipeline, "context": context, "two": two}


SIZES = (  # name, how large, of what
    ("blocks", 4, "of the model"), ("width", 64, "of the model"), ("heads", 4, "of its attention"), ("vocabulary", 128, "tokens"),
    ("length", 32, "tokens of a row; of context: in each process"), ("rows", 8, "of a batch; of pipeline: of a microbatch"),
    ("microbatches", 8, "of pipeline"), ("largest", 2**24, "of links: bytes of the largest message"))


def arguments():
    parser = options.Parser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="PART", help=f"any of {', '.join(PARTS)}")
    for name, number, words in SIZES:
        parser.add_argument(f"--{name}", type=int, default=number, help=f"{words} (%(default)s)")
    parser.add_argument("--wait", type=float, default=10.0, help="of pipeline: ms that each product takes more (%(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of links: for each size, about (%(default)s)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(cuda, where each process of this node has a GPU)")
    parser.add_argument("--run-dir", help="where the record goes")
    return parser.parse_args()


def said(row) -> str:
    short = {name: f"{value:.3g}" if isinstance(value, float) else value for name, value in row.items()
             if isinstance(value, (int, float, str))}
    return "  ".join(f"{name} {value}" for name, value in short.items())


def main(args, procs, record):
    if procs.world_size < 2:
        parts = " ".join(args.parts)
        raise UsageError(f"one process has nobody to send to: torchrun --nproc-per-node 2 train_parallel.py {parts}")
    split = procs.world_size if {"tensor", "two"} & set(args.parts) else 1
    for name, number, of in (("heads", args.heads, split), ("width", args.width, args.heads), ("length", args.length, split),
                             ("rows", args.rows, split)):
        if number < 1 or number % of:
            raise UsageError(f"--{name} {number} cannot be split: with these processes and heads it has to be a multiple of {of}")
    if args.largest < 256:
        raise UsageError(f"--largest {args.largest}: the smallest message of links has 256 bytes")
    torch.set_num_threads(1)
    cuda = args.device != "cpu" and torch.cuda.device_count() >= procs.local_size
    device = torch.device("cuda", procs.local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = False
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    run = records.run_folder(args.run_dir, "parallel", procs.is_main)
    record.open(distributed.same_everywhere(run))
    record.write("start", flush=True, args=vars(args), world_size=procs.world_size, **machine.describe(device))
    for part in args.parts:
        for row in PARTS[part](args, device):
            record.write("row", flush=True, part=part, **row)
            if procs.is_main:
                print(said(row), flush=True)
    record.write("end", flush=True, status="completed")
    dist.destroy_process_group()


if __name__ == "__main__":
    with failures.reported() as (procs, record):
        main(arguments(), procs, record)
    sys.exit()
