"""Bug hunt on FSDP, 2 of 6: two processes that train one model, each on its own points.

    torchrun --nproc-per-node 2 hunt/fsdp_2.py

After ten steps the model should be the same everywhere. The sum of all parameters tells, of each process.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from dlojz.training import distributed


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("fsdp_2.py: start two processes: torchrun --nproc-per-node 2 hunt/fsdp_2.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    points = torch.randn(64, 8, generator=torch.Generator().manual_seed(place.rank)).to(device)  # each process has its own
    labels = (points[:, 0] > 0).long()
    torch.manual_seed(1)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)), nn.Linear(8, 2)).to(device)

    # >>> fsdp_hunt.root: spread the model
    for block in net[:-1]:
        fully_shard(block)
    fully_shard(net)  # what is in no block, too: else each process has a last layer of its own, and trains it alone
    # <<< fsdp_hunt.root
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)

    for _ in range(10):
        nn.functional.cross_entropy(net(points), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
    total = sum((each.full_tensor() if isinstance(each, DTensor) else each).sum().item() for each in net.parameters())
    sums = distributed.from_everyone(round(total, 4))
    if place.is_main:
        print(f"sum of all parameters, by process: {sums}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
