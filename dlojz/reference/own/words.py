"""A small language model of bytes, trained on Python's own library. It runs. As it came, four things in it are wrong.

    python own/words.py
    dlojz audit own/words.py

Of the kit it knows the six lines of a record alone (docs/own.md). It reads its data with a DistributedSampler, as a script for
several processes does, here with one.
"""

import argparse
import inspect

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from dlojz import Recorder

LENGTH, WIDTH = 32, 32


class Text(Dataset):
    """``[i]``: LENGTH + 1 bytes of the source of a module, int64."""

    def __init__(self):
        text = inspect.getsource(argparse)[:20_000]
        data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
        self.pieces = data[: len(data) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)

    def __len__(self):
        return len(self.pieces)

    def __getitem__(self, index):
        return self.pieces[index].long()


class Model(nn.Module):
    """Bytes (B, LENGTH) -> logits (B, LENGTH, 256) of the bytes that follow."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=dropout, batch_first=True, norm_first=True)
        self.out = nn.Linear(WIDTH, 256)

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=text.device)
        found = self.bytes(text) + self.places(torch.arange(LENGTH, device=text.device))
        return self.out(self.block(found, mask, is_causal=True))


# >>> own.words: train in mixed precision, with gradients clipped to a norm of 1
def train(model, loader, optimizer, scaler, run, epochs, device):
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        for text in run.steps(loader):
            text = text.to(device)
            with torch.autocast(device.type, dtype=torch.float16):
                outputs = model(text[:, :-1])
                loss = nn.functional.cross_entropy(outputs.flatten(0, 1).float(), text[:, 1:].flatten())
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            run.step(loss, epoch=epoch)
# <<< own.words


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Text()
    loader = DataLoader(data, args.batch_size, sampler=DistributedSampler(data, num_replicas=1, rank=0), drop_last=True)
    model = Model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    scaler = torch.amp.GradScaler(device.type)
    run = Recorder(model, args.batch_size, args.epochs * len(loader), vars(args) | {"amp": "fp16"}, unit="rows")
    train(model, loader, optimizer, scaler, run, args.epochs, device)
    run.end()


if __name__ == "__main__":
    main()
