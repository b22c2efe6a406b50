"""Figures for the notebook about kernels: ways to write the same thing, timed on this machine beside what its memory allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...system import paths, workspace
from ...traces.roofs import bandwidth, timed
from ...ui import charts, tables, words
from ...ui.charts import Bar, Line
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREEN, GREY, ORANGE, SPEED, VERMILLION

LENGTHS = (512, 1024, 2048, 4096)


def _mine():
    """The trainee's kernels.py."""
    return paths.module(workspace.find() / "kernels.py")


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _ways(title: str, ways: dict[str, Callable], given: tuple, moved: float, note: str, seconds: float = 0.1,
          known: dict[str, str] | None = None) -> View:
    """Bars: what each way takes, beside the time in which the memory moves what it must. ``known``: why a way is not timed."""
    device = _device()
    least = moved / bandwidth(device, seconds)
    took = {name: timed(lambda f=function: f(*given), device, seconds) for name, function in ways.items()}
    bars = [Bar("the memory needs", least, GREY), *(Bar(name, found, SPEED) for name, found in took.items())]
    chart = charts.bars(bars, baseline="the memory needs", say=words.seconds)
    notes = [note, *(f"{name}: {why}" for name, why in (known or {}).items())]
    return View(title, "\n".join([title, chart.text(), *notes]),
                lambda: headline(title, "timed now") + chart.html() + "".join(map(quiet, notes)))


# --- waits ---------------------------------------------------------------------------------------------------------------
def waits() -> View:
    """What waiting and creating on the host cost on one H200 (docs/day3.md)."""
    bars = [Bar("noisy loss, with waits", 0.4033, VERMILLION),
            Bar("noisy loss, without", 0.0006334, BLUE),
            Bar("randn on the host, copied", 0.233, VERMILLION),
            Bar("randn on the device", 9.353e-5, BLUE),
            Bar("50 layers, .item() in each", 0.004342, VERMILLION),
            Bar("50 layers, without", 0.002668, BLUE)]
    chart = charts.bars(bars, log=True, say=words.seconds)
    note = "Loss: 65,536 x 1,000 numbers, noise made on the host and copied. randn: 256 images of 3 x 224 x 224. Logarithmic."
    return View("waits", "\n".join(["What waiting costs, one H200", chart.text(), note]),
                headline("What waiting costs", "one H200, docs/day3.md") + chart.html() + quiet(note))


# --- segments ------------------------------------------------------------------------------------------------------------
def by_index_add(values, segments, count):
    rows = values.new_zeros(count).index_add_(0, segments, values.new_ones(len(values)))
    return values.new_zeros(count, values.shape[1]).index_add_(0, segments, values) / rows.clamp_(min=1)[:, None]


def by_scatter_reduce(values, segments, count):
    out = values.new_zeros(count, values.shape[1])
    return out.scatter_reduce_(0, segments[:, None].expand_as(values), values, "mean", include_self=False)


def by_segment_reduce(values, segments, count):
    """For sorted segments only, and it waits: bincount has a size that depends on values."""
    import torch

    return torch.segment_reduce(values, "mean", lengths=torch.bincount(segments, minlength=count), axis=0, initial=0.0)


@tables.numbers(rows=(100, 10_000_000), segments=(1, 1_000_000))
def segments(rows: int = 0, segments: int = 0) -> View:
    """Your `segment_mean` and three others, timed now, beside the bytes that must be moved."""
    import torch

    device = _device()
    rows, segments = rows or (1_000_000 if device == "cuda" else 100_000), segments or (10_000 if device == "cuda" else 100)
    values = torch.randn(rows, 64, device=device)
    places = torch.randint(segments, (rows,), device=device).sort().values
    ways = {"yours": _mine().segment_mean, "index_add": by_index_add, "scatter_reduce": by_scatter_reduce,
            "segment_reduce, sorted": by_segment_reduce}
    right = by_index_add(values.double(), places, segments)
    known = {name: "it is wrong here" for name, way in ways.items()
             if (way(values, places, segments).double() - right).abs().max() > 1e-3}
    moved = values.nbytes + places.nbytes + 4 * segments * 64
    return _ways(f"Mean of {segments:,} segments of {rows:,} rows of 64", ways, (values, places, segments), moved,
                 "The time of a loop over segments grows with their number.", known=known)


# --- softmax and pointwise -----------------------------------------------------------------------------------------------
def naive_softmax(x):
    """As it is written on paper: five operators, each of which reads and writes all of it."""
    e = (x - x.max(1, keepdim=True).values).exp()
    return e / e.sum(1, keepdim=True)


@tables.numbers(rows=(1, 65536), columns=(1, 65536))
def softmax(rows: int = 0, columns: int = 0) -> View:
    """Softmax as five operators, as PyTorch's one, and as your kernel where a GPU runs it; timed now."""
    import torch

    device = _device()
    rows, columns = rows or (4096 if device == "cuda" else 512), columns or (16384 if device == "cuda" else 4096)
    x, mine = torch.randn(rows, columns, device=device), _mine()
    ways, known = {"five operators": naive_softmax, "torch.softmax": lambda x: x.softmax(1)}, {}
    if not mine.compiles():
        known["yours"] = "without a GPU it is run number by number, to learn: its time says nothing"
    elif (mine.softmax(x) - x.softmax(1)).abs().max() > 1e-5:
        known["yours"] = "it is not right yet"
    else:
        ways["yours"] = mine.softmax
    return _ways(f"Softmax of {rows:,} x {columns:,} numbers", ways, (x,), 2 * x.nbytes, "float32", known=known)


def yours() -> View:
    """Whether your three kernels are right, on one odd size each."""
    import torch
    from torch.nn import functional as nn

    mine, device = _mine(), _device()
    torch.manual_seed(0)
    x, bias = torch.randn(5, 37, device=device), torch.randn(37, device=device)
    q, k, v = (torch.randn(1, 2, 37, 16, device=device) for _ in range(3))
    cells = []
    for name, call, right in (("bias_gelu", lambda: mine.bias_gelu(x, bias, 32), nn.gelu(x + bias)),
                              ("softmax", lambda: mine.softmax(x, 16), x.softmax(1)),
                              ("attention", lambda: mine.attention(q, k, v, True, 16, 16),
                               nn.scaled_dot_product_attention(q, k, v, is_causal=True))):
        try:
            apart = (call() - right).abs().max().item()
            cells.append([name, f"{apart:.1e}" if apart < 1e-2 else "not right yet", ""])
        except Exception as error:
            cells.append([name, "stops", f"{type(error).__name__}: {error}"[:150]])
    head = ["kernel", "largest difference", "what it says"]
    how = "compiled for this GPU" if mine.compiles() else "run block by block on the CPU"
    return View("your kernels", "\n".join([f"Your kernels, {how}", table(head, cells)]),
                headline("Your kernels", how) + table_html(head, cells))


# --- dispatch ------------------------------------------------------------------------------------------------------------
def dispatch() -> View:
    """What one linear layer and its backward pass come down to, by your `Listing`."""
    import torch

    layer, x = torch.nn.Linear(8, 4), torch.randn(2, 3, 8, requires_grad=True)
    with _mine().Listing() as calls:
        loss = layer(x).sum()
    forward = list(calls.names)
    with _mine().Listing() as calls:
        loss.backward()
    noted = {"forward": forward, "backward": calls.names}
    lines = [f"{name}: {', '.join(some) or 'nothing noted yet'}" for name, some in noted.items()]
    return View("dispatch", "\n".join(["A linear layer of x (2, 3, 8)", *lines]),
                headline("A linear layer of x (2, 3, 8), dispatched") + "".join(map(quiet, lines)))


# --- attention -----------------------------------------------------------------------------------------------------------
def naive_attention(q, k, v):
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v


@tables.numbers(lengths=(16, 16384))
def attention(lengths: Sequence[int] = ()) -> View:
    """Naive attention, PyTorch's, and your kernel where a GPU runs it, against the length: time now, memory of scores."""
    import torch
    from torch.nn import functional as nn

    device, mine = _device(), _mine()
    lengths = lengths or (LENGTHS if device == "cuda" else (64, 128, 256, 512))
    heads, size = ((8, 16), 64) if device == "cuda" else ((1, 4), 64)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    ways = {"naive": naive_attention, "scaled_dot_product_attention": nn.scaled_dot_product_attention}
    if mine.compiles():
        q = torch.randn(1, 1, 128, size, device=device, dtype=dtype)
        if (mine.attention(q, q, q) - nn.scaled_dot_product_attention(q, q, q)).abs().max() < 0.05:
            ways["yours"] = mine.attention
    took = {name: [] for name in ways}
    for length in lengths:
        q, k, v = (torch.randn(*heads, length, size, device=device, dtype=dtype) for _ in range(3))
        for name, way in ways.items():
            took[name].append(timed(lambda w=way, q=q, k=k, v=v: w(q, k, v), device, 0.05))
    scores = [2 * heads[0] * heads[1] * length**2 * (2 if dtype == torch.bfloat16 else 4) for length in lengths]
    series = [Line(name, list(zip(lengths, [1e3 * t for t in times])), colour, marker="o")
              for (name, times), colour in zip(took.items(), (VERMILLION, BLUE, GREEN))]
    chart = charts.lines(series, x="length", y="ms", log="xy", x_ticks=lengths)
    memory = charts.bars([Bar(f"{length:,}", size_, ORANGE) for length, size_ in zip(lengths, scores)], say=words.gigabytes,
                         title="scores and their softmax, which naive attention writes")
    head = ["length", *took, "scores and softmax"]
    cells = [[f"{length:,}", *(words.seconds(times[at]) for times in took.values()), words.gigabytes(scores[at])]
             for at, length in enumerate(lengths)]
    what = f"{heads[0]} x {heads[1]} heads of {size}, {str(dtype)[6:]}"
    return View("attention", "\n".join([f"Attention against the length: {what}", table(head, cells)]),
                lambda: headline("Attention against the length", what) + chart.html() + memory.html())
