"""Batch norm in several processes: what each of them remembers of its images. Started by the notebook, as a job:

    submit("-m dlojz.labs.ddp.statistics", gpus=2)

Each process reads its own part of the photos, in batches of BATCH, through a convolution and a batch norm; three times over:
each process for itself, DDP by default, and batch norm over the images of all processes. Writes statistics.json
into the run's folder: for each way the running means of every process after the last step, and the same for one process that
is given all images.
"""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ... import data
from ...system.shown import say
from ...training import distributed, records

BATCH, STEPS, CHANNELS, PIXELS = 4, 12, 16, 32
NAME = "statistics.json"
VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
WAYS = {"alone": "each process for itself", "ddp": "DDP by default", "sync": "batch norm over all processes (SyncBatchNorm)"}


class Sum(torch.autograd.Function):
    """The sum over all processes. Each of them depends on it, so its gradient is a sum over all of them, too."""

    @staticmethod
    def forward(ctx, tensor):
        tensor = tensor.clone()
        dist.all_reduce(tensor)
        return tensor

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class BatchNormOfAll(nn.BatchNorm2d):
    """What `nn.SyncBatchNorm` does, which torch has for GPUs only: mean and variance over the batches of all processes.

    Takes and gives (images, channels, height, width). All processes must call it.
    """

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        numbers = x.new_tensor([x.numel() / x.shape[1]])
        sums = torch.cat([x.sum((0, 2, 3)), x.square().sum((0, 2, 3)), numbers])
        sums = Sum.apply(sums)
        count = sums[-1]
        mean, square = (sums[:-1] / count).chunk(2)
        variance = square - mean.square()
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return (x - mean[:, None, None]) * scale[:, None, None] + self.bias[:, None, None]


def make(way: str, device: torch.device) -> nn.Module:
    """A convolution with batch norm, with the same weights in each process."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, CHANNELS, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(CHANNELS))
    if way == "sync" and device.type == "cpu":
        net[1] = BatchNormOfAll(CHANNELS)
    elif way == "sync":
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    return net.to(device)


def means(way: str, place: distributed.Processes, device: torch.device, batches: list[torch.Tensor]) -> list[list[float]]:
    """The running means of every process after training steps on these batches."""
    net = make(way, device)
    model = net
    if place.world_size > 1 and way != "alone":
        model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)  # the same weights throughout: what differs comes from the images
    for images in batches:
        model(images.to(device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return distributed.from_everyone(net[1].running_mean.tolist())


def of_all(batches: list[list[torch.Tensor]], device: torch.device) -> list[float]:
    """The running means of one process that is given the batches of all processes as one."""
    net = make("alone", device)
    with torch.no_grad():
        for step in zip(*batches):
            net(torch.cat(step).to(device))
    return net[1].running_mean.tolist()


def read(place: distributed.Processes) -> list[torch.Tensor]:
    """This process's batches of photos, normalized: (BATCH, 3, PIXELS, PIXELS)."""
    train_set = data.dataset("photos", "train", PIXELS, 1, repeat=1)
    sampler = DistributedSampler(train_set, place.world_size, place.rank, seed=1, drop_last=True)
    loader = DataLoader(train_set, batch_size=BATCH, sampler=sampler, drop_last=True)
    return [data.normalize(images) for _, (images, _) in zip(range(STEPS), loader)]


def main() -> None:
    place = distributed.processes()
    device = torch.device("cuda", place.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if place.world_size > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    said = [f"{name}={os.environ.get(name, '(not set)')}" for name in VARIABLES]
    lines = distributed.from_everyone(f"process {os.getpid()} on {device}: {' '.join(said)}")
    batches = read(place)
    found = {way: means(way, place, device, batches) for way in WAYS if way != "sync" or place.world_size > 1}
    everyones = distributed.from_everyone(batches)
    if place.is_main:
        folder = records.run_folder(None, "statistics")
        say("\n".join(lines))
        content = {"batch": BATCH, "steps": len(batches), "ways": found, "all": of_all(everyones, device)}
        (folder / NAME).write_text(json.dumps(content), encoding="utf-8")
    if place.world_size > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
    distributed.leave()
