"""Bug hunt on FSDP, 3 of 6: a model of eight blocks, of which a process should hold one whole block at a time.

    torchrun --nproc-per-node 2 hunt/fsdp_3.py

It trains, and the numbers are right. Look at how much is whole at a time: what was the point of spreading it?
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
        sys.exit("fsdp_3.py: start two processes: torchrun --nproc-per-node 2 hunt/fsdp_3.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    points = torch.randn(64, 32, generator=torch.Generator().manual_seed(place.rank)).to(device)  # each process has its own
    labels = (points[:, 0] > 0).long()
    torch.manual_seed(1)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(8)), nn.Linear(32, 2)).to(device)
    most = 0

    def look(module, args):
        """How many parameters of blocks are whole, just before a block computes."""
        nonlocal most
        most = max(most, sum(each.numel() for each in net[:-1].parameters() if not isinstance(each, DTensor)))

    # >>> fsdp_hunt.blocks: spread the model
    for block in net[:-1]:
        fully_shard(block)  # what is gathered and freed together: a block
    fully_shard(net)  # and the rest
    # <<< fsdp_hunt.blocks
    for block in net[:-1]:
        block[0].register_forward_pre_hook(look)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    whole = sum(each.numel() for each in net[:-1].parameters())
    loss = nn.functional.cross_entropy(net(points), labels)
    loss.backward()
    optimizer.step()
    found = distributed.from_everyone(loss.item())
    if place.is_main:
        print(f"loss {sum(found) / len(found):.4f}; of {whole} in the blocks at most {most} are whole at a time", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
