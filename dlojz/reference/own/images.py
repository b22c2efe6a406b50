"""Tell ten glyphs apart: image classification as in many tutorials. It runs and it learns.

As it came, four things in it are wrong.

    python own/images.py
    dlojz audit own/images.py

Of the kit it knows the six lines of a record alone (docs/own.md).
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dlojz import Recorder

GLYPHS, SIZE = 10, 16


class Net(nn.Sequential):
    """Images (B, 1, SIZE, SIZE) -> logits (B, GLYPHS)."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(16 * (SIZE // 4) ** 2, GLYPHS))


def glyphs(count, seed):
    """A data set of ``count`` noisy images, each moved a little, and which glyph they show."""
    forms = torch.rand(GLYPHS, 1, SIZE // 4, SIZE // 4, generator=torch.Generator().manual_seed(0)).round()
    forms = forms.repeat_interleave(4, 2).repeat_interleave(4, 3)
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(GLYPHS, (count,), generator=draw)
    moved = [forms[label].roll(tuple(torch.randint(-1, 2, (2,), generator=draw).tolist()), (1, 2)) for label in labels]
    return TensorDataset(torch.stack(moved) + torch.randn(count, 1, SIZE, SIZE, generator=draw), labels)


# >>> own.images: train, and validate after each epoch
def train(model, loader, val_loader, optimizer, scheduler, run, epochs, device):
    """Returns the mean loss of all updates."""
    losses = []
    for epoch in range(epochs):
        model.train()
        for images, labels in run.steps(loader):
            images, labels = images.to(device), labels.to(device)
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.detach())
            run.step(loss, items=len(labels), epoch=epoch, lr=scheduler.get_last_lr()[0])
        validate(model, val_loader, run, epoch, device)
    return torch.stack(losses).mean().item()


@torch.no_grad()
def validate(model, loader, run, epoch, device):
    model.eval()
    loss = right = count = 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        outputs = model(images)
        loss += nn.functional.cross_entropy(outputs, labels, reduction="sum").item()
        right += (outputs.argmax(1) == labels).sum().item()
        count += len(labels)
    run.validated(loss=loss / count, accuracy=right / count, images=count, epoch=epoch)
# <<< own.images


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=960)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(glyphs(args.images, 1), args.batch_size, shuffle=True, generator=torch.Generator().manual_seed(2))
    val_loader = DataLoader(glyphs(320, 3), args.batch_size)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    total = args.epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=total + 1)
    run = Recorder(model, args.batch_size, total, vars(args))
    print(f"mean loss {train(model, loader, val_loader, optimizer, scheduler, run, args.epochs, device):.3f}")
    run.end()


if __name__ == "__main__":
    main()
