"""Small real trainings on the CPU with a planted cause, each traced: `python cpu_programs.py FOLDER PROGRAM…`.

With RANK and WORLD_SIZE set, the processes find each other through MASTER_ADDR and MASTER_PORT (gloo), and rank 0 is traced.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import record_function
from torch.utils.data import DataLoader, Dataset

from dlojz.training import distributed


class Slow(Dataset):
    """Items that take their time: asleep (a slow disk), or computing."""

    def __init__(self, seconds: float = 0.0, work: int = 0):
        self.seconds, self.work = seconds, work

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        if self.work:
            torch.rand(self.work).sort()
        return torch.rand(64), 0


def net(width=64, depth=2):
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(64, width), *layers, nn.Linear(width, 10))


def train(profiler, batches, model, loss_of=None, after=lambda model, outputs: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, (inputs, labels) in enumerate(batches):
        with record_function("dlojz.forward"):
            outputs = model(inputs)
            loss = loss_of(outputs, labels) if loss_of else nn.functional.cross_entropy(outputs, labels)
        with record_function("dlojz.backward"):
            loss.backward()
        with record_function("dlojz.update"):
            after(model, outputs)
            optimizer.step()
            optimizer.zero_grad()
        profiler.step()
        if number == 6:
            return


def ready(batch=32, width=64):
    """Batches that are there already."""
    return [(torch.rand(batch, width), torch.zeros(batch, dtype=torch.long))] * 20


# --- fed too slowly ------------------------------------------------------------------------------------------------------


def slow_disk(profiler):
    train(profiler, DataLoader(Slow(seconds=0.002), 32), net())


def decoding_in_the_main_process(profiler):
    train(profiler, DataLoader(Slow(work=20_000), 32), net())


def too_few_workers(profiler):
    train(profiler, DataLoader(Slow(seconds=0.003), 32, num_workers=1, prefetch_factor=2), net())


# --- calls that do little ------------------------------------------------------------------------------------------------


def loop_over_samples(profiler):
    model = net()

    class Each(nn.Module):
        def forward(self, inputs):
            return torch.stack([model(one) for one in inputs])

    each = Each()
    each.model = model
    train(profiler, ready(64), each)


def many_small_layers(profiler):
    train(profiler, ready(2), net(depth=120, width=64))


def python_between_operators(profiler):
    def slowly(outputs, labels):
        total = sum(number * number % 7 for number in range(400_000))
        return nn.functional.cross_entropy(outputs, labels) + 0 * total

    train(profiler, ready(), net(), slowly)


# --- values read one by one ----------------------------------------------------------------------------------------------


def loss_of_each_sample(profiler):
    def after(model, outputs):
        for row in outputs:
            if row.max().item() > 1e9:
                raise ValueError

    train(profiler, ready(256), net(), after=after)


def norms_of_gradients(profiler):
    seen = []

    def after(model, outputs):
        for parameter in model.parameters():
            seen.append(float(parameter.grad.norm()))

    train(profiler, ready(2), net(depth=60), after=after)


def table_of_answers(profiler):
    table = torch.zeros(10, 10, dtype=torch.long)

    def after(model, outputs):
        for answer in outputs.argmax(1):
            table[int(answer), 0] += 1

    train(profiler, ready(200), net(), after=after)


# --- communication -------------------------------------------------------------------------------------------------------


def reduced(model, outputs):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def all_reduce_after_backward(profiler):
    train(profiler, ready(4), nn.Sequential(nn.Linear(64, 60_000), nn.Linear(60_000, 10)), after=reduced)


def ddp_with_large_gradients(profiler):
    from torch.nn.parallel import DistributedDataParallel

    train(profiler, ready(1), DistributedDataParallel(nn.Sequential(nn.Linear(64, 60_000), nn.Linear(60_000, 10))))


def the_other_process_is_late(profiler):
    """What takes the time is a process that waits, for longer than any network takes for so few bytes."""
    def after(model, outputs):
        if dist.get_rank():
            time.sleep(0.05)
        reduced(model, outputs)

    train(profiler, ready(4), net(), after=after)


# --- work ----------------------------------------------------------------------------------------------------------------


def products(profiler):
    model = nn.Sequential(nn.Linear(64, 512), *(nn.Linear(512, 512) for _ in range(3)), nn.Linear(512, 10))
    train(profiler, ready(512), model)


def convolutions(profiler):
    model = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1),
                          nn.Flatten(), nn.Linear(64 * 64, 10))
    train(profiler, ready(256), model)


def attention_like(profiler):
    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.out = nn.Linear(64, 256), nn.Linear(256, 10)

        def forward(self, inputs):
            hidden = self.into(inputs)
            for _ in range(3):
                hidden = (hidden @ hidden.T) @ hidden / 1e3
            return self.out(hidden)

    train(profiler, ready(384), Products())


def elementwise(profiler):
    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.out = nn.Parameter(torch.ones(64)), nn.Linear(64, 10)

        def forward(self, inputs):
            hidden = inputs * self.scale
            for _ in range(4):
                hidden = torch.relu(hidden) + 1.0
            return self.out(hidden)

    train(profiler, ready(8000), Wide())


def norms(profiler):
    model = nn.Sequential(nn.Unflatten(1, (16, 4)), nn.BatchNorm1d(16), nn.BatchNorm1d(16), nn.BatchNorm1d(16), nn.Flatten(),
                          nn.Linear(64, 10))
    train(profiler, ready(4000), model)


def a_large_optimizer(profiler):
    """Few operations for each parameter, many parameters."""
    model = nn.Linear(64, 10)
    model.extra = nn.Parameter(torch.ones(3_000_000))
    optimizer = torch.optim.Adam([model.extra], lr=0.01)

    def after(model, outputs):
        model.extra.grad = torch.ones_like(model.extra)
        optimizer.step()

    train(profiler, ready(8), model, after=after)


def trace(program: str, folder: str, rank: int) -> None:
    """Four steps of it, in FOLDER/PROGRAM.json.gz."""
    def written(profiler):
        if rank == 0:
            profiler.export_chrome_trace(f"{folder}/{program}.json.gz")

    schedule = torch.profiler.schedule(wait=1, warmup=1, active=4, repeat=1)
    with torch.profiler.profile(schedule=schedule, record_shapes=True, on_trace_ready=written) as profiler:
        globals()[program](profiler)


def main(folder: str, *programs: str) -> None:
    torch.set_num_threads(1)
    rank = int(os.environ.get("RANK", "0"))
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    for program in programs:
        trace(program, folder, rank)
    if "RANK" in os.environ:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
    distributed.leave()
