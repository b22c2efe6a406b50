"""Bug hunt on FSDP, 4 of 6: the model has a method of its own for what comes before the last layer, and it is called in training.

    torchrun --nproc-per-node 2 hunt/fsdp_4.py

It stops with an error, which names a kind of tensor and not the mistake. Who gathers parameters, and when?
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
        sys.exit("fsdp_4.py: start two processes: torchrun --nproc-per-node 2 hunt/fsdp_4.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 2)

        def features(self, points):
            return self.first(points).relu()

        def forward(self, points):
            return self.last(self.features(points))

    points = torch.randn(64, 8, generator=torch.Generator().manual_seed(place.rank)).to(device)  # each process has its own
    labels = (points[:, 0] > 0).long()
    torch.manual_seed(1)
    net = Net().to(device)
    fully_shard(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

    for step in range(5):
        # >>> fsdp_hunt.call: outputs of the model
        outputs = net(points)  # the call of the module gathers its parameters, and a call of one of its methods does not
        # <<< fsdp_hunt.call
        loss = nn.functional.cross_entropy(outputs, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found = distributed.from_everyone(loss.item())
        if place.is_main and step in (0, 4):
            print(f"step {step}: loss {sum(found) / len(found):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
