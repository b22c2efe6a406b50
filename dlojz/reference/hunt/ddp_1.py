"""Bug hunt on DDP, 1 of 6: three epochs over 64 points, split over the processes and shuffled anew each time. Or not?

    torchrun --nproc-per-node 2 hunt/ddp_1.py

It trains, the loss falls, nothing is reported as wrong. Look at which points rank 0 sees first in each epoch.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from dlojz.training import distributed


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("ddp_1.py: start two processes: torchrun --nproc-per-node 2 hunt/ddp_1.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    points = torch.randn(64, 2, generator=torch.Generator().manual_seed(1))
    train_set = TensorDataset(torch.arange(64), points, (points[:, 0] * points[:, 1] > 0).long())
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(loader, epoch):
        first, total = None, 0.0
        for numbers, inputs, labels in loader:
            first = numbers[:6].tolist() if first is None else first
            loss = nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        if place.is_main:
            print(f"epoch {epoch}: loss {total / len(loader):.4f}, rank 0 begins with the points {first}", flush=True)

    # >>> ddp_hunt.epochs: three epochs
    sampler = DistributedSampler(train_set, shuffle=True, seed=1)
    loader = DataLoader(train_set, batch_size=8, sampler=sampler)
    for epoch in range(3):
        sampler.set_epoch(epoch)  # the order comes from seed + epoch, and the sampler cannot know the epoch by itself
        train(loader, epoch)
    # <<< ddp_hunt.epochs
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
