"""Bug hunt on DDP, 5 of 6: ten steps of two processes, each on its own points.

    torchrun --nproc-per-node 2 hunt/ddp_5.py

After each step the parameters should be the same everywhere. The sum of all of them tells.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlojz.training import distributed


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("ddp_5.py: start two processes: torchrun --nproc-per-node 2 hunt/ddp_5.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    points = torch.randn(64, 2, generator=torch.Generator().manual_seed(place.rank)).to(device)
    labels = (points[:, 0] * points[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    model = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for step in range(10):
        # >>> ddp_hunt.step: forward, backward, update
        optimizer.zero_grad()
        outputs = model(points)  # the wrapper, not model.module: its forward pass prepares the averaging in the backward pass
        loss = nn.functional.cross_entropy(outputs, labels)
        loss.backward()
        optimizer.step()
        # <<< ddp_hunt.step
        sums = distributed.from_everyone(sum(p.sum().item() for p in model.parameters()))
        if place.is_main and step in (0, 4, 9):
            print(f"step {step}: loss {loss.item():.4f}, sum of all parameters {[round(value, 4) for value in sums]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
