"""A ResNet for images of 32 pixels, small enough for a laptop: `--model small_resnet`, the default of `--data tiny`, cifar10.

Importing this file makes it one of torchvision's models, by name.
"""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models._api import BUILTIN_MODELS, register_model

NAME = "small_resnet"


class Block(nn.Module):
    """Two convolutions with batch norm, and a way around them: ResNet's basic block (He et al. 2016, arXiv:1512.03385)."""

    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU(inplace=True)
        self.around = nn.Identity() if stride == 1 and inside == outside else nn.Sequential(
            nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        return self.relu(inner + self.around(x))


class SmallResNet(nn.Module):
    """A stem that halves the image and three blocks of 32, 64 and 128 channels: 0.3 million parameters, 17 million multiply-adds
    for an image of 32 pixels."""

    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(Block(32, 32, 1), Block(32, 64, 2), Block(64, 128, 2))
        self.fc = nn.Linear(128, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


if NAME not in BUILTIN_MODELS:
    def make(weights=None, **options) -> SmallResNet:
        return SmallResNet(**options)

    make.__module__ = "torchvision.models.small"  # `list_models` asks where a model comes from
    register_model(NAME)(make)
