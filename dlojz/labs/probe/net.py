"""The model that the probe trains: small, with one of each kind of layer that matters to the labs."""

from __future__ import annotations

from torch import nn
from torchvision.models._api import register_model

NAME = "probe_net"


class Block(nn.Module):
    """Halves the image; the way round is a 1x1 convolution, as in a ResNet."""

    def __init__(self, inside: int, outside: int):
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outside)
        self.down = nn.Conv2d(inside, outside, 1, stride=2, bias=False)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.norm(self.conv(x)) + self.down(x))


class Net(nn.Module):
    def __init__(self, num_classes: int = 10):
        super().__init__()
        convolution = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.stem = nn.Sequential(convolution, nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.layers = nn.Sequential(Block(8, 8), Block(8, 16))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, num_classes)
        nn.init.normal_(self.fc.weight, std=0.02)  # gradients that fp16 can hold, scaled by 2**16

    def forward(self, x):
        return self.fc(self.pool(self.layers(self.stem(x))).flatten(1))


def register() -> None:
    """From here on `--model probe_net` is one of torchvision's models."""

    def make(weights=None, **options):
        return Net(**options)

    make.__module__ = "torchvision.models.probe"  # `list_models` asks where a model comes from
    register_model(NAME)(make)
