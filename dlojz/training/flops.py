"""How many floating-point operations a network needs for an image, counted before it trains."""

from __future__ import annotations

import argparse
import warnings

import torch
import torchvision
from torch.utils.flop_counter import FlopCounterMode

from ..system import cards
from . import options


def per_image(args: argparse.Namespace, classes: int, device: torch.device) -> int | None:
    """Operations of forward and backward pass for one image, where the device is a GPU whose peak is known; else None.

    It needs 0.3 s. See `counted`."""
    if device.type != "cuda" or cards.card(torch.cuda.get_device_name(device)) is None:
        return None
    return counted(args, classes)


def counted(args: argparse.Namespace, classes: int) -> int | None:
    """Three times the operations of the forward pass: the gradients of inputs and of weights take as many each (PaLM: Chowdhery
    et al. 2022, arXiv:2204.02311, appendix B). Nothing is computed and no memory taken; random numbers stay as they are. None
    where a network looks at its numbers, so that its operations depend on them.
    """
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.device("meta"), torch.no_grad():
            warnings.simplefilter("ignore")
            net = torchvision.models.get_model(args.model, weights=None, num_classes=classes, **options.for_model(args)).eval()
            with FlopCounterMode(display=False) as found:
                net(torch.empty(1, 3, args.image_size, args.image_size))
    except Exception:  # of whatever network: the training goes on without
        return None
    return 3 * found.get_total_flops()
