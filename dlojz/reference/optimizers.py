"""Optimizers and learning rate schedules by name, as train.py's --optimizer and --schedule call them."""

import torch

NAMES = ["sgd", "adamw"]
SCHEDULES = ["constant", "onecycle", "cosine"]


def default_lr(args, processes):
    """SGD: 0.1 for an update from 256 images over all processes, in proportion to their number (Goyal et al. 2017,
    arXiv:1706.02677, section 2.1). AdamW: torch's default."""
    images = args.batch_size * args.accumulate * processes
    return 0.1 * images / 256 if args.optimizer == "sgd" else 1e-3


def make_optimizer(name, parameters, lr, momentum, weight_decay, fused):
    fused = True if fused else None  # None: torch chooses. False would mean one parameter after the other, even on a GPU
    if name == "sgd":
        return torch.optim.SGD(parameters, lr, momentum=momentum, weight_decay=weight_decay, fused=fused)
    return torch.optim.AdamW(parameters, lr, betas=(momentum, 0.999), weight_decay=weight_decay, fused=fused)


def make_schedule(name, optimizer, lr, updates):
    """A schedule to step after each of ``updates`` updates (not after each batch: they differ under gradient accumulation)."""
    if name == "onecycle":
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=updates)
    if name == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
