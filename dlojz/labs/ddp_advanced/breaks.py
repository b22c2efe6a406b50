"""Small distributed trainings that go wrong on purpose, to see what that looks like. Start with two processes or more:

    submit("-m dlojz.labs.ddp_advanced.breaks killed", name="killed", processes=2)

``unused``  a step leaves a head without gradients, and DDP was not told      ``uneven``  rank 1 has fewer batches than the others
``raises``  rank 1 meets an error of its own in step 3                        ``killed``  rank 1 is killed in step 3, with -9
``hangs``   rank 1 does not come back from step 3 (the others' patience is shortened to a few seconds)
"""

from __future__ import annotations

import os
import signal
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlojz.system import machine
from dlojz.system.errors import UsageError
from dlojz.training import distributed, failures, lost_ranks, options, records

WAYS = ("unused", "uneven", "raises", "killed", "hangs")
STEPS, BATCH, PATIENCE = 8, 4, 5.0


class Net(nn.Module):
    """A trunk and two heads, of which a step uses one."""

    def __init__(self):
        super().__init__()
        self.trunk, self.heads = nn.Linear(8, 8), nn.ModuleList([nn.Linear(8, 2), nn.Linear(8, 2)])

    def forward(self, points, head):
        return self.heads[head](self.trunk(points))


def train(way: str, procs, run, record) -> None:
    device = torch.device("cuda", procs.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    failures.catch_signals()  # torchrun tells the others to end at once: there is something to be said before
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    record.open(distributed.same_everywhere(run))
    model = DistributedDataParallel(Net().to(device), find_unused_parameters=way != "unused")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = STEPS - 2 * (way == "uneven" and procs.rank == 1)
    record.write("start", flush=True, **machine.describe(device), args={"way": way}, model="a trunk and two heads",
                 batch_size=BATCH, world_size=procs.world_size, global_batch=BATCH * procs.world_size, total_steps=steps,
                 warmup_steps=0)
    watch = failures.Watch(lambda *text: None, steps)
    for step in range(1, steps + 1):
        if procs.rank == 1 and step == 3:
            happen(way)
        model(torch.randn(BATCH, 8, device=device), step % 2).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize()
        record.write("step", flush=True, step=step, images=BATCH * procs.world_size)
        failures.say(f"rank {procs.rank}: step {step}")
        watch([])
    record.write("end", flush=True, status="completed", steps=steps)
    if way != "uneven":  # there it just ends, as a script may
        dist.destroy_process_group()


def happen(way: str) -> None:
    if way == "raises":
        raise ValueError("a broken batch")
    if way == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if way == "hangs":
        time.sleep(3600)


if __name__ == "__main__":
    with failures.reported() as (procs, record):
        parser = options.Parser(description=__doc__.split("\n")[0], allow_abbrev=False)
        parser.add_argument("way", choices=WAYS)
        parser.add_argument("--run-dir", help="where the record goes")
        args = parser.parse_args()
        if procs.world_size < 2:
            raise UsageError("one process alone loses nobody: start two or more, as in submit(…, processes=2)")
        if args.way == "hangs":
            lost_ranks.PATIENCE = PATIENCE
        train(args.way, procs, records.run_folder(args.run_dir, "breaks", procs.is_main), record)
