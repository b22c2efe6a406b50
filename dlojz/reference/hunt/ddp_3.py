"""Bug hunt on DDP, 3 of 6: train, save, and load what was saved into a new model to use it.

    torchrun --nproc-per-node 2 hunt/ddp_3.py

The model that was loaded should be as good as the one that was trained.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlojz.training import distributed


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("ddp_3.py: start two processes: torchrun --nproc-per-node 2 hunt/ddp_3.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    file = Path(os.environ.get("DLOJZ_RUN", ".")) / "ddp_3.pt"

    points = torch.randn(256, 2, generator=torch.Generator().manual_seed(1)).to(device)
    labels = (points[:, 0] > 0).long()

    def make():
        return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)

    def loss_of(net):
        return nn.functional.cross_entropy(net(points[place.rank :: place.world_size]), labels[place.rank :: place.world_size])

    net = make()
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(20):
        loss_of(model).backward()
        optimizer.step()
        optimizer.zero_grad()

    # >>> ddp_hunt.checkpoint: write the parameters
    if place.is_main:  # one process writes, and the names are those of the model itself: no `module.` in front of them
        torch.save(model.module.state_dict(), file)
    # <<< ddp_hunt.checkpoint
    dist.barrier()  # the file is there before anybody reads it

    loaded = make()
    loaded.load_state_dict(torch.load(file, map_location=device, weights_only=True), strict=False)
    trained, again = loss_of(net).item(), loss_of(loaded).item()
    if place.is_main:
        print(f"loss of the trained model {trained:.4f}, of the loaded one {again:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
