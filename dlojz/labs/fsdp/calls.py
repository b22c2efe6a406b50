"""What the check of fsdp does with sharding.py: it trains a small model, and counts what processes send and hold."""

import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional as F

from dlojz.training import distributed
from dlojz.training.sent import Sent

WIDTH, VOCABULARY, BLOCKS, ROWS, LENGTH = 16, 24, 4, 8, 6


class Block(nn.Module):
    """``seen``: what its weight and ``turn`` were in the latest forward pass, and when it computed. Each block has another number
    of bytes, which say whose parameters are gathered."""

    def __init__(self, number, seen):
        super().__init__()
        self.number, self.seen = number, seen
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH + 4 * number)

    def forward(self, x, turn):
        self.seen.append(("computes", self.number))
        self.dtypes = [str(each.dtype).removeprefix("torch.") for each in (self.linear.weight, turn)]
        inside = F.silu(self.linear(self.norm(x)))[..., :WIDTH]
        if inside.requires_grad:
            inside.register_hook(lambda grad: self.seen.append(("goes back", self.number)))
        return x + inside * turn.to(x.dtype)


class Net(nn.Module):
    """As lm.Transformer: an embedding, blocks, a norm, and a head that shares the embedding's matrix."""

    def __init__(self, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.seen = []
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(number, self.seen) for number in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight
        self.sizes = {sum(each.nbytes for each in block.parameters()): number for number, block in enumerate(self.blocks)}

    def gathered(self, kind, size):
        if kind == "all_gather":
            self.seen.append(("gathered", self.sizes.get(size)))

    def forward(self, tokens):
        x, turn = self.embedding(tokens[:, :-1]), torch.linspace(0.5, 1.5, WIDTH)
        for block in self.blocks:
            x = block(x, turn)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), tokens[:, 1:].flatten())


def tokens(step, part=True):
    rows = torch.randint(VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(100 + step))
    return rows.chunk(dist.get_world_size())[dist.get_rank()] if part else rows


def mean(value):
    return sum(distributed.from_everyone(value.item())) / dist.get_world_size()


def whole(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def everything(net, optimizer):
    """Parameters, and what the optimizer knows of each: whole, by name, on all ranks."""
    found = {}
    for name, parameter in net.named_parameters():
        found[name] = whole(parameter.detach()).clone()
        found |= {f"{kind} of {name}": whole(value).clone() for kind, value in optimizer.state.get(parameter, {}).items()}
    return found | {f"the learning rate of group {number}": torch.tensor(group["lr"])
                    for number, group in enumerate(optimizer.param_groups)}


def other_than(found, wanted):
    """The first name of ``wanted`` that ``found`` does not have bit by bit, or empty."""
    return next((name for name in wanted if name not in found or not torch.equal(found[name], wanted[name])), "")


def adam(net, lr=1e-2):
    """Two groups, as most training scripts have: matrices, and norms, which do not decay and learn at another rate."""
    matrices, norms = ([p for p in net.parameters() if (p.dim() < 2) is small] for small in (False, True))
    return torch.optim.AdamW([{"params": matrices}, {"params": norms, "lr": lr / 4, "weight_decay": 0.0}], lr=lr)


def train(net, optimizer, step):
    loss = net(tokens(step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def begun():
    dist.init_process_group("gloo")
    return init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("shard",))


def by_the_kit(seed=1, policy=None):
    net = Net(seed)
    for module in (*net.blocks, net):
        fully_shard(module, mp_policy=policy or MixedPrecisionPolicy())
    return net


def spread(sharding, note):
    """`shard`, with blocks gathered again or kept, beside one process that has all rows."""
    mesh = begun()
    for keep in (False, True):
        net, alone = Net(), Net()
        sharding.shard(net, mesh, MixedPrecisionPolicy(), keep)
        plain = [name for name, parameter in net.named_parameters() if not isinstance(parameter, DTensor)]
        modules = [name or "the root" for name, module in net.named_modules() if isinstance(module, FSDPModule)]
        own = sum(each.to_local().nbytes if isinstance(each, DTensor) else each.nbytes for each in net.parameters())
        note("parts", keep=keep, plain=plain, modules=modules, own=own, all=sum(each.nbytes for each in alone.parameters()))
        optimizer, other = adam(net), adam(alone)
        for step in range(3):
            with Sent() as forward:
                loss = net(tokens(step))
            with Sent() as backward:
                loss.backward()
            right = alone(tokens(step, part=False))
            right.backward()
            for each in (optimizer, other):
                each.step()
                each.zero_grad()
            note("passes", keep=keep, number=step, forward=forward.facts(), backward=backward.facts(), loss=mean(loss.detach()),
                 right=right.item())
    net = Net()
    sharding.shard(net, mesh, MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    with Sent() as sent:
        for module in net.modules():
            if isinstance(module, FSDPModule):
                module.unshard()
    note("policy", formats=[dtype for kind, _, dtype in sent.found if kind == "all_gather"])


def cast(sharding, note):
    """`precision`."""
    begun()
    for amp in ("bf16", "off"):
        net = by_the_kit(policy=sharding.precision(amp))
        with Sent() as sent:
            net(tokens(0)).backward()
        weight, turn = net.blocks[1].dtypes
        note("cast", amp=amp, sent=sent.facts(), weight=weight, turn=turn, kept=str(net.norm.weight.dtype).removeprefix("torch."))


def grouped(sharding, note):
    """`accumulate`: two groups of three batches."""
    begun()
    net, alone = by_the_kit(), Net()
    for group in range(2):
        sends = []
        for batch in range(3):
            sharding.accumulate(net, batch < 2)
            with Sent() as sent:
                net(tokens(3 * group + batch)).backward()
            sends.append(sent.facts().get("reduce_scatter", {}).get("count", 0))
            alone(tokens(3 * group + batch, part=False)).backward()
        weight, right = net.blocks[0].linear.weight, alone.blocks[0].linear.weight
        gradient = whole(weight.grad) if weight.grad is not None else torch.zeros(1)
        note("group", number=group, sends=sends, norm=gradient.norm().item(), right=right.grad.norm().item())
        for each in (net, alone):
            each.zero_grad()


def early(sharding, note):
    """`prefetch`: the order of gathers, and how many were begun before each block computes, forward and backward. Its own is not
    among them."""
    begun()
    for ahead in (1, 2):
        net = by_the_kit()
        sharding.prefetch(net, ahead)
        train(net, adam(net), 0)  # the order of blocks is known from here on
        net.seen.clear()
        with Sent(net.gathered):
            loss = net(tokens(1))
            net.seen.append(("turns", None))
            loss.backward()
        turn = net.seen.index(("turns", None))
        note("ahead", ahead=ahead, forward=begun_before(net.seen[:turn], "computes", 2),
             backward=begun_before(net.seen[turn:], "goes back", 1), order=[in_order(net.seen[:turn]), in_order(net.seen[turn:])])


def in_order(seen):
    """The blocks whose parameters are gathered, without the root."""
    return [number for event, number in seen if event == "gathered" and number is not None]


def begun_before(seen, what, least):
    """For each block in the order in which they come, gathers beyond its own (``least`` of them for the first)."""
    counts, gathers = [], 0
    for event, _ in seen:
        gathers += event == "gathered"
        if event == what:
            counts.append(gathers - least - len(counts))
    return counts


def shared_folder(name):
    folder = Path(distributed.same_everywhere(tempfile.mkdtemp())) / name
    return folder


def kept(sharding, note):
    """`save`, at once and aside, `load` into a new model and optimizer, `whole`."""
    begun()
    net = by_the_kit()
    optimizer = adam(net)
    for step in range(2):
        train(net, optimizer, step)
    wanted, folder = everything(net, optimizer), shared_folder("now")
    sharding.save(folder, net, optimizer)
    dist.barrier()
    sizes = written(folder)
    note("saved", files=len(sizes), share=max(sizes, default=0) / max(1, sum(sizes)))
    read_into(sharding, note, folder, wanted, "at once")
    state = sharding.whole(net)
    state = state if isinstance(state, dict) else {}
    right = {name: whole(value.detach()) for name, value in net.state_dict().items()}
    plain = {name: value for name, value in state.items() if type(value) is torch.Tensor}
    note("whole", count=len(state), plain=len(plain), names=len(right), wrong=other_than(plain, right) if state else "")
    aside(sharding, note, net, optimizer)


def written(folder):
    """Bytes of tensors in each file of a checkpoint: beside them rank 0 may write many settings. Of other files: all."""
    if not (folder / ".metadata").is_file():
        return [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    found, sizes = dcp.FileSystemReader(folder).read_metadata(), Counter()
    for index, place in found.storage_data.items():
        if isinstance(found.state_dict_metadata[index.fqn], TensorStorageMetadata):
            sizes[place.relative_path] += place.length
    return list(sizes.values())


def aside(sharding, note, net, optimizer):
    """A checkpoint that is written while training goes on: the writing thread's first message, from before it reads the numbers,
    waits until a step of training has changed them."""
    among, reached, trained = [], threading.Event(), threading.Event()
    gather = dist.gather_object

    def watched(obj, *args, group=None, **kwargs):
        if threading.current_thread() is not threading.main_thread():
            if group in (None, dist.group.WORLD):
                among.append("the training's")
                reached.set()
                raise RuntimeError("in the group of the training")
            reached.set()
            trained.wait(10)
        return gather(obj, *args, group=group, **kwargs)

    wanted, folder = everything(net, optimizer), shared_folder("aside")
    dist.gather_object = watched
    try:
        later = sharding.save(folder, net, optimizer, wait=False)
        if callable(getattr(later, "result", None)):
            at_once, until = later.done() and not reached.is_set(), time.monotonic() + 10
            while not (reached.wait(0.01) or later.done()) and time.monotonic() < until:
                pass  # or a rank trains on, and fails for the other, which knows already
            if not among:
                train(net, optimizer, 2)
            trained.set()
            failed = ""
            try:
                later.result(timeout=10)
            except BaseException as error:
                failed = f"{type(error).__name__}: {error}"
            note("aside", future=True, at_once=at_once, among=among, failed=failed[:200])
        else:
            note("aside", future=False, at_once=True, among=among, failed="")
            return
    finally:
        trained.set()
        dist.gather_object = gather
    if not among and not failed:
        read_into(sharding, note, folder, wanted, "aside")


def read_into(sharding, note, folder, wanted, how):
    other = by_the_kit(seed=2)
    optimizer = adam(other, lr=1.0)
    sharding.load(folder, other, optimizer)
    note("read", how=how, wrong=other_than(everything(other, optimizer), wanted))


def replicated(sharding, note):
    """`make_mesh`, with a copy of the model in each of two groups, and a checkpoint that four parts write and two read."""
    begun()
    mesh = sharding.make_mesh("cpu", 1)
    note("mesh", replicas=1, names=list(getattr(mesh, "mesh_dim_names", None) or ()), ranks=mesh.mesh.tolist() if mesh else None)
    mesh = sharding.make_mesh("cpu", 2)
    note("mesh", replicas=2, names=list(getattr(mesh, "mesh_dim_names", None) or ()), ranks=mesh.mesh.tolist() if mesh else None)
    net = by_the_kit()
    optimizer = adam(net)
    train(net, optimizer, 0)
    wanted, folder = everything(net, optimizer), shared_folder("four")
    sharding.save(folder, net, optimizer)
    dist.barrier()
    other = Net(seed=2)
    sharding.shard(other, init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")), MixedPrecisionPolicy())
    again = adam(other)
    sharding.load(folder, other, again)
    note("resharded", wrong=other_than(everything(other, again), wanted))
    with Sent() as sent:
        loss = other(tokens(1))
        loss.backward()
    right = net(tokens(1))
    note("replicas", sent=sent.facts(), loss=mean(loss.detach()), right=mean(right.detach()))
    sys.stdout.flush()
