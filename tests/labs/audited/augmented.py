"""Noise from numpy in workers, a compiled model, and a validation whose last batch is smaller. All of it is right."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, number):
        return torch.from_numpy(np.random.rand(10).astype("float32")), number % 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.calls = nn.Linear(10, 8), nn.Linear(8, 4), 0

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def seeded(worker):
    np.random.seed(torch.initial_seed() % 2**32)


torch.manual_seed(0)
train, val = DataLoader(Noisy(), 8, shuffle=True, num_workers=2, worker_init_fn=seeded), DataLoader(Noisy(), 16)
model = torch.compile(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss_of = nn.CrossEntropyLoss()
for _ in range(4):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in val:
            total += loss_of(model(x), y).item() * len(y)
    print(f"validation: {total / len(val.dataset):.5f}")
