"""Mixed precision with a scaler, dropout, noise from a worker, clipping, groups without decay, and a sampler for several
processes. With a file's name it writes each loss there, to the last bit."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, default_collate


def noisy(samples):
    x, y = default_collate(samples)
    return x + 0.1 * torch.randn_like(x), y


torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 10), torch.randint(0, 4, (96,)))
sampler = DistributedSampler(data, num_replicas=2, rank=0, shuffle=True)
loader = DataLoader(data, 6, sampler=sampler, num_workers=1, collate_fn=noisy)
model = nn.Sequential(nn.Linear(10, 20), nn.LayerNorm(20), nn.ReLU(), nn.Dropout(0.2), nn.Linear(20, 4))
groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
          {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
optimizer = torch.optim.SGD(groups, lr=1e-2, momentum=0.9, fused=True)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for epoch in range(5):
    sampler.set_epoch(epoch)
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scheduler.step()
        if len(sys.argv) > 1:
            with open(sys.argv[1], "a") as file:
                print(loss.detach().numpy().tobytes().hex(), file=file)
