"""What a GPU could do, and what programs get of it, kept small in docs/results/ beside the page that quotes it.

    python -m dlojz.benchmarks.hardware                      all parts, about two minutes on a GPU
    python -m dlojz.benchmarks.hardware peaks stairs         some of them
    python -m dlojz.benchmarks.hardware --device cpu --tiny  a try, with sizes that say nothing
    python -m dlojz.benchmarks.hardware --traces DIR models  keeps the profiler's traces of the models in DIR

Times are medians between events of the GPU, with inputs that are there already. A part that fails leaves out its row and says so.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .. import traces
from ..system import machine, paths, suggest
from ..traces import bounds, roofs
from ..traces.roofs import timed
from ..traces.work import PRODUCT_CLASSES
from . import pages
from .day2 import keep

RESULTS = paths.PACKAGE.parent / "docs" / "results"
PAGE = paths.PACKAGE.parent / "docs" / "day3.md"
MODELS = ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "efficientnet_v2_s", "convnext_tiny")
OLD = ("resnet50", "vgg19", "densenet121")
FORMATS = ("fp32", "as PyTorch comes", "tf32", "fp16")
CLASSES = 1000


class Here:
    """Where and how large: ``tiny`` sizes try the code out."""

    def __init__(self, device: str, tiny: bool, traces: Path | None):
        self.device, self.tiny, self.traces = device, tiny, traces
        self.cuda = device == "cuda"
        self.seconds = 0.005 if tiny else 0.1

    def time(self, function: Callable) -> float:
        return timed(function, self.device, self.seconds)

    def memory(self, function: Callable) -> float | None:
        """The peak of what a call allocates, in bytes, without what was there before."""
        if not self.cuda:
            return None
        import torch

        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    def wait(self) -> None:
        if self.cuda:
            import torch

            torch.cuda.synchronize()


# -------------------------------------------------------------------------------------------------------------- the parts
def peaks(here: Here) -> Iterator[dict]:
    """Products in each format, copies, and products from thin to square: what each reaches."""
    import torch

    formats = ("float", "tf32", "half", "bfloat16", "double") if here.cuda else ("float",)
    for kind in formats:
        yield {"what": "product", "format": kind, "flops": roofs.peak(kind, here.device, here.seconds)}
    if here.cuda and torch.cuda.get_device_capability() >= (8, 9):
        with _said("fp8"):
            a = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn)
            b = torch.randn(8192, 8192, device="cuda").to(torch.float8_e4m3fn).t()
            one = torch.ones((), device="cuda")
            took = here.time(lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16))
            yield {"what": "product", "format": "float8", "flops": 2 * 8192**3 / took}
    x = torch.ones(2**18 if here.tiny else 2**28, device=here.device)
    out = torch.empty_like(x)
    for what, function, moved in (("copy", lambda: out.copy_(x), 2), ("add", lambda: torch.add(x, x, out=out), 2),
                                  ("sum", lambda: x.sum(), 1), ("fill", lambda: out.fill_(1.0), 1)):
        yield {"what": what, "format": "float", "bytes_per_second": moved * x.nbytes / here.time(function)}
    one = torch.ones(1, device=here.device)
    yield {"what": "smallest kernel", "seconds": here.time(lambda: one.add_(1.0))}
    if here.cuda:
        host = torch.ones(2**26, pin_memory=True)
        yield {"what": "copy from pinned memory", "bytes_per_second":
               host.nbytes / here.time(lambda: x[: 2**26].copy_(host, non_blocking=True))}
    dtype, side = (torch.bfloat16, 4096) if here.cuda else (torch.float32, 256)
    weight = torch.randn(side, side, device=here.device, dtype=dtype)
    for batch in (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384):
        if here.tiny and batch > 64:
            break
        a = torch.randn(batch, side, device=here.device, dtype=dtype)
        yield {"what": "linear", "format": str(dtype)[6:], "batch": batch, "side": side,
               "seconds": here.time(lambda a=a: a @ weight)}


def stairs(here: Here) -> Iterator[dict]:
    """A product of 4096 x 4096 x N in steps of 128, and around 2048 in steps of 1."""
    import torch

    side, dtype = (4096, torch.bfloat16) if here.cuda else (256, torch.float32)
    a = torch.randn(side, side, device=here.device, dtype=dtype)
    wide = [*range(128, 8192 + 1, 128)] if not here.tiny else [64, 128]
    fine = [*range(2032, 2065)] if not here.tiny else [63]
    for name, sizes in (("wide", wide), ("fine", fine)):
        for n in sizes:
            b = torch.randn(side, n, device=here.device, dtype=dtype)
            yield {"what": name, "n": n, "seconds": timed(lambda b=b: a @ b, here.device, here.seconds / 4)}
    if not here.cuda:
        return
    for n in (50257, 50304):  # a vocabulary, and the next multiple of 64 (128)
        weight = torch.randn(n, 768, device="cuda", dtype=dtype)
        tokens = torch.randn(8192, 768, device="cuda", dtype=dtype)
        yield {"what": "vocabulary", "n": n, "seconds": here.time(lambda w=weight, t=tokens: t @ w.t())}


def models(here: Here) -> Iterator[dict]:
    """Five networks and a small GPT, bf16 and channels-last, eager: FLOPs, parameters, and what they take."""
    for name in (*MODELS, "gpt"):
        with _said(name):
            yield _model(here, name)


def formats(here: Here) -> Iterator[dict]:
    """Three networks in four formats, NCHW, with the loss of the first step of each."""
    import torch

    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    for name in OLD:
        for form in FORMATS:
            products.allow_tf32, convolutions.allow_tf32 = form == "tf32", form in ("tf32", "as PyTorch comes")
            with _said(f"{name} {form}"):
                step, count, unit = _training(here, name, torch.float16 if form == "fp16" else None, torch.contiguous_format, 256)
                loss = step().item()
                took = _step_seconds(here, step)
                yield {"model": name, "format": form, "batch": count, "unit": unit, "step_ms": took * 1e3,
                       "per_second": count / took, "loss": round(loss, 5)}
    products.allow_tf32, convolutions.allow_tf32 = False, True


def kernels(here: Here) -> Iterator[dict]:
    """Softmax, bias and GELU, means of segments, attention: the ways there are, beside what memory or arithmetic allow."""
    import torch
    from torch.nn import functional as nn

    kit = _reference("kernels.py")
    compiled = torch.compile if here.cuda else lambda function, **how: function
    for rows, columns in ((4096, 16384), (16384, 1024), (4096, 50257)) if not here.tiny else ((4, 100),):
        x = torch.randn(rows, columns, device=here.device)
        ways = {"naive": naive_softmax, "torch": lambda x: x.softmax(1), "kit": kit.softmax,
                "compiled": compiled(lambda x: x.softmax(1), dynamic=False)}
        if here.cuda:
            ways |= {f"kit, blocks of {block}": lambda x, block=block: kit.softmax(x, block)
                     for block in (2048, 4096, 16384)}
            ways |= {f"kit, blocks of 8192, {warps} warps": lambda x, warps=warps: kit.softmax(x, 8192, warps)
                     for warps in (8, 32)}
        yield from _ways(here, f"softmax {rows} x {columns}", ways, (x,), x.softmax(1), 2 * x.nbytes)
    x = torch.randn(*((16384, 4096) if not here.tiny else (4, 96)), device=here.device)
    bias = torch.randn(x.shape[1], device=here.device)
    ways = {"eager": lambda x, b: nn.gelu(x + b), "kit": kit.bias_gelu,
            "compiled": compiled(lambda x, b: nn.gelu(x + b), dynamic=False)}
    if here.cuda:
        ways["kit, blocks of 2048"] = lambda x, b: kit.bias_gelu(x, b, 2048)
    yield from _ways(here, "bias and gelu", ways, (x, bias), nn.gelu(x + bias), 2 * x.nbytes)
    many, count = (1_000_000, 10_000) if not here.tiny else (100, 7)
    values, segments = torch.randn(many, 64, device=here.device), torch.randint(count, (many,), device=here.device).sort().values
    right = kit.segment_mean(values.double(), segments, count).float()
    ways = {"index_add": by_index_add, "scatter_add": kit.segment_mean, "scatter_reduce": by_scatter_reduce,
            "segment_reduce": by_segment_reduce, "loop": by_loop}
    moved = values.nbytes + segments.nbytes + right.nbytes
    for name, function in ways.items():
        few = 100 if name == "loop" and not here.tiny else count  # of the segments: the time grows with their number
        with _said(name):
            rows = int((segments < few).sum())
            given = (values[:rows], segments[:rows], few) if name == "loop" else (values, segments, count)
            apart = (function(*given) - right[: given[2]]).abs().max().item()
            took = here.time(lambda f=function, g=given: f(*g)) * count / given[2]
            yield {"what": f"segment mean {many} x 64, {count}", "way": name, "seconds": took, "limit": moved, "apart": apart}
    if here.cuda:
        shuffled = segments[torch.randperm(many, device="cuda")]
        for name in ("index_add", "scatter_add", "scatter_reduce"):
            yield {"what": f"segment mean {many} x 64, {count}, shuffled", "way": name,
                   "seconds": here.time(lambda f=ways[name]: f(values, shuffled, count)), "limit": moved}


def attention(here: Here) -> Iterator[dict]:
    """Naive attention, each backend of PyTorch's, and the kit's kernel, against the length."""
    import torch
    from torch.nn import functional as nn
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kit = _reference("kernels.py")
    dtype = torch.bfloat16 if here.cuda else torch.float32

    def through(backend):
        def call(q, k, v):
            with sdpa_kernel(backend):
                return nn.scaled_dot_product_attention(q, k, v)

        return call

    ways = {"naive": naive_attention, "kit": kit.attention, "math": through(SDPBackend.MATH)}
    if here.cuda:
        ways |= {"compiled naive": torch.compile(naive_attention, dynamic=False), "flash": through(SDPBackend.FLASH_ATTENTION),
                 "efficient": through(SDPBackend.EFFICIENT_ATTENTION), "cudnn": through(SDPBackend.CUDNN_ATTENTION)}
    for length in (512, 1024, 2048, 4096, 8192) if not here.tiny else (20,):
        heads = (8, 16) if here.cuda else (1, 2)
        q, k, v = (torch.randn(*heads, length, 64 if here.cuda else 16, device=here.device, dtype=dtype) for _ in range(3))
        right = nn.scaled_dot_product_attention(q, k, v)
        few = {"math"} if length not in (1024, 4096) else set()
        few |= {"naive"} if length == 8192 else set()  # 70 GB
        least = {name: math.inf for name in ways if name not in few}
        for turn, name in itertools.product(range(3), least):  # in turns: the clock falls as it gets warm
            with _said(f"{name}, {length}"):
                function = ways[name]
                took = timed(lambda f=function, q=q, k=k, v=v: f(q, k, v), here.device, here.seconds / 4)
                least[name] = min(least[name], took)
                if turn == 2:
                    apart = (function(q, k, v).float() - right.float()).abs().max().item()
                    yield {"what": "attention", "way": name, "length": length, "flops": 4 * q.numel() * length,
                           "limit": 4 * q.nbytes, "seconds": least[name],
                           "memory": here.memory(lambda f=function, q=q, k=k, v=v: f(q, k, v)), "apart": apart}
    if here.cuda:
        yield from _refusals()


def waits(here: Here) -> Iterator[dict]:
    """What waiting, creating on the host, and determinism cost."""
    import torch

    kit = _reference("kernels.py")
    images, classes = (65536, 1000) if not here.tiny else (8, 10)
    outputs, labels = torch.randn(images, classes, device=here.device), torch.randint(classes, (images,), device=here.device)
    for name, function in (("on the device", kit.noisy_loss), ("with four waits", waiting_loss)):
        yield {"what": f"noisy loss of {images} x {classes}", "way": name,
               "seconds": _step_seconds(here, lambda f=function: f(outputs, labels))}
    shape = (256, 3, 224, 224) if not here.tiny else (2, 3, 8, 8)
    for name, make in (("on the host, then copied", lambda: torch.randn(shape).to(here.device)),
                       ("on the device", lambda: torch.randn(shape, device=here.device))):
        yield {"what": f"randn{shape}", "way": name, "seconds": _step_seconds(here, make)}
    net = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(50))).to(here.device)
    x = torch.randn(64, 256, device=here.device)

    def reading():
        y = x
        for layer in net:
            y = layer(y)
            y.sum().item()
        return y

    yield {"what": "50 small layers", "way": "without a wait", "seconds": _step_seconds(here, lambda: net(x))}
    yield {"what": "50 small layers", "way": "an .item() after each", "seconds": _step_seconds(here, reading)}
    many = 1_000_000 if not here.tiny else 100
    values, segments = torch.randn(many, 64, device=here.device), torch.randint(10_000, (many,), device=here.device)

    def add():
        return torch.zeros(10_000, 64, device=here.device).index_add_(0, segments, values)

    for name, on in (("as it comes", False), ("deterministic", True)):
        with _deterministic(on):
            yield {"what": "index_add", "way": name, "seconds": here.time(add)}
            with _said(f"resnet50 {name}"):
                step, count, _ = _training(here, "resnet50", torch.bfloat16, torch.channels_last, 256)
                yield {"what": "resnet50, images/s", "way": name, "per_second": count / _step_seconds(here, step)}


PARTS = {"peaks": peaks, "stairs": stairs, "kernels": kernels, "attention": attention, "models": models, "formats": formats,
         "waits": waits}


# ------------------------------------------------------------------------------------- ways to write it, for comparison
def naive_softmax(x):
    """As it is written on paper: five kernels, each of which reads and writes all of it."""
    e = (x - x.max(1, keepdim=True).values).exp()
    return e / e.sum(1, keepdim=True)


def naive_attention(q, k, v):
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v


def by_loop(values, segments, count):
    import torch

    found = []
    for segment in range(count):
        chosen = values[segments == segment]
        found.append(chosen.sum(0) / max(len(chosen), 1))
    return torch.stack(found)


def by_index_add(values, segments, count):
    rows = values.new_zeros(count).index_add_(0, segments, values.new_ones(len(values)))
    return values.new_zeros(count, values.shape[1]).index_add_(0, segments, values) / rows.clamp_(min=1)[:, None]


def by_scatter_reduce(values, segments, count):
    import torch

    out = torch.zeros(count, values.shape[1], dtype=values.dtype, device=values.device)
    return out.scatter_reduce_(0, segments[:, None].expand_as(values), values, "mean", include_self=False)


def by_segment_reduce(values, segments, count):
    """For sorted segments only."""
    import torch

    return torch.segment_reduce(values, "mean", lengths=torch.bincount(segments, minlength=count), axis=0, initial=0.0)


def waiting_loss(outputs, labels, noise=0.1, ignored=-100):
    """`noisy_loss` as it is often written: made on the host, then three waits."""
    import torch

    outputs = outputs + noise * torch.randn(outputs.shape).to(outputs.device)
    counted = (labels != ignored).nonzero().squeeze(1)
    if not len(counted):
        return outputs.sum() * 0
    loss = torch.nn.functional.cross_entropy(outputs[labels != ignored], labels[counted])
    return loss if loss.isfinite().item() else loss * 0


# ---------------------------------------------------------------------------------------------------------------- helpers
@contextlib.contextmanager
def _said(what: str):
    """A row that fails is left out."""
    try:
        yield
    except Exception as error:
        print(f"{what}: {type(error).__name__}: {str(error).splitlines()[0][:160]}", file=sys.stderr, flush=True)


def _ways(here: Here, what: str, ways: dict[str, Callable], given: tuple, right, limit: float) -> Iterator[dict]:
    for name, function in ways.items():
        with _said(f"{what}, {name}"):
            apart = (function(*given) - right).abs().max().item()
            yield {"what": what, "way": name, "seconds": here.time(lambda f=function: f(*given)), "limit": limit, "apart": apart}


def _reference(name: str):
    return paths.module(paths.PACKAGE / "reference" / name)


def _refusals() -> Iterator[dict]:
    """What each backend of attention says of inputs that it cannot take."""
    import warnings

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    mask = torch.ones(256, 256, device="cuda", dtype=torch.bool)
    cases = {"float32": ((2, 4, 256, 64), torch.float32, {}), "512 numbers per head": ((2, 4, 256, 512), torch.bfloat16, {}),
             "with a mask": ((2, 4, 256, 64), torch.bfloat16, {"attn_mask": mask}),
             "100 numbers per head": ((2, 4, 256, 100), torch.bfloat16, {})}
    for case, (shape, dtype, more) in cases.items():
        q = torch.randn(shape, device="cuda", dtype=dtype)
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION):
            with warnings.catch_warnings(record=True) as heard, sdpa_kernel(backend):
                warnings.simplefilter("always")
                why = ""
                try:
                    torch.nn.functional.scaled_dot_product_attention(q, q, q, **more)
                except RuntimeError as error:
                    said = [str(one.message).split(" (Triggered")[0] for one in heard]
                    said = [line for line in said if "not used because" not in line and "runtime disabled" not in line]
                    why = " | ".join(said) or str(error).splitlines()[0]
            yield {"what": "refusal", "case": case, "backend": backend.name, "why": why[:500]}


@contextlib.contextmanager
def _deterministic(on: bool):
    import torch

    torch.use_deterministic_algorithms(on, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _net(name: str):
    import torch
    import torchvision

    if name != "gpt":
        return getattr(torchvision.models, name)(num_classes=CLASSES)
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)

    class Gpt(torch.nn.Module):
        """12 layers of 768, 1024 tokens, a vocabulary of 50,304: GPT-2's small size, without dropout and positions."""

        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(50304, 768)
            self.layers = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
            self.head = torch.nn.Linear(768, 50304, bias=False)

        def forward(self, tokens):
            mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
            return self.head(self.layers(self.embedding(tokens), mask=mask, is_causal=True)).flatten(0, 1)

    return Gpt()


def _training(here: Here, name: str, dtype, layout, batch: int):
    """A training step without a loop around it, images (or tokens) in it, and what they are called."""
    import torch

    torch.manual_seed(0)
    net = _net(name).to(here.device)
    if name == "gpt":
        batch, length = (16, 1024) if not here.tiny else (1, 16)
        inputs = torch.randint(50304, (batch, length), device=here.device)
        labels, count, unit = torch.randint(50304, (batch * length,), device=here.device), batch * length, "tokens"
    else:
        batch, side = (batch, 224) if not here.tiny else (2, 64)
        net = net.to(memory_format=layout)
        inputs = torch.randn(batch, 3, side, side, device=here.device).to(memory_format=layout)
        labels, count, unit = torch.randint(CLASSES, (batch,), device=here.device), batch, "images"
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler(here.device, enabled=dtype == torch.float16 and here.cuda)

    def step():
        with torch.autocast(here.device, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = torch.nn.functional.cross_entropy(net(inputs), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return loss.detach()

    step.net, step.inputs, step.dtype = net, inputs, dtype
    return step, count, unit


def _step_seconds(here: Here, step: Callable, least: int = 5) -> float:
    """Wall-clock seconds of a step in a row of them, as a training has them, without the first two."""
    for _ in range(1 if here.tiny else 3):
        step()
    here.wait()
    begun, count = time.perf_counter(), 0
    while count < (1 if here.tiny else least) or time.perf_counter() - begun < here.seconds * 5:
        step()
        count += 1
        if count % 20 == 0:
            here.wait()
    here.wait()
    return (time.perf_counter() - begun) / count


def _model(here: Here, name: str) -> dict:
    import torch

    batch = 256 if name in ("resnet50", "mobilenet_v3_large") else 128
    step, count, unit = _training(here, name, torch.bfloat16, torch.channels_last, batch)
    took = _step_seconds(here, step)
    with tempfile.TemporaryDirectory() as scratch:
        file = (here.traces or Path(scratch)) / f"{name}.json.gz"
        _trace(here, step, file)
        told = of_trace(file)
    return {"model": name, "batch": count, "unit": unit, "parameters": sum(p.numel() for p in step.net.parameters()),
            "step_ms": took * 1e3, "per_second": count / took, **told}


def of_trace(file: Path) -> dict:
    """What a step has to do by its trace: operations of its products, by class of operator what it took, and the same of large
    operators only, those that memory limits and those that arithmetic does apart."""
    facts = traces.analyse(traces.read(file))
    step, roof = bounds.step_of(facts), roofs.H200
    found = bounds.bound(step, roof)
    classes = {row.kind: {"count": row.count, "flops": row.flops, "bytes": row.bytes, "seconds": row.took} for row in found.rows}
    return {"flops_of_step": found.flops, "least_ms": found.least * 1e3, "operators": sum(row.count for row in found.rows),
            "classes": classes, "large": [list(vars(one).values()) for one in bounds.measured(facts, roof)]}


def _trace(here: Here, step: Callable, file: Path) -> None:
    """Two steps, as the lab profiler records them."""
    from torch.profiler import ProfilerActivity, profile, schedule

    file.parent.mkdir(parents=True, exist_ok=True)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * here.cuda
    with profile(activities=activities, schedule=schedule(wait=0, warmup=1, active=2), record_shapes=True,
                 on_trace_ready=lambda p: p.export_chrome_trace(str(file))) as profiler:
        for _ in range(3):
            step()
            profiler.step()
        here.wait()


def described(part: str, here: Here, rows: list[dict]) -> dict:
    """Rows with what is needed to compare them later: the machine, versions and the date."""
    import torch

    told = machine.describe(torch.device(here.device))
    hardware = {name: value for name, value in told["machine"].items() if name not in ("host", "gpu_uuid")}
    with contextlib.suppress(ImportError):
        import triton

        told["versions"]["triton"] = triton.__version__
    if here.cuda:
        about = torch.cuda.get_device_properties(0)
        hardware |= {"processors": about.multi_processor_count, "l2_bytes": getattr(about, "L2_cache_size", None)}
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return {"suite": part, "date": date, "machine": hardware, "versions": told["versions"], "rows": rows}


def measure(parts: dict[str, Callable], here, described: Callable[[str, object, list], dict], out: Path) -> int:
    """These parts, each a function of ``here`` that yields rows. A row is kept at once: what there is before an error, or an end,
    stays. ``described(part, here, rows)``: what `keep` writes. Returns an exit code, 1 where a part failed."""
    failed = 0
    for part, work in parts.items():
        rows, begun, file = [], time.perf_counter(), None
        found = described(part, here, rows)
        try:
            for row in work(here):
                rows.append(row)
                file = keep(found, out)
        except KeyboardInterrupt:
            print(f"{part}: interrupted after {len(rows)} rows", file=sys.stderr)
            return 130
        except Exception as error:
            failed += 1
            print(f"{part}: {type(error).__name__}: {error}", file=sys.stderr)
        print(f"{part}: {len(rows)} rows in {time.perf_counter() - begun:.0f} s, kept in {file}", flush=True)
    return int(failed > 0)


# -------------------------------------------------------------------------------------------------------------- the page
def table(found: dict) -> str:
    """Of parts that a figure shows, nothing."""
    head, rows = TABLES[found["suite"]](found["rows"])
    return pages.table(found, head, rows, triton=found["suite"] in ("kernels", "attention"))


def _of_peaks(rows: list[dict]) -> tuple[list, list]:
    made = [(f"product, {roofs.FORMATS.get(row['format'], row['format'])}", f"{row['flops'] / 1e12:,.0f} TFLOP/s")
            for row in rows if row["what"] == "product"]
    made += [(f"{row['what']}, float32", f"{row['bytes_per_second'] / 1e12:.2f} TB/s") for row in rows
             if row["what"] in ("copy", "add", "sum", "fill")]
    made += [(row["what"], f"{row['bytes_per_second'] / 1e9:.0f} GB/s") for row in rows if "pinned" in row["what"]]
    made += [(f"linear of {row['side']}, {row['format']}, batch {row['batch']:,}",
              f"{row['seconds'] * 1e6:.1f} µs, {2 * row['batch'] * row['side']**2 / row['seconds'] / 1e12:.1f} TFLOP/s")
             for row in rows if row["what"] == "linear" and row["batch"] in (1, 64, 256, 512, 2048, 16384)]
    return ["what", "reached"], made


def _of_stairs(rows: list[dict]) -> tuple[list, list]:
    asked = {"wide": (2048, 4096, 4224, 4352, 5248, 5376, 8192), "fine": (2046, 2047, 2048, 2049, 2056)}
    chosen = [(row, 4096, 4096) for what, some in asked.items() for row in rows if row["what"] == what and row["n"] in some]
    chosen += [(row, 8192, 768) for row in rows if row["what"] == "vocabulary"]
    return ["product, bfloat16", "time", "TFLOP/s"], [
        (f"{m} x {k} x {row['n']}", f"{row['seconds'] * 1e6:,.0f} µs", f"{2 * m * k * row['n'] / row['seconds'] / 1e12:.0f}")
        for row, m, k in chosen]


def _of_models(rows: list[dict]) -> tuple[list, list]:
    head = ["network", "GFLOP each", "M parameters", "batch", "each per second", "ms per step", "of the peak", "of the roofline",
            "time in products", "norms", "pointwise, copies", "kernels busy"]
    made = []
    for row in rows:
        took = {kind: one["seconds"] or 0.0 for kind, one in row["classes"].items()}
        whole = sum(took.values())
        products = sum(seconds for kind, seconds in took.items() if kind in PRODUCT_CLASSES)
        light = sum(took.get(kind, 0.0) for kind in ("pointwise", "copy"))
        step, flops = row["step_ms"] / 1e3, row["flops_of_step"]
        shares = [flops / step / roofs.H200.peaks["bfloat16"], row["least_ms"] / row["step_ms"], products / whole,
                  took.get("norm", 0.0) / whole, light / whole, whole / step]
        made.append((f"{row['model']}, {row['unit']}", f"{flops / row['batch'] / 1e9:.1f}", f"{row['parameters'] / 1e6:.1f}",
                     f"{row['batch']:,}", f"{row['per_second']:,.0f}", f"{row['step_ms']:.1f}",
                     *(f"{share:.1%}" if share < 0.1 else f"{share:.0%}" for share in shares)))
    return head, made


def _of_formats(rows: list[dict]) -> tuple[list, list]:
    first = {row["model"]: row["per_second"] for row in reversed(rows)}
    return ["network, format", "images/s", "ratio", "loss of the first step"], [
        (f"{row['model']}, {row['format']}", f"{row['per_second']:,.0f}", f"{row['per_second'] / first[row['model']]:.2f}",
         f"{row['loss']:.4f}") for row in rows]


def _of_kernels(rows: list[dict]) -> tuple[list, list]:
    return ["what, way", "time", "of the bandwidth"], [
        (f"{row['what']}, {row['way']}", _time(row["seconds"]), f"{row['limit'] / roofs.H200.memory / row['seconds']:.0%}")
        for row in rows]


def _of_attention(rows: list[dict]) -> tuple[list, list]:
    return ["8 x 16 heads of 64, bfloat16", "time", "TFLOP/s", "memory"], [
        (f"{row['way']}, length {row['length']:,}", _time(row["seconds"]), f"{row['flops'] / row['seconds'] / 1e12:.0f}",
         f"{row['memory'] / 1e9:.2f} GB") for row in rows if row["what"] == "attention"]


def _of_waits(rows: list[dict]) -> tuple[list, list]:
    return ["what, way", "measured"], [
        (f"{row['what']}, {row['way']}", _time(row["seconds"]) if "seconds" in row else f"{row['per_second']:,.0f}")
        for row in rows]


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms" if seconds >= 0.1 else f"{seconds * 1e3:.3g} ms"


TABLES = {"peaks": _of_peaks, "stairs": _of_stairs, "models": _of_models, "formats": _of_formats, "kernels": _of_kernels,
          "attention": _of_attention, "waits": _of_waits}


def page(text: str, folder: Path) -> str:
    """The page with the tables of these parts made anew."""
    return pages.rebuilt(text, folder, {name: (name, table) for name in TABLES})


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.hardware", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (all)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(the GPU, where there is one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it out; keep them elsewhere (--out)")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="keep the profiler's traces of the models here")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day3.md again, and measure nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep what was measured (%(default)s)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: {suggest.hint(unknown[0], PARTS)}Expected are {', '.join(PARTS)}")
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    import torch

    here = Here(args.device or ("cuda" if torch.cuda.is_available() else "cpu"), args.tiny, args.traces)
    failed = 0
    for part in args.parts or PARTS:
        rows, begun = [], time.perf_counter()
        try:
            rows.extend(PARTS[part](here))  # what there is before an error stays
        except Exception as error:
            failed += 1
            print(f"{part}: {type(error).__name__}: {error}", file=sys.stderr)
        if rows:
            file = keep(described(part, here, rows), args.out)
            print(f"{part}: {len(rows)} rows in {time.perf_counter() - begun:.0f} s, kept in {file}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
