"""What a device can do at most, measured: floating-point operations per second in each format, bytes per second of its memory.

    roof = roofs.measure("cuda")         a few seconds
    roof.peaks["bfloat16"], roof.memory

A peak is that of a large product of matrices, as the libraries compute it, not that of a data sheet: on an H200 the first is 790
TFLOP/s in bfloat16 and the second 990. Bandwidth is that of a copy, bytes read and bytes written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from ..system import cards
from ..system.errors import UsageError

FORMATS = {"float": "float32", "tf32": "TF32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}


@dataclass(frozen=True)
class Roof:
    """``peaks``: FLOP/s by format, as traces call it; ``memory``: bytes/s; ``start``: seconds that the smallest operator takes.

    ``rates``: by class of operator, what fraction of the peak its operators reach in training where arithmetic is their limit,
    and of the bandwidth where memory is. ``host``: seconds in which an eager program launches an operator.
    """

    name: str
    peaks: dict[str, float]
    memory: float
    start: float = 0.0
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    host: float = 0.0

    def peak(self, kind: str) -> float:
        """FLOP/s for numbers of this type; what has no peak of its own computes as float32 does."""
        return self.peaks.get(kind) or self.peaks["float"]

    def seconds(self, flops: float, moved: float, kind: str) -> float:
        """The least that so many operations and bytes take (Williams et al. 2009, DOI 10.1145/1498765.1498785)."""
        return max(flops / self.peak(kind), moved / self.memory)

    def expected(self, least: float, by_memory: bool, what: str) -> float:
        """Seconds of an operator of this class, of the least that it may take."""
        return max(least / self.rates.get(what, (1.0, 1.0))[by_memory], self.start)


# Measured on one H200 with torch 2.11: docs/results/peaks-1x-nvidia-h200.json. Rates and host are those of eager training steps
# of six networks in bfloat16 and channels-last, docs/results/models-1x-nvidia-h200.json: see docs/day3.md.
RATES = {"convolution": (0.68, 0.51), "grouped convolution": (0.19, 0.19), "matrix product": (0.91, 0.79),
         "attention": (0.32, 0.32), "norm": (0.25, 0.25), "pointwise": (0.75, 0.75), "pooling": (0.24, 0.24),
         "softmax and loss": (1.05, 1.05), "reduction": (0.42, 0.42),
         "indexing": (0.27, 0.27), "copy": (0.65, 0.65), "optimizer": (0.75, 0.75)}
H200 = Roof("NVIDIA H200", {"float": 50.86e12, "tf32": 396.2e12, "half": 754.8e12, "bfloat16": 783.8e12, "double": 60.12e12},
            4.198e12, 3e-6, RATES, 50e-6)


def of(name: str) -> Roof:
    """The roof of a card by its name, or a part of it: as measured; of others what its data sheet says, times the fraction that
    an H200 reaches of its own. Raises UsageError where it is not known."""
    found = cards.card(name)
    if found is None:
        known = ", ".join(" ".join(words) for words, _ in cards.CARDS)
        raise UsageError(f"there is no roofline for {name!r}. Known are {known}. Measure another one on its machine, with "
                         "dlojz.traces.roofs.measure()")
    if found is cards.card("H200"):
        return H200
    sheet = cards.card("H200")
    peaks = {kind: peak * H200.peaks[kind] / sheet.peak[kind] for kind, peak in found.peak.items()}
    # What does not reach an H200's bandwidth is limited by its cores: with the same cores it takes as long beside slower memory.
    faster = (sheet.memory / found.memory) * (found.peak["float"] / sheet.peak["float"])
    rates = {kind: (one, min(max(1.0, other), other * faster)) for kind, (one, other) in H200.rates.items()}
    return Roof(name, peaks, found.memory * H200.memory / sheet.memory, H200.start, rates, H200.host)


def timed(function: Callable, device: str, seconds: float = 0.2, least: int = 3) -> float:
    """Seconds of a call after a first one. On a CPU the least of several, since other programs use its cores, too; on a GPU the
    median of groups of calls, between two events, so that the host is ahead."""
    import torch

    if device == "cpu":
        function()
        found, begun = [], time.perf_counter()
        while len(found) < least or time.perf_counter() - begun < seconds:
            before = time.perf_counter()
            function()
            found.append(time.perf_counter() - before)
        return min(found)
    function()
    torch.cuda.synchronize()
    one = _group(function, 2)
    many = max(1, min(200, int(seconds / 5 / max(one, 1e-7))))
    return median(_group(function, many) for _ in range(5))


def _group(function: Callable, many: int) -> float:
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    function()  # not timed: the host launches the next ones meanwhile
    begin.record()
    for _ in range(many):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / many


def measure(device: str = "", seconds: float = 0.2, formats: tuple[str, ...] = ()) -> Roof:
    """The roof of this machine's GPU, or of its CPU with the cores that torch uses. ``formats``: keys of `FORMATS`; left out:
    those that this device multiplies in hardware."""
    import torch

    from ..system import hardware

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device == "cuda" else hardware.cpu_model()
    if not formats:
        formats = ("float", "tf32", "half", "bfloat16") if device == "cuda" else \
            ("float",) if hardware.bf16_is_emulated() else ("float", "bfloat16")
    peaks = {kind: peak(kind, device, seconds) for kind in formats}
    return Roof(name, peaks, bandwidth(device, seconds), timed(_smallest(device), device, seconds))


def peak(kind: str, device: str, seconds: float = 0.2) -> float:
    """FLOP/s of a product of square matrices, the largest of a few sizes."""
    import torch

    most, side = 0.0, 4096 if device == "cuda" else 256
    dtype = {"half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}.get(kind, torch.float32)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    try:
        while side <= (16384 if device == "cuda" else 4096):
            a, b = (torch.randn(side, side, dtype=dtype, device=device) for _ in range(2))
            took = timed(lambda a=a, b=b: a @ b, device, seconds / 2)
            most = max(most, 2 * side**3 / took)
            if took * 8 > seconds and side > 256:  # the next size takes eight times as long; one small size alone says little
                break
            side *= 2
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    return most


def bandwidth(device: str, seconds: float = 0.2) -> float:
    """Bytes/s, read and written, of a copy that fits into no cache."""
    import torch

    size = 2**28 if device == "cuda" else 2**24
    source = torch.ones(size, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / timed(lambda: target.copy_(source), device, seconds)


def _smallest(device: str) -> Callable:
    import torch

    one = torch.ones(1, device=device)
    return lambda: one.add_(1.0)
