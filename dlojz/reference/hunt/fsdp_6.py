"""Bug hunt on FSDP, 6 of 6: the gradient is scaled down to a norm of 0.01 before each update.

    torchrun --nproc-per-node 2 hunt/fsdp_6.py

The norm should be that of one process with all points, and the same everywhere.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from dlojz.training import distributed


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("fsdp_6.py: start two processes: torchrun --nproc-per-node 2 hunt/fsdp_6.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    points = torch.randn(64, 8, generator=torch.Generator().manual_seed(place.rank)).to(device)  # each process has its own
    labels = (points[:, 0] > 0).long()
    torch.manual_seed(1)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)), nn.Linear(8, 2)).to(device)
    for module in (*net[:-1], net):
        fully_shard(module)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

    for step in range(3):
        nn.functional.cross_entropy(net(points), labels).backward()
        # >>> fsdp_hunt.norm: the norm of the gradient; scale it down to 0.01
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        norm = norm.full_tensor().item()  # it knows of all parts
        # <<< fsdp_hunt.norm
        optimizer.step()
        after = torch.stack([each.grad.full_tensor().norm() for each in net.parameters()]).norm().item()
        optimizer.zero_grad()
        norms = distributed.from_everyone(round(norm, 4))
        if place.is_main:
            print(f"step {step}: norm {norms}, after scaling {after:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
