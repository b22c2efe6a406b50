"""Bug hunt on FSDP, 1 of 6: ten steps of a model in two parts.

    torchrun --nproc-per-node 2 hunt/fsdp_1.py

The learning rate is large enough, and nothing is reported as wrong. Look at the loss.
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
        sys.exit("fsdp_1.py: start two processes: torchrun --nproc-per-node 2 hunt/fsdp_1.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    points = torch.randn(64, 8, generator=torch.Generator().manual_seed(place.rank)).to(device)  # each process has its own
    labels = (points[:, 0] > 0).long()
    torch.manual_seed(1)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)), nn.Linear(8, 2)).to(device)

    # >>> fsdp_hunt.optimizer: spread the model, make its optimizer
    for module in (*net[:-1], net):
        fully_shard(module)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)  # the parameters are new ones now: each process has a part of them
    # <<< fsdp_hunt.optimizer

    for step in range(10):
        loss = nn.functional.cross_entropy(net(points), labels)
        loss.backward()
        optimizer.step()
        net.zero_grad()
        found = distributed.from_everyone(loss.item())
        if place.is_main and step in (0, 4, 9):
            print(f"step {step}: loss {sum(found) / len(found):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
