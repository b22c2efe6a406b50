"""Bug hunt on FSDP, 5 of 6: a step of training, then rank 0 saves the whole model.

    torchrun --nproc-per-node 2 hunt/fsdp_5.py

It hangs. After 20 seconds the process group gives up and says where.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from dlojz.training import distributed


def main():
    place = distributed.processes()
    if place.world_size < 2:
        sys.exit("fsdp_5.py: start two processes: torchrun --nproc-per-node 2 hunt/fsdp_5.py")
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(seconds=20))

    file = Path(os.environ.get("DLOJZ_RUN", ".")) / "fsdp_5.pt"
    torch.manual_seed(1)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)), nn.Linear(8, 2)).to(device)
    for module in (*net[:-1], net):
        fully_shard(module)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(16, 8, generator=torch.Generator().manual_seed(place.rank)).to(device)).square().mean().backward()
    optimizer.step()

    # >>> fsdp_hunt.save: rank 0 writes whole tensors
    state = {name: each.full_tensor().cpu() for name, each in net.state_dict().items()}  # all gather: a collective
    if place.is_main:
        torch.save(state, file)
    # <<< fsdp_hunt.save
    dist.barrier()  # the file is there before anybody reads it

    saved = torch.load(file, weights_only=True)
    whole = torch.cat([each.flatten() for each in saved.values() if not isinstance(each, DTensor)] or [torch.zeros(0)])
    print(f"rank {place.rank} reads {whole.numel()} whole parameters, of norm {whole.norm():.4f}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
