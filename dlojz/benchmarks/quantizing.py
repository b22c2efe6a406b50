"""What smaller numbers, 2:4 sparsity and folded batch norms bring on a GPU, kept small in docs/results/.

    python -m dlojz.benchmarks.quantizing                       all parts, about two minutes on a GPU
    python -m dlojz.benchmarks.quantizing int8 sparse           some of them
    python -m dlojz.benchmarks.quantizing --device cpu --tiny   a try, with sizes that say nothing

``seconds`` is the median of groups of calls between two events of the GPU, with inputs that are there already; ``graph`` the same
of a call in a CUDA graph, which costs the host nothing; ``host`` what the host spends on launching a call. A row that fails is
left out, and the reason is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ..system import machine, paths, suggest
from ..traces.roofs import timed
from . import pages
from .hardware import measure

RESULTS = paths.PACKAGE.parent / "docs" / "results"
PAGE = RESULTS.with_name("day3.md")
REFERENCE = paths.PACKAGE / "reference"
# rows, columns, warps of the int8 kernel
BLOCKS = ((1, 8192, 4), (1, 8192, 8), (1, 8192, 2), (1, 8192, 16), (2, 8192, 8), (2, 8192, 16), (1, 4096, 4), (1, 2048, 4),
          (2, 2048, 4), (2, 4096, 8), (4, 2048, 4), (4, 2048, 8), (4, 1024, 4), (8, 1024, 8), (8, 512, 4), (16, 512, 8))


class Here:
    """Where and how large: ``tiny`` sizes try the code out."""

    def __init__(self, device: str, tiny: bool):
        self.device, self.tiny = device, tiny
        self.cuda = device == "cuda"
        self.seconds = 0.005 if tiny else 0.05

    def time(self, function: Callable) -> float:
        """Seconds of a call, after a first one."""
        return timed(function, self.device, self.seconds)

    def in_graph(self, functions: list[Callable]) -> float:
        """Seconds of a call, of several that one CUDA graph holds; on a CPU, of the first of them."""
        import torch

        if not self.cuda:
            return self.time(functions[0])
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for function in functions:
                function()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for function in functions:
                function()
        return self.time(graph.replay) / len(functions)

    def launching(self, function: Callable) -> float:
        """Seconds that the host spends on a call, without waiting for the device."""
        function()
        self.wait()
        took = min(_elapsed(function) for _ in range(10))
        self.wait()
        return took

    def wait(self) -> None:
        if self.cuda:
            import torch

            torch.cuda.synchronize()


# -------------------------------------------------------------------------------------------------------------- the parts
def int8(here: Here) -> Iterator[dict]:
    """Products of one row, or a few, with weights in bfloat16 and int8. Four weights take turns, as in a network with layers: no
    cache holds them until they are needed again."""
    import torch

    kit = _reference("quantize")
    side, dtype = (8192, torch.bfloat16) if here.cuda else (256, torch.float32)
    plain = [torch.randn(side, side, device=here.device, dtype=dtype) for _ in range(4)]
    pairs = [kit.absmax(weight, "channel") for weight in plain]

    def dequantized(x, q, scale):
        return x @ (q.to(x.dtype) * scale.to(x.dtype)).t()

    def scaled_after(x, q, scale):
        return (x @ q.to(x.dtype).t()) * scale.t().to(x.dtype)

    x = torch.randn(1, side, device=here.device, dtype=dtype)
    right = scaled_after(x.double(), *pairs[0])

    def row(way, function, given=pairs, batch=x, **more):
        with _said(f"int8, {way}"):
            apart = (function(batch, *given[0]).double() - right[: len(batch)]).abs().max().item() if batch is x else None
            calls = [lambda one=one: function(batch, *one) for one in given]
            yield {"what": f"{len(batch)} x {side} times {side} x {side}", "way": way, "batch": len(batch),
                   "seconds": here.time(calls[0]), "graph": here.in_graph(calls), "host": here.launching(calls[0]),
                   "bytes": sum(one.nbytes for one in given[0]), "apart": apart, **more}

    yield from row("bf16", lambda x, w: x @ w.t(), [(weight,) for weight in plain])
    yield from row("int8, dequantized", dequantized)
    yield from row("int8, scale after the product", scaled_after)
    if here.cuda:
        product = _reference("quantize_kernel").int8_product
        for blocks in BLOCKS:
            yield from row("int8, kernel", lambda x, q, s, b=blocks: product(x, q, s, *b), blocks=list(blocks))
        best = (2, 2048, 4)
        with _said("int8, the library's kernel"):
            yield from row("int8, torch._weight_int8pack_mm",
                           lambda x, q, s: torch._weight_int8pack_mm(x, q, s.flatten().to(x.dtype)))
        for batch in (2, 4, 8):
            few = torch.randn(batch, side, device="cuda", dtype=dtype)
            yield from row("int8, kernel", lambda x, q, s: product(x, q, s, *best), batch=few, blocks=list(best))
        for batch in (2, 4, 8, 64, 512, 4096):
            few = torch.randn(batch, side, device="cuda", dtype=dtype)
            yield from row("bf16", lambda x, w: x @ w.t(), [(weight,) for weight in plain], batch=few)
            yield from row("int8, dequantized", dequantized, batch=few)
        with _said("int8 times int8"):
            for batch in (64, 512, 4096):  # 17 rows are the least that it takes
                x8 = kit.absmax(torch.randn(batch, side, device="cuda"), "channel")[0]
                calls = [lambda x8=x8, q=q: torch._int_mm(x8, q.t()) for q, _ in pairs]
                yield {"what": f"{batch} x {side} times {side} x {side}", "way": "int8 times int8", "batch": batch,
                       "seconds": here.time(calls[0]), "graph": here.in_graph(calls)}
        with _said("int8, compiled"):
            yield from row("int8, dequantized, compiled", torch.compile(dequantized, dynamic=False))


def fp8(here: Here) -> Iterator[dict]:
    """Square products in bfloat16 and FP8, with scaling and without it."""
    import torch

    kit = _reference("quantize")
    dtype = torch.bfloat16 if here.cuda else torch.float32

    def multiply(left, right, **how):
        (a, scale_a), (b, scale_b) = left, right
        return torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=dtype, **how)

    def ways(x, w):
        left, right = kit.to_fp8(x), kit.to_fp8(w)
        yield "bf16", lambda: x @ w.t()
        yield "E4M3", lambda: multiply(left, right)
        yield "E4M3, fast sums", lambda: multiply(left, right, use_fast_accum=True)
        yield "E4M3, x scaled each time", lambda: multiply(kit.to_fp8(x), right)
        coarse = kit.to_fp8(x, kit.E5M2)
        yield "E5M2 times E4M3", lambda: multiply(coarse, right)
        if here.cuda and x.shape[0] in (4096, 8192):
            scaled = torch.compile(kit.to_fp8, dynamic=False)
            yield "E4M3, x scaled each time, compiled", lambda: multiply(scaled(x), right)

    for side in (1024, 2048, 4096, 8192, 16384) if not here.tiny else (32,):
        x, w = (torch.randn(side, side, device=here.device, dtype=dtype) for _ in range(2))
        exact = (x @ w.t()).float()
        for way, function in ways(x, w):
            with _said(f"fp8, {way}, {side}"):
                error = ((function().float() - exact).norm() / exact.norm()).item()
                yield {"what": "product", "way": way, "side": side, "seconds": here.time(function), "error": error}


def captured(here: Here) -> Iterator[dict]:
    """The 2:4 product in a CUDA graph, apart from `sparse`: where a library cannot be captured, nothing else is lost."""
    import torch

    kit, linear = _reference("quantize"), torch.nn.functional.linear
    for side in (4096, 8192) if here.cuda else ():
        x = torch.randn(side, side, device="cuda", dtype=torch.bfloat16)
        weight = kit.prune_2_4(torch.randn(side, side, device="cuda", dtype=torch.bfloat16))
        packed = torch.sparse.to_sparse_semi_structured(weight)
        for way, one in (("dense", weight), ("cusparselt", packed)):
            with _said(f"2:4 in a graph, {way}, {side}"):
                yield {"what": "product", "way": way, "side": side,
                       "graph": here.in_graph([lambda x=x, w=one: linear(x, w)] * 4)}


def sparse(here: Here) -> Iterator[dict]:
    """Square products, dense and 2:4, with both libraries: time on the device, time of the host, and which kernels ran."""
    import torch

    kit = _reference("quantize")
    if not here.cuda:
        weight = torch.randn(64, 64)
        yield {"what": "pruned", "zeros": (kit.prune_2_4(weight) == 0).float().mean().item()}
        return
    from torch.sparse import SparseSemiStructuredTensorCUSPARSELT as Cusparselt
    from torch.sparse import SparseSemiStructuredTensorCUTLASS as Cutlass

    linear = torch.nn.functional.linear
    with _said("cusparselt"):
        yield {"what": "library", "cusparselt": torch.backends.cusparselt.version()}
    for dtype in (torch.bfloat16, torch.float16):
        for side in (4096, 8192):
            x = torch.randn(side, side, device="cuda", dtype=dtype)
            weight = kit.prune_2_4(torch.randn(side, side, device="cuda", dtype=dtype))
            exact = (x @ weight.t()).float()

            def row(way, function, side=side, dtype=dtype, exact=exact, **more):
                with _said(f"2:4, {way}, {side}"):
                    error = ((function().float() - exact).norm() / exact.norm()).item()
                    yield {"what": "product", "way": way, "side": side, "format": str(dtype)[6:],
                           "seconds": here.time(function), "host": here.launching(function), "error": error, **more,
                           "kernels": _kernels(function)}

            yield from row("dense", lambda x=x, w=weight: linear(x, w))
            for name, kind in (("cutlass", Cutlass), ("cusparselt", Cusparselt)):
                with _said(f"2:4, {name}"):
                    packed = kind.from_dense(weight)
                    yield from row(name, lambda x=x, w=packed: linear(x, w))
                    if kind is Cusparselt and dtype == torch.bfloat16:
                        flat = packed.packed
                        yield from row("cusparselt, result not transposed",
                                       lambda x=x, f=flat: torch._cslt_sparse_mm(f, x.t()).t())
                        begun = time.perf_counter()
                        best = torch._cslt_sparse_mm_search(flat, x.t())
                        took = time.perf_counter() - begun
                        for alg in sorted({0, 1, 2, 3, int(best)}):
                            yield from row("cusparselt, by number", lambda x=x, f=flat, a=alg: torch._cslt_sparse_mm(
                                f, x.t(), alg_id=a).t(), alg=alg, best=int(best), search=took)


def folding(here: Here) -> Iterator[dict]:
    """Inference of ResNet-50 with its batch norms and without them; in a graph, and as AOTInductor exports it."""
    import torch
    import torchvision

    kit = _reference("quantize")
    torch.manual_seed(0)
    net = torchvision.models.resnet50().to(here.device).eval()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    dtype = torch.bfloat16 if here.cuda else torch.float32
    nets = {"as trained": net, "folded": kit.folded(net)}
    images = torch.randn(2, 3, 224 if here.cuda else 64, 224 if here.cuda else 64, device=here.device)
    with torch.inference_mode():
        right, found = (one(images) for one in nets.values())
        yield {"what": "float32", "apart": ((right - found).abs().max() / right.abs().max()).item()}
    nets = {name: one.to(dtype).to(memory_format=torch.channels_last) for name, one in nets.items()}
    for batch in (1, 32, 256) if not here.tiny else (2,):
        images = torch.randn(batch, *images.shape[1:], device=here.device, dtype=dtype).to(memory_format=torch.channels_last)
        for name, one in nets.items():
            with _said(f"{name}, {batch}"), torch.inference_mode():
                yield {"what": "resnet50", "way": name, "batch": batch, "seconds": here.time(lambda o=one, i=images: o(i)),
                       "host": here.launching(lambda o=one, i=images: o(i)),
                       "graph": here.in_graph([lambda o=one, i=images: o(i)])}


def exported(here: Here) -> Iterator[dict]:
    """ResNet-50 with its batch norms and without: compiled, and as AOTInductor exports it, a program that runs without Python.
    The latter comes last: on an H200 with torch 2.11 it ended with a segmentation fault."""
    import tempfile

    import torch
    import torchvision

    dtype = torch.bfloat16 if here.cuda else torch.float32
    net = (torchvision.models.resnet50() if not here.tiny else torchvision.models.resnet18()).eval()
    side, batch = (224, 256) if here.cuda else (64, 2)
    images = torch.randn(batch, 3, side, side, device=here.device, dtype=dtype).to(memory_format=torch.channels_last)
    nets = {name: one.to(here.device, dtype).to(memory_format=torch.channels_last)
            for name, one in (("as trained", net), ("folded", _reference("quantize").folded(net)))}

    def compiled(one, scratch):
        run = torch.compile(one)
        run(images)
        return run, {}

    def packed(one, scratch):
        # Nothing computes on the CPU here: trying out its vector instructions would take longer than all else.
        file = torch._inductor.aoti_compile_and_package(torch.export.export(one, (images,)), package_path=f"{scratch}/net.pt2",
                                                        inductor_configs={"cpp.vec_isa_ok": False} if here.cuda else None)
        return torch._inductor.aoti_load_package(file), {"file_bytes": Path(file).stat().st_size}

    for (way, make), (name, one) in itertools.product((("compiled", compiled), ("AOTInductor", packed)), nets.items()):
        with _said(f"{name}, {way}"), tempfile.TemporaryDirectory() as scratch, torch.no_grad():
            begun = time.perf_counter()
            run, more = make(one, scratch)
            took = time.perf_counter() - begun
            yield {"what": "resnet50", "way": f"{name}, {way}", "batch": batch, "seconds": here.time(lambda run=run: run(images)),
                   "host": here.launching(lambda run=run: run(images)), "made": took, **more}


PARTS = {"int8": int8, "fp8": fp8, "sparse": sparse, "folding": folding, "captured": captured, "exported": exported}


# --------------------------------------------------------------------------------------------------------------- the page
def of_int8(found: dict) -> str:
    """One row of x: each way, and of the kernel's block sizes the best, that of the kit, and the worst."""
    rows = [row for row in found["rows"] if row["batch"] == 1]
    blocks = sorted((row for row in rows if "blocks" in row), key=lambda row: row["graph"])
    shown = [row for row in rows if row not in blocks]
    shown += [row for row in blocks if row in (blocks[0], blocks[-1]) or row["blocks"] == [2, 2048, 4]]
    bf16 = rows[0]["graph"]
    return pages.table(found, ["one row", "took", "times as fast as bf16", "called from Python"], [(
        row["way"] + ("" if "blocks" not in row else ", blocks of {} x {}, {} warps".format(*row["blocks"])),
        _micro(row["graph"], 1), f"{bf16 / row['graph']:.2f}", _micro(row["seconds"], 1)) for row in shown], triton=True)


def of_fp8(found: dict) -> str:
    ways = {"E4M3": "E4M3", "x scaled, eager": "E4M3, x scaled each time",
            "x scaled, compiled": "E4M3, x scaled each time, compiled"}
    made = []
    for side in dict.fromkeys(row["side"] for row in found["rows"]):
        took = {row["way"]: row["seconds"] for row in found["rows"] if row["side"] == side}
        each = ((_micro(took[way]), f"{took['bf16'] / took[way]:.2f}") if way in took else ("", "") for way in ways.values())
        made.append((f"{side:,}", _micro(took["bf16"]), *itertools.chain(*each)))
    head = ["side", "bf16", *itertools.chain(*((way, "ratio") for way in ways))]
    return pages.table(found, head, made)


def of_sparse(found: dict) -> str:
    """bfloat16, PyTorch's default library: its kernel alone, and called."""
    rows, made = [row for row in found["rows"] if row.get("format") == "bfloat16"], []
    for side in dict.fromkeys(row["side"] for row in rows):
        dense, sparse = (next(row for row in rows if (row["side"], row["way"]) == (side, way)) for way in ("dense", "cusparselt"))
        times = sum(one[1] for one in sparse["kernels"]), sparse["seconds"]
        each = itertools.chain(*((_micro(took), f"{dense['seconds'] / took:.2f}") for took in times))
        made.append((f"{side:,}", _micro(dense["seconds"]), *each, _micro(sparse["host"])))
    return pages.table(found, ["side", "dense", "2:4, its kernels", "ratio", "2:4, as called", "ratio", "host per call"], made)


def of_captured(found: dict) -> str:
    took = {(row["side"], row["way"]): row["graph"] for row in found["rows"]}
    return pages.table(found, ["side, in a CUDA graph", "dense", "2:4", "ratio"], [
        (f"{side:,}", *map(_micro, (took[side, "dense"], took[side, way])), f"{took[side, 'dense'] / took[side, way]:.2f}")
        for side, way in took if way != "dense"])


def of_folding(found: dict) -> str:
    took = {(row["batch"], row["way"]): row for row in found["rows"] if row["what"] == "resnet50"}
    made = []
    for batch in dict.fromkeys(batch for batch, _ in took):
        each = [(took[batch, "as trained"][by], took[batch, "folded"][by]) for by in ("seconds", "graph")]
        made.append((str(batch), *itertools.chain(*((_milli(one), _milli(two), f"{one / two:.2f}") for one, two in each))))
    head = ["images", "as trained", "folded", "ratio", "in a CUDA graph, as trained", "folded", "ratio"]
    return pages.table(found, head, made)


def of_exported(found: dict) -> str:
    return pages.table(found, ["resnet50, 256 images", "took", "host per call", "made in", "file"], [
        (row["way"], _milli(row["seconds"]), _micro(row["host"]), f"{row['made']:.0f} s",
         f"{row['file_bytes'] / 1e6:.0f} MB" if "file_bytes" in row else "-") for row in found["rows"]])


def _micro(seconds: float, digits: int = 0) -> str:
    return f"{seconds * 1e6:,.{digits}f} µs"


def _milli(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


TABLES = {"int8": of_int8, "fp8": of_fp8, "sparse": of_sparse, "captured": of_captured, "folding": of_folding,
          "exported": of_exported}


def page(text: str, folder: Path) -> str:
    return pages.rebuilt(text, folder, {f"quantize_{part}": (f"quantize_{part}", table) for part, table in TABLES.items()})


# ---------------------------------------------------------------------------------------------------------------- helpers
@contextlib.contextmanager
def _said(what: str):
    """A row that fails is left out."""
    try:
        yield
    except Exception as error:
        print(f"{what}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}", file=sys.stderr, flush=True)


def _elapsed(function: Callable) -> float:
    begun = time.perf_counter()
    function()
    return time.perf_counter() - begun


def _kernels(function: Callable) -> list[list]:
    """The kernels of a call and how many seconds each takes, by torch.profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            function()
        torch.cuda.synchronize()
    found = [[event.key[:120], event.self_device_time_total / 3e6, event.count / 3] for event in profiler.key_averages()]
    return sorted((row for row in found if row[1]), key=lambda row: -row[1])[:6]


def _reference(name: str):
    """A file of dlojz/reference, whose siblings can be imported."""
    if str(REFERENCE) not in sys.path:
        sys.path.insert(0, str(REFERENCE))
    return __import__(name)


def described(part: str, here: Here, rows: list[dict]) -> dict:
    """Rows with what is needed to compare them later: the machine, versions and the date."""
    import torch

    told = machine.describe(torch.device(here.device))
    hardware = {name: value for name, value in told["machine"].items() if name not in ("host", "gpu_uuid")}
    with contextlib.suppress(ImportError):
        import triton

        told["versions"]["triton"] = triton.__version__
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {"suite": f"quantize_{part}", "date": date, "machine": hardware, "versions": told["versions"], "rows": rows}


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.quantizing", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (all)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(the GPU, where there is one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it out; keep them elsewhere (--out)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep what was measured (%(default)s)")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day3.md again, and measure nothing")
    args = parser.parse_args(argv)
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: {suggest.hint(unknown[0], PARTS)}Expected are {', '.join(PARTS)}")
    import torch

    here = Here(args.device or ("cuda" if torch.cuda.is_available() else "cpu"), args.tiny)
    return measure({part: PARTS[part] for part in args.parts or PARTS}, here, described, args.out)


if __name__ == "__main__":
    sys.exit(main())
