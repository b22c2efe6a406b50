"""Bug hunt on DDP, 2 of 6: ten points to validate do not go evenly into the processes. What is the accuracy?

    torchrun --nproc-per-node 2 hunt/ddp_2.py

Rank 0 validates all ten alone afterwards. Both numbers should be the same.
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
        sys.exit("ddp_2.py: start two processes: torchrun --nproc-per-node 2 hunt/ddp_2.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    points = torch.randn(10, 2, generator=torch.Generator().manual_seed(14)).to(device)  # the same in each process
    labels = (points[:, 0] * points[:, 1] > 0).long()
    first, last = (0, 7) if place.is_main else (7, 10)  # rank 0 has seven, rank 1 three
    mine = slice(first, last)
    torch.manual_seed(1)
    net = nn.Linear(2, 2).to(device)
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    nn.functional.cross_entropy(model(points[mine]), labels[mine]).backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()

    @torch.no_grad()
    def right(part):
        """How many of these points the model gets right: a tensor of one number."""
        return (net.eval()(points[part]).argmax(1) == labels[part]).sum().float()

    # >>> ddp_hunt.accuracy: the accuracy over the points of all processes
    sums = torch.stack([right(mine), torch.tensor(float(last - first), device=device)])
    dist.all_reduce(sums)  # what can be added up is counts; then divide
    accuracy = (sums[0] / sums[1]).item()
    # <<< ddp_hunt.accuracy
    found = distributed.from_everyone(round(accuracy, 4))
    if place.is_main:
        print(f"rank 0 alone, all ten points: {right(slice(0, 10)).item() / 10:.4f}", flush=True)
        for rank, value in enumerate(found[:2]):
            print(f"over the processes, rank {rank} says: {value:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
