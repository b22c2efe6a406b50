"""Small real trainings on a GPU with a planted cause, each traced: `python gpu_programs.py FOLDER PROGRAM…`.

A program that fails leaves its traceback in FOLDER/PROGRAM.txt in place of a trace, and the next one goes on. The Chronometer
times the same steps: FOLDER/PROGRAM.jsonl. With RANK and WORLD_SIZE set, the processes find each other through MASTER_ADDR and
MASTER_PORT; rank 0 is traced. Without a GPU the programs run on the CPU with tiny sizes: that proves no more than that they run.
"""

import os
import sys
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

from dlojz.training import distributed
from dlojz.training.chronometer import Chronometer
from dlojz.training.records import Writer

CUDA = torch.cuda.is_available()
STEPS, ACTIVE = 14, 5
HALF = torch.bfloat16


def device() -> torch.device:
    if not CUDA:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())


def size(number: int, least: int = 8) -> int:
    return number if CUDA else max(least, number // 256)


def on_device(*shape: int, dtype=torch.float32) -> torch.Tensor:
    return torch.rand(shape, device=device(), dtype=dtype)


class Slow(Dataset):
    """Items that take their time: asleep (a slow disk), or computing (decoding)."""

    def __init__(self, seconds: float = 0.0, work: int = 0):
        self.seconds, self.work = seconds, work

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if self.seconds:
            time.sleep(self.seconds)
        if self.work:
            torch.rand(self.work).sort()
        return torch.rand(64)


def loop(profiler, chronometer, batches, forward, backward=lambda loss: None, update=lambda: None):
    """The training loop: ``forward`` gets a batch on the device."""
    chronometer.start()
    for number, batch in enumerate(batches):
        chronometer.copy()
        batch = batch.to(device(), non_blocking=True)
        chronometer.forward()
        loss = forward(batch)
        chronometer.backward()
        backward(loss)
        chronometer.update()
        update()
        chronometer.next_iter()
        profiler.step()
        if number + 1 == STEPS:
            break
    chronometer.validation()


def ready(*shape: int, dtype=torch.float32):
    """Batches that are on the device already."""
    return [on_device(*shape, dtype=dtype)] * STEPS


def products(matrix, count: int, each=lambda result: None):
    """``count`` products one after the other."""
    result = matrix
    for _ in range(count):
        result = torch.mm(matrix, matrix)
        each(result)
    return result


def busy(*_):
    """About 5 ms of work on an H100."""
    products(matrix_for("busy", 4096), 20)


_matrices: dict = {}


def matrix_for(name: str, number: int, dtype=HALF) -> torch.Tensor:
    if name not in _matrices:
        _matrices.clear()
        _matrices[name] = on_device(size(number), size(number), dtype=dtype)
    return _matrices[name]


# --- fed too slowly ------------------------------------------------------------------------------------------------------


def slow_disk(profiler, chronometer):
    loop(profiler, chronometer, DataLoader(Slow(seconds=0.006), 8), busy)


def decoding_in_the_main_process(profiler, chronometer):
    loop(profiler, chronometer, DataLoader(Slow(work=100_000), 8), busy)


def too_few_workers(profiler, chronometer):
    loop(profiler, chronometer, DataLoader(Slow(seconds=0.008), 8, num_workers=1, prefetch_factor=2), busy)


def slow_copies(profiler, chronometer):
    """256 MB of pageable memory in each step."""
    loop(profiler, chronometer, [torch.ones(size(64_000_000))] * STEPS, busy)


# --- launches ------------------------------------------------------------------------------------------------------------


def tiny_kernels(profiler, chronometer):
    def forward(batch):
        for _ in range(400):
            batch.add_(1.0)

    loop(profiler, chronometer, ready(1000), forward)


def python_between_kernels(profiler, chronometer):
    matrix = on_device(size(1024), size(1024), dtype=HALF)
    loop(profiler, chronometer, ready(8), lambda batch: products(matrix, 60, lambda result: sum(range(10_000))))


def many_small_layers(profiler, chronometer):
    model = nn.Sequential(*(layer for _ in range(100) for layer in (nn.Linear(64, 64), nn.ReLU()))).to(device())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    loop(profiler, chronometer, ready(8, 64), lambda batch: model(batch).sum(), lambda loss: loss.backward(), optimizer.step)


# --- synchronisations ----------------------------------------------------------------------------------------------------


def item_in_each_layer(profiler, chronometer):
    matrix = on_device(size(2048), size(2048), dtype=HALF)
    loop(profiler, chronometer, ready(8), lambda batch: products(matrix, 60, lambda result: result[0, 0].item()))


def synchronize_in_each_layer(profiler, chronometer):
    matrix = on_device(size(2048), size(2048), dtype=HALF)
    wait = torch.cuda.synchronize if CUDA else lambda: None
    loop(profiler, chronometer, ready(8), lambda batch: products(matrix, 60, lambda result: wait()))


def activations_to_the_host(profiler, chronometer):
    matrix = on_device(size(2048), size(2048), dtype=HALF)
    loop(profiler, chronometer, ready(8), lambda batch: products(matrix, 20, lambda result: result.cpu()))


# --- communication: gloo works with one GPU, too -------------------------------------------------------------------------


def reduce_gradients(profiler, chronometer):
    gradients = [on_device(size(8_000_000)) for _ in range(4)]
    loop(profiler, chronometer, ready(8), busy, update=lambda: [dist.all_reduce(one) for one in gradients])


def ddp(profiler, chronometer):
    from torch.nn.parallel import DistributedDataParallel

    wide = size(16384)  # gradients of 0.5 GB: sent through NVLink they still take longer than their launches
    layers = nn.Sequential(nn.Linear(256, wide), nn.Linear(wide, wide // 2), nn.Linear(wide // 2, 10)).to(device())
    model = DistributedDataParallel(layers, device_ids=[device()] if CUDA else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loop(profiler, chronometer, ready(8, 256), lambda batch: model(batch).sum(), lambda loss: loss.backward(), optimizer.step)


def the_other_process_is_late(profiler, chronometer):
    gradient = on_device(1000)

    def update():
        if dist.get_rank():
            if CUDA:
                torch.cuda.synchronize()  # or it would fall asleep far ahead of its GPU, and the other's GPU not wait for it
            time.sleep(0.02)
        dist.all_reduce(gradient)

    loop(profiler, chronometer, ready(8), busy, update=update)


# --- memory bandwidth ----------------------------------------------------------------------------------------------------


def elementwise(profiler, chronometer):
    def forward(batch):
        for _ in range(10):
            batch = torch.relu(batch) + 1.0

    loop(profiler, chronometer, ready(size(64_000_000)), forward)


def norms(profiler, chronometer):
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.BatchNorm2d(64), nn.ReLU()))).to(device())
    loop(profiler, chronometer, ready(size(64, 2), 64, 112, 112), lambda batch: model(batch).sum(), lambda loss: loss.backward())


def a_large_optimizer(profiler, chronometer):
    model = nn.ParameterList([nn.Parameter(on_device(size(25_000_000))) for _ in range(4)])
    for parameter in model:
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.Adam(model, lr=0.01)
    loop(profiler, chronometer, ready(8), lambda batch: None, update=optimizer.step)


# --- arithmetic ----------------------------------------------------------------------------------------------------------


def products_in_half_precision(profiler, chronometer):
    matrix = on_device(size(8192), size(8192), dtype=HALF)
    loop(profiler, chronometer, ready(8), lambda batch: products(matrix, 10))


def products_in_float32(profiler, chronometer):
    matrix = on_device(size(4096), size(4096))
    loop(profiler, chronometer, ready(8), lambda batch: products(matrix, 6))


def convolutions(profiler, chronometer):
    channels = size(512, 4)
    model = nn.Sequential(*(nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(4)))
    model = model.to(device(), HALF, memory_format=torch.channels_last)
    batch = on_device(size(128, 2), channels, 28, 28, dtype=HALF).to(memory_format=torch.channels_last)
    loop(profiler, chronometer, [batch] * STEPS, lambda batch: model(batch).sum(), lambda loss: loss.backward())


def trace(program: str, folder: Path, rank: int) -> None:
    def written(profiler):
        if rank == 0:
            profiler.export_chrome_trace(str(folder / f"{program}.json.gz"))

    torch.backends.cuda.matmul.allow_tf32 = False
    record = Writer(folder / f"{program}.jsonl", errors_only=rank > 0)
    chronometer = Chronometer(record, device(), total_steps=STEPS, ranges=True)
    schedule = torch.profiler.schedule(wait=4, warmup=3, active=ACTIVE, repeat=1)
    with torch.profiler.profile(schedule=schedule, record_shapes=True, on_trace_ready=written) as profiler:
        globals()[program](profiler, chronometer)
    record.flush()


def main(folder: str, *programs: str) -> None:
    rank = int(os.environ.get("RANK", "0"))
    if CUDA:
        torch.cuda.set_device(device())
    if "RANK" in os.environ:
        dist.init_process_group(os.environ.get("BACKEND", "gloo"))
    for program in programs:
        try:
            trace(program, Path(folder), rank)
        except Exception:
            Path(folder, f"{program}.txt").write_text(traceback.format_exc())
            if "RANK" in os.environ:
                raise
        if CUDA:
            torch.cuda.empty_cache()
    if "RANK" in os.environ:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
    distributed.leave()
