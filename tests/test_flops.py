"""The operations of a network, counted before it trains."""

import argparse

import pytest
import torch

from dlojz.training import flops


def arguments(model, size=224):
    return argparse.Namespace(model=model, image_size=size)


def test_operations_of_a_network():
    # torchvision's own count of ResNet-18: 1.814 billion multiplications and additions for an image
    state = torch.get_rng_state()
    assert flops.counted(arguments("resnet18"), 1000) == pytest.approx(3 * 2 * 1.814e9, rel=0.001)
    assert flops.counted(arguments("resnet18", 112), 1000) < flops.counted(arguments("resnet18"), 1000) / 3
    assert torch.equal(torch.get_rng_state(), state)


def test_a_network_that_cannot_be_counted_is_no_error():
    assert flops.counted(arguments("no_such_network"), 10) is None


def test_only_gpus_have_a_known_peak():
    assert flops.per_image(arguments("resnet18"), 10, torch.device("cpu")) is None
