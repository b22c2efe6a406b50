"""Figures for the notebook about the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from ...jobs.job import Job
from ...ui import charts, tables
from ...ui.charts import Bar
from ...ui.page import View, headline, quiet
from ...ui.palette import BLUE, GREEN, ORANGE, PINK, SKY
from ...ui.svg import Svg
from ...ui.words import gigabytes


@dataclass(frozen=True)
class Card:
    """An SXM module. Memory in GB, bandwidth in GB/s, caches in MB and KB, peaks in TFLOPS and without sparsity."""

    name: str
    year: int
    sms: int
    fp32_cores: int
    tensor_cores: int
    memory: int
    bandwidth: int
    l2: int
    l1: int
    registers: int
    pcie: int
    fp32: float
    tf32: float | None
    fp16: float
    bf16: float | None
    fp8: float | None


# The year is that of the announcement. NVIDIA's whitepapers on the architectures Volta (2017), Ampere (2020) and Hopper (2022),
# the data sheets of the A100 80 GB, the H200 and Blackwell (HGX B200: 180 GB, 7.7 TB/s, 75 TFLOPS in FP32, at 1.98 GHz; the
# brief of 2024 had announced 8 TB/s and 80). TF32 is half of FP16; the data sheet rounds it (2.2 PFLOPS with sparsity).
# NVIDIA counts neither the B200's multiprocessors nor their caches: measured by Chips and Cheese ("Nvidia's B200", 2025).
CARDS = (
    Card("V100", 2017, 80, 5120, 640, 32, 900, 6, 128, 256, 16, 15.7, None, 125, None, None),
    Card("A100", 2020, 108, 6912, 432, 80, 2039, 40, 192, 256, 32, 19.5, 156, 312, 312, None),
    Card("H100", 2022, 132, 16896, 528, 80, 3352, 50, 256, 256, 64, 66.9, 494.7, 989.4, 989.4, 1978.9),
    Card("H200", 2023, 132, 16896, 528, 141, 4800, 50, 256, 256, 64, 66.9, 494.7, 989.4, 989.4, 1978.9),
    Card("B200", 2024, 148, 18944, 592, 180, 7700, 126, 256, 256, 64, 75, 1125, 2250, 2250, 4500),
)
H100 = CARDS[2]


def cards() -> View:
    """Four generations side by side."""
    rows = [
        ("streaming multiprocessors", "SM", "sms"),
        ("FP32 cores", "", "fp32_cores"),
        ("tensor cores", "", "tensor_cores"),
        ("memory", "GB", "memory"),
        ("its bandwidth", "GB/s", "bandwidth"),
        ("L2 cache", "MB", "l2"),
        ("L1 and shared memory of an SM", "KB", "l1"),
        ("FP32, on the FP32 cores", "TFLOPS", "fp32"),
        ("TF32, on tensor cores", "TFLOPS", "tf32"),
        ("FP16, on tensor cores", "TFLOPS", "fp16"),
        ("BF16, on tensor cores", "TFLOPS", "bf16"),
        ("FP8, on tensor cores", "TFLOPS", "fp8"),
    ]
    values = [(name, unit, [getattr(card, key) for card in CARDS]) for name, unit, key in rows]
    notes = [
        "SXM modules; peaks are dense, without the factor of 2 that structured sparsity would give.",
        "Sources: NVIDIA's whitepapers on the architectures Volta, Ampere and Hopper, data sheets of the A100 80 GB, H200 and "
        "HGX B200.",
    ]
    return tables.bars("Five GPUs of clusters", ["", *(f"{card.name} ({card.year})" for card in CARDS)], values, BLUE, notes)


def levels(card: Card = H100) -> View:
    """The memories between a file and a multiplication: the nearer, the faster."""
    pcie, hbm = card.memory / card.pcie, card.memory / card.bandwidth * 1000  # seconds to fill it, milliseconds to read it
    registers, l1 = card.sms * card.registers / 1024, card.sms * card.l1 / 1024
    rows = [
        Bar("registers", registers, BLUE, f"{card.sms} x {card.registers} KB: each thread's own numbers"),
        Bar("L1 and shared memory", l1, SKY, f"{card.sms} x {card.l1} KB: shared by the threads of one SM"),
        Bar("L2 cache", card.l2, GREEN, "shared by all SMs"),
        Bar("GPU memory (HBM)", card.memory * 1000, ORANGE, f"read at {card.bandwidth:,} GB/s"),
        Bar("host memory", None, PINK, f"over PCIe at {card.pcie} GB/s each way"),
    ]
    chart = charts.bars(rows, log=True, high=34, say=size)
    said = f"Reading all of the GPU's memory once takes {hbm:.0f} ms, filling it over PCIe {pcie:.1f} s."
    text = f"Memory levels of the {card.name}\n{chart.text()}\n{said}"
    head = headline(f"The way to a multiplication, on an {card.name}", "from top to bottom farther from the cores, and slower")
    note = quiet("Lengths: the size, on a logarithmic scale. Host memory has no bar: its size depends on the machine.")
    return View("memory levels", text, lambda: head + chart.html() + quiet(said) + note)


def size(megabytes: float | None) -> str:
    return "of any size" if megabytes is None else f"{megabytes / 1000:.0f} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"


def threads(card: Card = H100) -> View:
    """How one operation on a large tensor is spread over the chip."""
    per_sm, tensor = card.fp32_cores // card.sms, card.tensor_cores // card.sms
    svg = Svg(900, 232, "a tensor's elements, blocks of threads, multiprocessors")
    colours = (BLUE, GREEN, ORANGE, PINK)
    svg.text(2, 16, "y = relu(x): one thread an element", weight=600)
    for i in range(48):
        svg.rect(2 + i * 18.6, 26, 16.6, 16, colours[i // 12], opacity=0.8)
    for block in range(4):
        x = 2 + block * 223.2
        svg.text(x + 108, 62, f"block {block}: 256 threads = 8 warps of 32", anchor="middle", size=11.5)
        svg.path(f"M{x + 108} 70v22m-5 -6l5 6l5 -6", "currentColor", width=1.4, opacity=0.7)
        svg.rect(x, 98, 216, 92, colours[block], opacity=0.14, radius=6, stroke=colours[block])
        svg.text(x + 108, 115, f"an SM: {per_sm} FP32, {tensor} tensor cores", anchor="middle", size=11.5)
        for core in range(per_sm):
            svg.rect(x + 10 + core % 32 * 6.1, 124 + core // 32 * 8, 4.6, 6, colours[block], opacity=0.75)
        for core in range(tensor):
            svg.rect(
                x + 10 + core % 4 * 49, 160 + core // 4 * 12, 43, 22 if tensor <= 4 else 10, colours[block], opacity=0.4, radius=2
            )
    whole = f"A block stays on its SM. There are {card.sms} SMs; blocks that find none free wait for their turn."
    warp = "The 32 threads of a warp do the same instruction at the same time. While one warp waits for memory, another computes."
    svg.text(2, 211, whole, opacity=0.85)
    svg.text(2, 228, warp, opacity=0.85)
    text = f"y = relu(x): one thread an element; blocks of 256 threads = 8 warps of 32 go to {card.sms} SMs. {whole} {warp}"
    return View("threads", text, headline(f"One operation on an {card.name}") + str(svg))


def memory(*jobs: Job) -> View:
    """What each run's memory was made of, as counted beforehand, and what the run measured."""
    from ...training import memory_plan  # here: it imports torch

    rows, images, what, on_gpu = [], [], "", True
    for job in jobs:
        record = job.record
        if not record.start:
            continue
        start, end, args = record.start, record.end or {}, record.start["args"]
        what = f"{start['model']}, {start['image_size']} px, {start['batch_size']} images per step"
        amp = "off" if any(event["lab"] == "amp" for event in record.todos) else args["amp"]
        counted = memory_plan.held(f"train.py --model {start['model']} --image-size {start['image_size']} "
                                   f"-b {start['batch_size']} --amp {amp} --optimizer {args['optimizer']}")
        rows.append((f"{job.name}, counted", [*counted.items()]))
        images.append(f"{counted['activations'] / start['batch_size'] / 1e6:.3g} MB of activations an image in {job.name}")
        on_gpu = start["machine"]["device"] == "cuda"
        if measured := end.get("memory_allocated" if on_gpu else "host_memory"):
            rows.append((f"{job.name}, measured", [("measured", measured)]))
    notes = [f"Counted: {each}." for each in dict.fromkeys(images)]
    notes.append("What kernels borrow while they work comes on top: workspaces, gradients of activations.")
    if not on_gpu:
        notes.append("Without a GPU the measurement is that of the whole process: Python, torch and its libraries are in it.")
    if not rows:
        return View("memory", "no run has recorded anything yet", quiet("No run has recorded anything yet."))
    return tables.stacked(f"Memory of a training step: {what}", rows, gigabytes, notes)
