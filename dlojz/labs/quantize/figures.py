"""Figures for the notebook about quantization: the trainee's functions on a weight, a small network in each format, times of this
machine, and what was recorded on one H200."""

from __future__ import annotations

import copy
import functools
import importlib.util
import time

from ...system import machine, paths, workspace
from ...ui import charts, words
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREY, ORANGE, VERMILLION
from .. import catalogue

# Measured on one H200 with torch 2.11: docs/results/quantize_{int8,fp8,sparse,folding}-1x-nvidia-h200.json. µs of one row times a
# weight of 8192 x 8192, four weights in turn in a CUDA graph; "limit": 67 MB at the bandwidth of a copy, 4.2 TB/s
ONE_ROW = (("bf16", 33.8), ("int8, dequantized", 370.1), ("int8, dequantized, compiled", 89.7),
           ("int8, scale after the product", 211.4), ("int8, a kernel that reads int8", 22.6), ("bandwidth limit of int8", 16.0))
# side: µs of a product of squares in bf16; in E4M3; in E4M3 with x scaled each time
FP8 = {1024: (16.9, 24.4, 167.7), 2048: (25.1, 35.1, 235.2), 4096: (187.8, 118.9, 419.1), 8192: (1517, 857, 1912),
       16384: (13270, 6941, 10580)}
# side: µs of a bf16 product: dense; 2:4 by its kernel alone; the same as called; what the host spends on a call
SPARSE = {4096: (169.6, 137.9, 464.9, 436.8), 8192: (1481, 1049, 1122, 454.6)}
# images: ms of ResNet-50 in bf16, channels-last, as trained and folded, called from Python; the same in a CUDA graph
FOLDED = {1: (5.84, 4.23, 0.884, 0.604), 32: (5.51, 3.25, 2.47, 2.53), 256: (16.67, 19.44, 16.35, 18.98)}
CONTEXT, STEPS, BATCH = 8, 300, 128  # of the small network: bytes that it sees, steps of its training, rows of a batch


def finished():
    """The kit's own quantize.py."""
    return paths.module(catalogue.reference("quantize.py"))


def _view(title: str, head: list[str], rows: list[list[str]], note: str = "", chart=None, aside: str = "") -> View:
    said = [title, *([chart.text()] if chart else []), table(head, rows), *([note] if note else [])]
    return View(title, "\n".join(said), lambda: headline(title, aside) + (chart.html() if chart else "") + table_html(head, rows)
                + (quiet(note) if note else ""))


# --------------------------------------------------------------------------------------------------------------- errors
def yours() -> View:
    """What your `absmax` loses of a weight, by how many numbers share a scale. One of its 64 channels is 20 times as large."""
    import torch

    mine, kit = paths.module(workspace.find() / "quantize.py"), finished()
    weight = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    weight[7] *= 20
    rest = torch.arange(64) != 7
    rows = []
    for bits in (8, 4):
        for group, name in (("tensor", "the tensor"), ("channel", "a channel"), (32, "32 numbers")):
            q, scale = mine.absmax(weight, group, bits)
            lost = (kit.dequantize(q, scale) - weight)[rest].norm() / weight[rest].norm()
            rows.append([str(bits), name, str(scale.numel()), f"{bits / 8 + 4 * scale.numel() / weight.numel():.3f}",
                         f"{lost:.1%}"])
    return _view("Your absmax", ["bits", "a scale for", "scales", "bytes per number", "lost of the other 63 channels"], rows,
                 "From your quantize.py; 100 % lost where nothing is written yet. Scales are float32. float32 has 4 bytes per "
                 "number, bf16 has 2.")


@functools.lru_cache(maxsize=1)
def _text():
    """The kit's own program text, as numbers from 0 to 127."""
    import torch

    found = b"".join(file.read_bytes() for file in sorted((paths.PACKAGE / "training").glob("*.py")))
    return torch.frombuffer(bytearray(found), dtype=torch.uint8).long().clamp(max=127)


def _rows(count: int, generator, tested: bool = False):
    """Windows of the text and what follows each; the last tenth of the text is for tests."""
    import torch

    text = _text()
    cut = len(text) * 9 // 10
    first, last = (cut, len(text)) if tested else (0, cut)
    at = torch.randint(first, last - CONTEXT - 1, (count,), generator=generator)
    windows = text[at[:, None] + torch.arange(CONTEXT + 1)]
    return windows[:, :CONTEXT], windows[:, CONTEXT]


def _train(net, steps: int, rate: float, seed: int, after=lambda: None) -> None:
    import torch

    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    for _ in range(steps):
        inputs, labels = _rows(BATCH, draw)
        loss = torch.nn.functional.cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        after()


@functools.lru_cache(maxsize=1)
def trained():
    """A network that predicts the next byte of Python text, trained for a second or so."""
    import torch

    with torch.random.fork_rng(devices=[]), machine.one_thread():
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Embedding(128, 16), torch.nn.Flatten(), torch.nn.Linear(16 * CONTEXT, 128),
                                  torch.nn.ReLU(), torch.nn.Linear(128, 128))
        _train(net, STEPS, 5e-3, 1)
    return net


def network() -> View:
    """Test loss of a small network whose weights lose bits, or every second number, and what more training brings back."""
    import torch

    kit, rows = finished(), []

    def linears(net):
        return [layer for layer in net if isinstance(layer, torch.nn.Linear)]

    def changed(how):
        net = copy.deepcopy(trained())
        for layer in linears(net):
            layer.weight.data = how(layer.weight.data)
        return net

    def add(name: str, size: str, net) -> None:
        inputs, labels = _rows(8192, torch.Generator().manual_seed(2), tested=True)
        with torch.no_grad(), machine.one_thread():
            outputs = net(inputs)
            loss = torch.nn.functional.cross_entropy(outputs, labels).item()
        rows.append([name, size, f"{loss:.3f}", words.share((outputs.argmax(1) == labels).float().mean().item())])

    add("float32, as trained", "4", trained())
    for bits in (8, 4, 3):
        for group, name in (("tensor", "tensor"), ("channel", "channel"), (32, "32 numbers")):
            net = changed(lambda w, g=group, b=bits: kit.dequantize(*kit.absmax(w, g, b)))
            add(f"{bits} bits, a scale per {name}", f"{bits / 8:g}", net)
    for name, kind in (("E4M3", kit.E4M3), ("E5M2", kit.E5M2)):
        add(f"FP8 {name}", "1", changed(lambda w, k=kind: (lambda q, scale: q.float() * scale)(*kit.to_fp8(w, k))))
    pruned = changed(kit.prune_2_4)
    add("2:4", "2.25", pruned)
    kept = [(layer, layer.weight != 0) for layer in linears(pruned)]

    def again() -> None:
        with torch.no_grad():
            for layer, mask in kept:
                layer.weight.mul_(mask)

    with machine.one_thread():
        _train(pruned, STEPS // 2, 2e-3, 3, again)
    add("2:4, trained on with the same zeros", "2.25", pruned)
    head = ["weights", "bytes per weight", "test loss", "right"]
    return _view("A small network with fewer bits, and with fewer weights", head, rows,
                 f"{CONTEXT} bytes of Python text, the next one predicted: 33,000 weights, {STEPS} steps, now on this machine. "
                 "Bytes without scales; 2:4 stores half of the numbers, in float32, and 2 bits for the place of each. "
                 "Two networks that differ by less than 0.01 are equally good.")


# ---------------------------------------------------------------------------------------------------------------- times
def _timed(function, device: str, least: int = 5) -> float:
    """The least of several: what else runs on this machine makes others longer."""
    import torch

    best = float("inf")
    for _ in range(least + 1):
        if device == "cuda":
            torch.cuda.synchronize()
        begun = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begun)
    return best


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def one_row() -> View:
    """One row times a large weight on this machine, in ways that read float or int8."""
    import torch

    kit, device = finished(), _device()
    side, dtype, name = (8192, torch.bfloat16, "bf16") if device == "cuda" else (2048, torch.float32, "float32")
    draw = torch.Generator().manual_seed(0)
    plain = torch.randn(side, side, generator=draw).to(device, dtype)
    x = torch.randn(1, side, generator=draw).to(device, dtype)
    q, scale = kit.absmax(plain, "channel")
    ways = {name: lambda: x @ plain.t(), "int8, dequantized": lambda: x @ (q.to(dtype) * scale.to(dtype)).t(),
            "int8, scale after the product": lambda: kit.int8_linear(x, q, scale)}
    if device == "cuda" and importlib.util.find_spec("triton"):
        kernel = paths.module(catalogue.reference("quantize_kernel.py")).int8_product
        ways["int8, a kernel that reads int8"] = lambda: kernel(x, q, scale)
    took = {way: _timed(function, device) for way, function in ways.items()}
    chart = charts.bars([(way, seconds * 1e6) for way, seconds in took.items()], unit="µs")
    rows = [[way, words.seconds(seconds), words.gigabytes((plain if way == name else q).nbytes),
             f"{took[name] / seconds:.2f}"] for way, seconds in took.items()]
    note = f"1 x {side} times {side} x {side}, on this machine's {'GPU' if device == 'cuda' else 'CPU'}, called from Python."
    return _view("One row times a weight, now", ["", "took", "weight", f"times as fast as {name}"], rows, note, chart)


def one_row_recorded() -> View:
    """The same as recorded on one H200, in CUDA graphs."""
    took = dict(ONE_ROW)
    chart = charts.bars(ONE_ROW, unit="µs")
    rows = [[way, f"{took[way]:.1f} µs", f"{took['bf16'] / took[way]:.2f}"] for way in took]
    return _view("One row times a weight of 8192 x 8192", ["", "took", "times as fast as bf16"], rows,
                 "docs/results/quantize_int8-1x-nvidia-h200.json. In a CUDA graph, four weights in turn.", chart, "one H200")


def fp8() -> View:
    """The two formats of FP8, and what a product in each loses now, if this PyTorch can compute it."""
    import torch

    kit, rows = finished(), []
    x, w = (torch.randn(64, 64, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    for name, kind in (("E4M3", kit.E4M3), ("E5M2", kit.E5M2)):
        about = torch.finfo(kind)
        (a, sa), (b, sb) = kit.to_fp8(x, kind), kit.to_fp8(w)
        lost = ((a.float() @ b.float().t() * sa * sb - x @ w.t()).norm() / (x @ w.t()).norm()).item()
        rows.append([name, f"{about.max:,.0f}", f"{about.smallest_normal:.2g}", f"{about.eps:.1%}", f"{lost:.1%}"])
    head = ["format", "largest", "smallest normal", "step after 1", "lost of a product with E4M3"]
    return _view("8 bits that float", head, rows, "E4M3 has 4 bits for the exponent and 3 for what follows the point, E5M2 has 5 "
                 "and 2. Lost: of 64 x 64 x 64 normal numbers, both scaled by their amax.")


def fp8_recorded() -> View:
    """FP8 products against bf16 on one H200."""
    rows = [[str(side), f"{bf16:,.0f} µs", f"{e4m3:,.0f} µs", f"{scaled:,.0f} µs", f"{bf16 / e4m3:.2f}", f"{bf16 / scaled:.2f}"]
            for side, (bf16, e4m3, scaled) in FP8.items()]
    series = [charts.Line("in FP8 already", [(side, bf16 / took) for side, (bf16, took, _) in FP8.items()], BLUE, marker="o"),
              charts.Line("x scaled each time, in eager", [(side, bf16 / took) for side, (bf16, _, took) in FP8.items()],
                          VERMILLION, marker="o"),
              charts.Line("bf16", [(side, 1.0) for side in FP8], GREY, dash=(6, 4))]
    chart = charts.lines(series, x="side of the matrices", y="times as fast as bf16", log="x")
    return _view("A product in FP8", ["side", "bf16", "FP8", "and x scaled", "ratio", "and x scaled"], rows,
                 "docs/results/quantize_fp8-1x-nvidia-h200.json. Scaling is a handful of eager operations on x; compiled, "
                 "scaling and product reach 0.90 at 4096 and 1.63 at 8192.", chart, "one H200")


def sparse_recorded() -> View:
    """2:4 products on one H200: what the kernel takes, and what the call takes."""
    head = ["side", "dense", "2:4 kernel", "2:4 as called", "host per call", "kernel", "as called"]
    rows = [[str(side), f"{dense:,.0f} µs", f"{kernel:,.0f} µs", f"{called:,.0f} µs", f"{host:,.0f} µs", f"{dense / kernel:.2f}",
             f"{dense / called:.2f}"] for side, (dense, kernel, called, host) in SPARSE.items()]
    names = (("dense", GREY), ("2:4, its kernel", BLUE), ("2:4, as called", ORANGE))
    bars = [charts.Bar(f"{side}: {name}", took, colour) for side, times in SPARSE.items()
            for (name, colour), took in zip(names, times)]
    return _view("2:4 against dense", head, rows, "docs/results/quantize_sparse-1x-nvidia-h200.json: bf16, cuSPARSELt 0.8, "
                 "PyTorch's default. The last two columns: times as fast as dense.", charts.bars(bars, unit="µs"), "one H200")


def folding() -> View:
    """A network with its batch norms and without them, now; and ResNet-50 as recorded on one H200."""
    import torch
    import torchvision

    kit, device = finished(), _device()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torchvision.models.resnet18(num_classes=10).eval()
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)).to(device)
    nets, rows, results = {"as trained": net.to(device)}, [], {}
    nets["folded"] = kit.folded(net)
    with torch.inference_mode(), machine.one_thread():
        for name, one in nets.items():
            results[name] = one(images)
            norms = sum(isinstance(module, torch.nn.BatchNorm2d) for module in one.modules())
            took = _timed(lambda one=one: one(images), device)
            rows.append([f"resnet18, 2 images of 32 x 32, here, {name}", str(norms), words.seconds(took), ""])
    apart = ((results["folded"] - results["as trained"]).abs().max() / results["as trained"].abs().max()).item()
    for batch, (before, after, graph_before, graph_after) in FOLDED.items():
        what = f"resnet50, H200, {words.counted(batch, 'image')}"
        rows += [[f"{what}, as trained", "53", f"{before} ms", f"{graph_before} ms"],
                 [f"{what}, folded", "0", f"{after} ms", f"{graph_after} ms"]]
    return _view("Inference without batch norms", ["", "norms", "called from Python", "in a CUDA graph"], rows,
                 f"Results here differ by {apart:.0e} of the largest. H200: bf16, channels-last, "
                 "docs/results/quantize_folding-1x-nvidia-h200.json.")
