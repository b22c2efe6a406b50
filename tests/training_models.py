"""Models that train in no time, known to torchvision by name: ``tiny``, ``tiny_bn``, ``tiny_dropout``, ``tiny_slow``, …"""

import time

from torch import nn
from torchvision.models._api import register_model


def _register(make):
    make.__module__ = "torchvision.models.tiny"  # `list_models` asks where a model comes from
    return register_model()(make)


class Block(nn.Module):
    """A residual block as ResNet's, for what looks for blocks."""

    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, x):
        return x + self.body(x)


class Slow(nn.Module):
    """Takes time and no processor, so that there is something to interrupt: in training, or in validation."""

    def __init__(self, training, validation):
        super().__init__()
        self.seconds = {True: training, False: validation}

    def forward(self, x):
        time.sleep(self.seconds[self.training])
        return x


def _net(num_classes, *between):
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), *between, nn.AdaptiveAvgPool2d(2), nn.Flatten(),
                         nn.Linear(32, num_classes))


@_register
def tiny(weights=None, num_classes=10):
    return _net(num_classes)


@_register
def tiny_bn(weights=None, num_classes=10):
    return _net(num_classes, nn.BatchNorm2d(8), nn.Sequential(Block(8), Block(8)))


@_register
def tiny_dropout(weights=None, num_classes=10):
    return _net(num_classes, nn.BatchNorm2d(8), nn.Dropout(0.5))


@_register
def tiny_slow(weights=None, num_classes=10):
    return _net(num_classes, nn.Dropout(0.2), Slow(0.02, 0))


@_register
def tiny_slow_validation(weights=None, num_classes=10):
    return _net(num_classes, nn.Dropout(0.2), Slow(0.002, 0.3))
