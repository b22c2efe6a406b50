"""Train one trunk with several heads, each for a task of its own, of which every step uses one: the others get no gradient.

    python heads.py                                          alone
    torchrun --nproc-per-node 2 heads.py --uneven            two processes; each has two batches fewer than the one before it
"""

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from dlojz import Training, todo  # noqa: F401
from dlojz.training import distributed, failures, options, records

POINTS, CLASSES = 64, 8  # numbers in a point, classes of a task


class Heads(nn.Module):
    def __init__(self, heads: int, width: int = 256):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(POINTS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(width, CLASSES) for _ in range(heads))

    def forward(self, points, head: int):
        return self.heads[head](self.trunk(points))


def batches_of(procs, args):
    """This process's part of made-up data: for each batch points (batch, POINTS) and their class in each task (heads, batch)."""
    tasks = torch.randn(args.heads, CLASSES, POINTS, generator=torch.Generator().manual_seed(0))
    more = 2 * (procs.world_size - 1 - procs.rank) if args.uneven else 0
    own = torch.Generator().manual_seed(1 + procs.rank)
    points = torch.randn(args.batches + more, args.batch_size, POINTS, generator=own)
    return [(batch, (tasks @ batch.T).argmax(1)) for batch in points]


def train(args, procs, run, record):
    training = Training(procs, record)
    device = torch.device("cuda", procs.local_rank % torch.cuda.device_count()) if args.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.manual_seed(1)
    if procs.world_size > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", device_id=device if device.type == "cuda" else None)
    record.open(distributed.same_everywhere(run))
    net = Heads(args.heads).to(device)
    # >>> ddp_advanced.unused: average gradients over the processes, though a step leaves most heads without
    model = net
    if procs.world_size > 1:
        model = DistributedDataParallel(net, find_unused_parameters=True)
    # <<< ddp_advanced.unused
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    batches = batches_of(procs, args)
    # >>> ddp_advanced.uneven: a context for the loop in which all processes end, though some have fewer batches
    together = Join([model]) if procs.world_size > 1 else nullcontext()
    # <<< ddp_advanced.uneven
    record.write("start", flush=True, args=vars(args), world_size=procs.world_size, total_steps=len(batches), warmup_steps=0)
    picked = torch.Generator().manual_seed(1)  # the same on all processes: all use the same head in a step
    sums = torch.zeros(3, device=device)  # loss, steps, correct
    training.watch(len(batches))
    with together:  # in here no collectives but DDP's own: a process that has run out of batches answers to no others
        for step, (points, labels) in enumerate(batches, 1):
            head = int(torch.randint(args.heads, (), generator=picked))
            points, label = points.to(device), labels[head].to(device)
            outputs = model(points, head)
            loss = nn.functional.cross_entropy(outputs, label)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            sums += torch.stack([loss.detach(), torch.ones_like(loss), (outputs.argmax(1) == label).float().mean()])
            record.write("step", step=step, images=len(label) * procs.world_size)
            training.step_done()
    failures.say(f"process {procs.rank}: {sums[1]:.0f} steps with {len(batches)} batches")
    low, high = (nn.utils.parameters_to_vector(net.parameters()).detach() for _ in range(2))
    if procs.world_size > 1:
        dist.all_reduce(sums)
        dist.all_reduce(low, dist.ReduceOp.MIN)
        dist.all_reduce(high, dist.ReduceOp.MAX)
    apart = (high - low).max().item()
    loss, taken, correct = sums.tolist()
    training.say(f"{taken:.0f} steps, loss {loss / taken:.4f}, accuracy {correct / taken:.0%};",
                 f"weights differ by {apart:.2g} at most")
    record.write("end", flush=True, status="completed", steps=len(batches), loss=loss / taken, apart=apart)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    with failures.reported() as (procs, record):
        parser = options.Parser(description=__doc__.split("\n")[0], allow_abbrev=False)
        parser.add_argument("--heads", type=int, default=4)
        parser.add_argument("--batches", type=int, default=100, help="of the process that has the fewest (%(default)s)")
        parser.add_argument("-b", "--batch-size", type=int, default=32, help="points per process and step (%(default)s)")
        parser.add_argument("--uneven", action="store_true", help="each process has two batches fewer than the one before it")
        parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
        parser.add_argument("--run-dir", help="where the record goes")
        args = parser.parse_args()
        if min(args.heads, args.batches, args.batch_size) < 1:
            parser.error("--heads, --batches and --batch-size must be at least 1")
        train(args, procs, records.run_folder(args.run_dir, "heads", procs.is_main), record)
