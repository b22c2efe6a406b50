"""Bug hunt on DDP, 6 of 6: each process moves its points a little at random in every step, so that the model sees more.

    torchrun --nproc-per-node 2 hunt/ddp_6.py

Two processes should see twice as many different moves as one.
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlojz.training import distributed

SEED = 1


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("ddp_6.py: start two processes: torchrun --nproc-per-node 2 hunt/ddp_6.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    torch.manual_seed(SEED)  # the same parameters everywhere
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
    model = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    points = torch.randn(64, 2, generator=torch.Generator().manual_seed(7))[place.rank :: place.world_size]
    labels = (points[:, 0] > 0).long()

    # >>> ddp_hunt.noise: the random numbers of the moves
    generator = torch.Generator().manual_seed(SEED + 1000 * place.rank)  # one start for each process, or all make the same moves
    # <<< ddp_hunt.noise
    for step in range(3):
        move = 0.1 * torch.randn(points.shape, generator=generator)
        loss = nn.functional.cross_entropy(model((points + move).to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        moves = distributed.from_everyone([round(value, 3) for value in move[0].tolist()])
        if place.is_main:
            print(f"step {step}: loss {loss.item():.4f}, first moves of the processes {moves}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
