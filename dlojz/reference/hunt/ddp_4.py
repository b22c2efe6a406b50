"""Bug hunt on DDP, 4 of 6: rank 0 saves at the end of each epoch, the others go on when the file is there.

    torchrun --nproc-per-node 2 hunt/ddp_4.py

It hangs. After half a minute the process group gives up and says where. By default that takes 30 minutes, with NCCL 10.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dlojz.training import distributed


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("ddp_4.py: start two processes: torchrun --nproc-per-node 2 hunt/ddp_4.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=30))
    file = Path(os.environ.get("DLOJZ_RUN", ".")) / "ddp_4.pt"

    points = torch.randn(64, 2, generator=torch.Generator().manual_seed(place.rank)).to(device)
    labels = (points[:, 0] > 0).long()
    net = nn.Linear(2, 2).to(device)
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    for epoch in range(2):
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # >>> ddp_hunt.saving: rank 0 saves, all go on when the file is there
        if place.is_main:
            torch.save({"epoch": epoch, "model": net.state_dict()}, file)
        dist.barrier()  # a collective: all processes must come here, or those that do wait for ever
        # <<< ddp_hunt.saving
    saved = torch.load(file, map_location=device, weights_only=True)
    print(f"rank {place.rank} has read what was saved in epoch {saved['epoch']}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
