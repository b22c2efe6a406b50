"""Images in classes, the way tutorials do it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(90, 3, 8, 8), torch.randint(0, 4, (90,)))
train, val = DataLoader(data, 8, shuffle=True), DataLoader(data, 16)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2),
                      nn.Linear(512, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
loss_of = nn.CrossEntropyLoss()
kept, running = [], 0.0
for epoch in range(3):
    model.train()
    for images, labels in train:
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running += loss.detach()
    model.eval()
    with torch.no_grad():
        for images, labels in val:
            kept.append(loss_of(model(images), labels).item())
    torch.save(model.state_dict(), "model.pt")
    with open("log.txt", "a") as file:
        print(epoch, kept[-1], file=file)
