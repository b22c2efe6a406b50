"""Two processes with a GPU each, gradients of two batches per update, a validation that both share. All of it is right."""

import contextlib
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 6), torch.randint(0, 4, (96,)))
validated = torch.utils.data.Subset(data, range(20))
train = DataLoader(data, 8, sampler=DistributedSampler(data, shuffle=True), pin_memory=True)
val = DataLoader(validated, 4, sampler=DistributedSampler(validated, shuffle=False))
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 4)).to(rank)
model = DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(9):
    model.train()
    train.sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(train, 1):
        x, y = x.to(rank, non_blocking=True), y.to(rank, non_blocking=True)
        weight = torch.ones(4, device=rank)
        with contextlib.nullcontext() if number % 2 == 0 else model.no_sync():
            loss = nn.functional.cross_entropy(model(x), y, weight) / 2
            loss.backward()
        if number % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()
    model.eval()
    found = torch.zeros(2, device=rank)
    with torch.no_grad():
        for x, y in val:
            found += torch.stack([(model(x.to(rank)).argmax(1) == y.to(rank)).sum(), torch.tensor(len(y), device=rank)])
    dist.all_reduce(found)
    if rank == 0:
        torch.save(model.module.state_dict(), "model.pt")
