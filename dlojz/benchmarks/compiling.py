"""What torch.compile brings and what it costs, kept in docs/results/ beside the page that quotes it (docs/day3.md).

    python -m dlojz.benchmarks.compiling chain graphs decode ladder blocks     on one GPU: five minutes in all
    python -m dlojz.benchmarks.compiling chain --device cpu --tiny             to try it without one
    python -m dlojz.benchmarks.compiling --page                                the tables of docs/day3.md anew, from what is kept

Parts: ``chain`` (pointwise operations in one kernel, with its code), ``graphs`` (CUDA graphs where launches are what takes time),
``decode`` (a language model: prompts of any length, then one token at a time), ``ladder`` (resnet50: the first step and the
following ones; whole, block by block, with CUDA graphs, with a warm cache), ``blocks`` (block by block or whole: resnet50, and a
ViT, whose blocks are all the same). Each row is kept as soon as it is measured, and none is begun once ``--seconds`` of the part
are over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from ..system import machine, suggest
from ..training import activation_checkpointing
from .day2 import RESULTS, keep

PAGE = RESULTS.parent / "day3.md"
MODES = {"compiled": "default", "compiled, CUDA graphs": "reduce-overhead"}  # never max-autotune: its search takes minutes
CALL = re.compile(r"^\s+((?:triton|cpp)_\w+)(?:\.run)?\(|^\s+extern_kernels\.(\w+)\(", re.MULTILINE)
MARK = re.compile(r"(?s)(<!-- compile: (\w+) -->\n).*?(<!-- end of compile -->)")
KERNEL = re.compile(r"@triton\.jit\n(.*?)\n'''", re.DOTALL)


class Part:
    """What is measured with: the device, small sizes or real ones; ``rows`` is what was found, and each new one is kept."""

    def __init__(self, name: str, device: torch.device, tiny: bool, seconds: float, out: Path):
        self.name, self.device, self.tiny, self.out = name, device, tiny, out
        self.rows: list[dict] = []
        self.told: dict = {}
        self.end = time.monotonic() + seconds

    def size(self, real: int, tiny: int) -> int:
        return tiny if self.tiny else real

    def tell(self, **told) -> None:
        """What holds for all rows of the part."""
        self.told |= told

    def row(self, name: str, measure: Callable[[], dict]) -> None:
        """Measures and keeps a row. A failure is kept as such; nothing that comes later is lost."""
        if time.monotonic() > self.end:
            print(f"{self.name}: no time left for {name}", file=sys.stderr)
            return
        begun = time.monotonic()
        try:
            found = measure()
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"}
        self.rows.append({"name": name} | found | {"took_s": time.monotonic() - begun})
        print(f"{self.name:<8}{name:<34}" + ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in found.items()
            if not isinstance(value, str) or key == "error"), flush=True)
        self.keep()

    def keep(self) -> Path:
        here = machine.describe(self.device)
        hardware = {key: value for key, value in here["machine"].items() if key not in ("host", "gpu_uuid")}
        return keep({"suite": f"compile_{self.name}", "date": time.strftime("%Y-%m-%d"), **self.told, "processes": 1,
                     "machine": hardware, "versions": here["versions"] | _triton(), "rows": self.rows}, self.out)

    # ------------------------------------------------------------------------------------------------------------ timing
    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def first(self, function: Callable) -> float:
        """Seconds of one call."""
        self.wait()
        begun = time.perf_counter()
        function()
        self.wait()
        return time.perf_counter() - begun

    def steady(self, function: Callable, seconds: float = 0.5, most: int = 200) -> float:
        """Seconds per call: the median of five rounds of as many calls as take about ``seconds`` in all, after one round more."""
        once = self.first(function)
        calls = max(1, min(most, int(seconds / 5 / max(once, 1e-6))))

        def calling():
            for _ in range(calls):
                function()

        return statistics.median([self.first(calling) for _ in range(6)][1:]) / calls


def _triton() -> dict:
    with contextlib.suppress(ImportError):
        import triton

        return {"triton": triton.__version__}
    return {}


@contextlib.contextmanager
def cold() -> Iterator[None]:
    """An empty cache of compiled code, in memory and on the disk, for what is compiled inside."""
    from torch._inductor import utils

    torch.compiler.reset()
    with (utils.fresh_cache if hasattr(utils, "fresh_cache") else utils.fresh_inductor_cache)():  # its name before torch 2.9
        yield
    torch.compiler.reset()


# --------------------------------------------------------------------------------------------------------------- the chain
def chain_of(x, scale, shift):
    """Five pointwise operations; eager each reads and writes what it is given: 11 passes over N numbers, where two would do."""
    y = x * scale
    y = y + shift
    z = y * 1.702
    z = torch.sigmoid(z)
    return y * z


PASSES = {"eager": 11, "compiled": 2}  # of chain_of over memory: reads and writes of N numbers


def epilogue_of(x, weight, bias, rest):
    """A matrix product, and what usually follows it: a bias, GELU and a residual."""
    return F.gelu(x @ weight + bias) + rest


def chain(part: Part) -> None:
    from torch._inductor.utils import run_and_get_code

    device, half = part.device, torch.bfloat16
    count = part.size(2**26, 2**16)
    x = torch.randn(count, device=device, dtype=half)
    scale, shift = (torch.randn((), device=device, dtype=half) for _ in range(2))
    right = chain_of(x[: 2**20].double(), scale.double(), shift.double())
    part.tell(numbers=count, bytes_per_number=2)

    def error(function):
        return ((function(x[: 2**20], scale, shift).double() - right).abs() / right.abs().clamp(min=1e-3)).mean().item()

    def copied():
        there = torch.empty_like(x)
        seconds = part.steady(lambda: there.copy_(x))
        return {"ms": seconds * 1e3, "gigabytes": 2 * count * 2 / 1e9, "gb_per_s": 2 * count * 2 / seconds / 1e9}

    def timed(function, name):
        seconds, moved = part.steady(lambda: function(x, scale, shift)), PASSES[name] * 2 * count
        return {"ms": seconds * 1e3, "gigabytes": moved / 1e9, "gb_per_s": moved / seconds / 1e9,
                "mean_relative_error": error(function)}

    def compiled():
        function = torch.compile(chain_of, dynamic=False)
        codes = []
        first = part.first(lambda: codes.extend(run_and_get_code(function, x, scale, shift)[1]))
        return timed(function, "compiled") | {"first_s": first, "kernels": _kernels(codes), "source": _source(codes)}

    part.row("one copy", copied)
    part.row("eager", lambda: timed(chain_of, "eager"))
    with cold():
        part.row("compiled", compiled)

    rows, inside, outside = part.size(8192, 64), part.size(4096, 64), part.size(4096, 128)
    shapes = (rows, inside), (inside, outside), (outside,), (rows, outside)
    given = [torch.randn(*shape, device=device, dtype=half) / inside**0.25 for shape in shapes]
    part.tell(product=[rows, inside, outside])

    def product(function):
        return {"ms": part.steady(lambda: function(*given)) * 1e3}

    def fused():
        function = torch.compile(epilogue_of, dynamic=False)
        _, codes = run_and_get_code(function, *given)
        return product(function) | {"kernels": _kernels(codes), "source": _source(codes)}

    part.row("the product alone", lambda: product(lambda x, weight, *_: x @ weight))
    part.row("product and epilogue, eager", lambda: product(epilogue_of))
    part.row("product and epilogue, compiled", fused)


def _kernels(codes: list[str]) -> list[str]:
    """What the generated wrapper calls, in its order: Triton or C++ kernels, and those of libraries."""
    return [ours or library for ours, library in CALL.findall("\n".join(codes))]


def _source(codes: list[str]) -> str:
    """The first Triton kernel without what surrounds it; nothing where the code is C++."""
    found = KERNEL.search("\n".join(codes))
    return found[1] if found else ""


# ------------------------------------------------------------------------------------------------------------- CUDA graphs
def graphs(part: Part) -> None:
    """A training step of a small network: its kernels are so short that starting them takes most of the time."""
    width, batch, layers = part.size(256, 32), 64, 8
    part.tell(layers=layers, width=width, batch=batch)
    x = torch.randn(batch, width, device=part.device)

    def step(net):
        def call():
            net(x).square().mean().backward()
            for parameter in net.parameters():
                parameter.grad = None
        return call

    def network():
        torch.manual_seed(0)
        return nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.GELU()))).to(part.device)

    part.row("eager", lambda: {"ms": part.steady(step(network())) * 1e3})
    for name, mode in MODES.items():
        def timed(mode=mode):
            torch.compiler.reset()
            call = step(torch.compile(network(), mode=mode))
            first = part.first(call)
            for _ in range(3):  # CUDA graphs warm up, then record
                call()
            return {"ms": part.steady(call) * 1e3, "first_s": first}

        part.row(name, timed)


# ------------------------------------------------------------------------------------------------------ prefill and decode
class Attention(nn.Module):
    def __init__(self, width: int, heads: int, longest: int):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, longest, width // heads), persistent=False)

    def forward(self, x, at, mask):
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        self.keys[:, :, at], self.values[:, :, at] = k, v  # a cache of one size: written in place, masked where nothing is yet
        y = F.scaled_dot_product_attention(q, self.keys, self.values, mask)
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, longest: int):
        super().__init__()
        self.first, self.attention, self.second = nn.LayerNorm(width), Attention(width, heads, longest), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, at, mask):
        x = x + self.attention(self.first(x), at, mask)
        return x + self.mlp(self.second(x))


class Language(nn.Module):
    """A decoder with random weights: only its speed counts."""

    def __init__(self, words: int, width: int, heads: int, layers: int, longest: int):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(Layer(width, heads, longest) for _ in range(layers))
        self.register_buffer("mask", torch.ones(longest, longest, dtype=torch.bool).tril(), persistent=False)

    def forward(self, tokens, at):
        """``tokens``: (1, T), at the places ``at`` (T). Returns logits (1, words) of what follows."""
        x, mask = self.words(tokens) + self.places(at), self.mask[at]
        for layer in self.layers:
            x = layer(x, at, mask)
        return x[:, -1] @ self.words.weight.T


@torch.no_grad()
def decode(part: Part) -> None:
    device = part.device
    longest, words = part.size(1024, 64), part.size(32000, 100)
    lengths = [part.size(*each) for each in ((1000, 9), (300, 13), (770, 17))]
    torch.manual_seed(0)
    net = Language(words, part.size(1024, 32), part.size(16, 2), part.size(4, 2), longest).to(device, torch.bfloat16).eval()
    part.tell(parameters=sum(p.numel() for p in net.parameters()), longest=longest, prompts=lengths)
    prompts = [(torch.randint(words, (1, length), device=device), torch.arange(length, device=device)) for length in lengths]
    place = torch.tensor([longest // 2], device=device)
    token = torch.zeros(1, 1, dtype=torch.int64, device=device)

    def prefill(call):
        return {"first_s": [part.first(lambda p=p: call(*p)) for p in prompts],
                "ms": statistics.mean(part.steady(lambda p=p: call(*p), 0.2) for p in prompts) * 1e3}

    def one_by_one(call):
        first = part.first(lambda: call(token, place))
        for _ in range(3):
            call(token, place)
        seconds = part.steady(lambda: call(token, place))
        return {"first_s": [first], "ms": seconds * 1e3, "tokens_per_second": 1 / seconds}

    def compiled(measure, **how):
        torch.compiler.reset()
        return measure(torch.compile(net, **how))

    part.row("decode, eager", lambda: one_by_one(net))
    part.row("decode, compiled", lambda: compiled(one_by_one))
    part.row("decode, compiled, CUDA graphs", lambda: compiled(one_by_one, mode="reduce-overhead"))
    part.row("prefill, eager", lambda: prefill(net))
    part.row("prefill, compiled, dynamic", lambda: compiled(prefill, dynamic=True))
    part.row("prefill, compiled, static", lambda: compiled(prefill, dynamic=False))


# ------------------------------------------------------------------------------------------------------------- the ladder
def whole(mode="default"):
    return lambda net: torch.compile(net, mode=mode)


def by_blocks(**options):
    """Each block by itself. By default the second kind of block makes torch compile for any size."""
    def compiled(net):
        for block in activation_checkpointing.blocks(net):
            block.compile(**options)
        return net

    return compiled


class Trained:
    """Trains a model as train.py does with `--tf32 --amp bf16 --channels-last --fused --data random`."""

    def __init__(self, part: Part, model: str, batch: int):
        self.part, self.model, self.batch = part, "resnet18" if part.tiny else model, part.size(batch, 4)
        self.pixels, self.steps = part.size(224, 32), part.size(30, 3)
        device = part.device
        if device.type == "cuda":
            torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        self.images = torch.rand(self.batch, 3, self.pixels, self.pixels, device=device).to(memory_format=torch.channels_last)
        self.labels = torch.randint(1000, (self.batch,), device=device)
        part.tell(image_size=self.pixels, steps=self.steps)

    def __call__(self, compiled: Callable) -> dict:
        part, cuda = self.part, self.part.device.type == "cuda"
        torch.manual_seed(1)
        net = torchvision.models.get_model(self.model, num_classes=1000).to(part.device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, fused=True)
        model = compiled(net)
        losses = []

        def step():
            with torch.autocast(part.device.type, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(self.images), self.labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach().clone())

        if cuda:
            torch.cuda.reset_peak_memory_stats()
        first = part.first(step)
        second = part.first(step)  # CUDA graphs warm up and record in the first three
        for _ in range(part.size(8, 2)):
            step()
        seconds = part.first(lambda: [step() for _ in range(self.steps)]) / self.steps
        last = len(losses) - 1
        return {"model": self.model, "batch_size": self.batch, "images_per_second": self.batch / seconds,
                "step_ms": seconds * 1e3, "first_step_s": first, "second_step_s": second,
                "kernels_ms": _busy(step) if cuda else None,
                "memory_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else None,
                "losses": [float(f"{losses[n].item():.5g}") for n in (0, 1, 4, last)]}


def _busy(step: Callable, steps: int = 3) -> float:
    """Milliseconds per step in which the GPU computes: where a step takes longer, it waits for its host."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
    return sum(event.self_device_time_total for event in profile.key_averages()) / 1e3 / steps


def ladder(part: Part) -> None:
    trained = Trained(part, "resnet50", 256)
    part.tell(model=trained.model, batch_size=trained.batch)
    part.row("eager", lambda: trained(lambda net: net))
    with cold():
        part.row("compiled", lambda: trained(whole()))
        torch.compiler.reset()
        part.row("compiled, warm cache", lambda: trained(whole()))
        torch.compiler.reset()
        part.row("compiled, CUDA graphs", lambda: trained(whole("reduce-overhead")))  # some of its kernels are in the cache
    with cold():
        part.row("block by block", lambda: trained(by_blocks()))


def blocks(part: Part) -> None:
    """A model with 16 blocks of 8 kinds, and one whose 12 blocks are all the same."""
    kinds = Trained(part, "resnet50", 256)
    with cold():
        part.row("resnet50, block by block, dynamic=False", lambda: kinds(by_blocks(dynamic=False)))
    same = Trained(part, "vit_b_16", 64)
    with cold():
        part.row("vit_b_16, block by block", lambda: same(by_blocks(dynamic=False)))
    with cold():
        part.row("vit_b_16, whole", lambda: same(whole()))
    part.row("vit_b_16, eager", lambda: same(lambda net: net))


# --------------------------------------------------------------------------------------------------------------- the page
SPEED = {"images/s": "{images_per_second:,.0f}", "ms per step": "{step_ms:.1f}", "first step, s": "{first_step_s:.1f}",
         "peak GB": "{memory_gb:.1f}"}
COLUMNS = {  # part -> heading -> what is in the column
    "chain": {"ms": "{ms:.3f}", "GB moved": "{gigabytes:.2f}", "GB/s": "{gb_per_s:,.0f}",
              "mean relative error": "{mean_relative_error:.2%}"},
    "ladder": SPEED | {"loss, step 1": "{losses[0]}", "loss, step 5": "{losses[2]}"},
    "blocks": SPEED | {"kernels, ms": "{kernels_ms:.1f}"},
    "decode": {"ms": "{ms:.2f}", "first calls, s": "{firsts}"},
    "graphs": {"ms per step": "{ms:.3f}", "first step, s": "{first_s:.1f}"},
}


def page(text: str, folder: Path) -> str:
    """The page with its tables made anew: between ``<!-- compile: PART -->`` and its end, one for each kept file."""
    def tables(match: re.Match) -> str:
        files = sorted(folder.glob(f"compile_{match[2]}-*.json"))
        made = [table(match[2], json.loads(file.read_text(encoding="utf-8"))) for file in files]
        return match[1] + "\n".join(made or ["Not measured yet.\n"]) + match[3]

    return MARK.sub(tables, text)


def table(part: str, found: dict) -> str:
    """A kept result as Markdown, with the machine above it."""
    hardware, versions = found["machine"], found["versions"]
    device = hardware.get("gpu") or hardware.get("cpu")
    lines = [f"{device}, {hardware.get('cores_allowed')} cores, torch {versions.get('torch')}, {found['date']}.", "",
             f"| | {' | '.join(COLUMNS[part])} |", f"| --- |{' ---: |' * len(COLUMNS[part])}"]
    for row in found["rows"]:
        firsts = ", ".join(f"{first:.1f}" for first in row.get("first_s", [])) if part == "decode" else ""
        cells = [_cell(how, row | {"firsts": firsts}) for how in COLUMNS[part].values()]
        lines.append(f"| {row['name']} | {row.get('error') or ' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(how: str, row: dict) -> str:
    try:
        return how.format(**row)
    except (KeyError, TypeError):  # not measured in this row
        return ""


PARTS = {"chain": chain, "graphs": graphs, "decode": decode, "ladder": ladder, "blocks": blocks}


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.compiling", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="small sizes: to see that it runs")
    parser.add_argument("--seconds", type=float, default=120, help="for a part; a row that has begun is measured (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep what was measured (%(default)s)")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day3.md again, and measure nothing")
    args = parser.parse_args(argv)
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    if not args.parts:
        parser.error(f"name a part: {', '.join(PARTS)}")
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: {suggest.hint(unknown[0], PARTS)}Expected are {', '.join(PARTS)}")
    failed = 0
    for name in args.parts:
        part = Part(name, torch.device(args.device), args.tiny, args.seconds, args.out)
        PARTS[name](part)
        failed += sum("error" in row for row in part.rows)
        print(f"kept in {part.keep()}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
