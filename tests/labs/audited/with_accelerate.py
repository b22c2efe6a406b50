import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
data = TensorDataset(torch.randn(128, 10), torch.randint(0, 3, (128,)))
model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Dropout(0.1), nn.Linear(20, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
train, val = DataLoader(data, 4, shuffle=True), DataLoader(data, 8)
model, optimizer, train, val, scheduler = accelerator.prepare(model, optimizer, train, val, scheduler)
for _ in range(4):
    model.train()
    total = 0
    for x, y in train:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            total += loss.detach().float()
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    for x, y in val:
        with torch.no_grad():
            out = model(x)
        out, y = accelerator.gather_for_metrics((out, y))
