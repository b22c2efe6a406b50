"""What the notebook memory draws: plans of techniques with the trainee's own code, leaks, rules of thumb as numbers."""

from __future__ import annotations

import html
import inspect
import json
import math
from pathlib import Path

from ...system import cards, paths, sites, suggest, workspace
from ...system.errors import UsageError
from ...training import memory_plan
from ...ui import charts, page, tables
from ...ui.page import View
from ...ui.palette import BLUE, GREEN, ORANGE, SKY
from ...ui.words import gigabytes, number
from . import leaks

TECHNIQUES = {
    "as it is": "", "products kept": " --checkpoint-activations products", "blocks recomputed": " --checkpoint-activations",
    "loss in 8 parts": " --chunked-loss 8", "both": " --checkpoint-activations --chunked-loss 8", "LoRA, rank 16": " --lora 16",
    "both, states in 8 bits": " --checkpoint-activations --chunked-loss 8 --optimizer adamw8",
    "both, all in bf16": " --checkpoint-activations --chunked-loss 8 --weights bf16 --optimizer adamw16"}


def command() -> str:
    """A language model of a size that suits a figure here, on a GPU that is or is not there."""
    small = sites.sizes().scale in ("ci", "laptop")
    size = "--model 10m --length 256 -b 16 --vocabulary 16384" if small else "--model 124m --length 1024 -b 16 --vocabulary 50304"
    return f"train_lm.py {size} --data random --amp bf16 --fused"


def techniques(*names: str) -> View:
    """The peak with each technique, counted with the functions in your saving.py. ``names``: some of `TECHNIQUES`."""
    if other := next((name for name in names if name not in TECHNIQUES), None):
        raise UsageError(f"there is no technique {other!r}: {suggest.hint(other, TECHNIQUES)}They are {', '.join(TECHNIQUES)}")
    folder = _folder()
    plans = {name: memory_plan.of_command(command() + TECHNIQUES[name], folder) for name in names or TECHNIQUES}
    title = "Peak memory with each technique, counted with your saving.py"
    first = next(iter(plans.values())).peak
    lines = [f"{name}: {gigabytes(plan.peak)}, {plan.peak / first:.0%}; {', '.join(_largest(plan))}"
             for name, plan in plans.items()]
    bars = [(name, {part: size / 1e9 for part, size in plan.parts.items() if size > 0.0005 * plan.peak})
            for name, plan in plans.items()]
    return View(title, "\n".join([title, *lines, command()]), lambda: page.headline(title) + charts.stacked(
        bars, unit="GB", say=number).html() + page.quiet(command()))


def _largest(plan: memory_plan.Plan) -> list[str]:
    return [f"{part} {gigabytes(size)}" for part, size in sorted(plan.parts.items(), key=lambda item: -item[1])[:2]]


def _folder() -> Path:
    try:
        here = workspace.find()
    except UsageError:
        here = paths.PACKAGE / "reference"
    return here if (here / "saving.py").is_file() else paths.PACKAGE / "reference"


def leak(name: str, mended: bool = False) -> View:
    """Runs loop ``name``, a to d, and draws the bytes of all tensors at each `note()`. ``mended``: with one line put right."""
    code, held = source(name, mended), run(name, mended)
    title = f"Loop {name}{', mended' if mended else ''}: from {gigabytes(held[0])} to {gigabytes(held[-1])}"
    points = [(at + 1, size / 1e6) for at, size in enumerate(held)]
    chart = charts.lines([charts.Line("held", points, BLUE, marker="o")], x="note() number", y="MB of tensors", height=170,
                         whole=True, legend=False)
    text = "\n".join([title, code, "held: " + ", ".join(gigabytes(size) for size in held)])
    return View(title, text, lambda: page.headline(title) + f"<pre>{html.escape(code)}</pre>" + chart.html())


def source(name: str, mended: bool = False) -> str:
    if name not in leaks.MENDED:
        raise UsageError(f"there is no loop {name!r}: they are {', '.join(leaks.MENDED)}")
    code = inspect.getsource(getattr(leaks, name))
    return code.replace(*leaks.MENDED[name]) if mended else code


def run(name: str, mended: bool = False) -> list[int]:
    """Bytes of all tensors that are there at each `note()`."""
    names = dict(vars(leaks))
    exec(source(name, mended), names)
    held: list[int] = []
    with memory_plan.Count() as count:
        names[name](lambda: held.append(sum(sign * count.all[number].size for _, number, sign in count.events)))
    return held


@tables.numbers(layers=(1, 10_000))
def segments(layers: int = 64) -> View:
    """What is kept when n equal layers are recomputed in k segments: k inputs, and the n / k layers of the one at work."""
    best = max(1, round(math.sqrt(layers)))
    kept, few = best + layers / best, best == 1
    title = (f"{layers} layers: {best} segment{'s' * (not few)} keep{'s' * few} least, {kept:.0f} instead of {layers} layers' "
             "activations")
    points = [(k, k + layers / k) for k in range(1, layers + 1)]
    chart = charts.lines([charts.Line("kept", points, BLUE)], x="segments", y="activations of so many layers", height=200,
                         marks=[charts.Mark(best, best + layers / best, f"{best} segments")], legend=False)
    return View(title, title, lambda: page.headline(title) + chart.html())


def zero(parameters: float = 7.5e9, ranks: int = 64) -> dict[str, float]:
    """Bytes of a rank by ZeRO's stage, with 2 bytes per parameter and per gradient in half precision and 12 for Adam's float32
    copy and two moments (Rajbhandari et al. 2020, arXiv:1910.02054, figure 1)."""
    weights, grads, states = 2 * parameters, 2 * parameters, 12 * parameters
    return {"data parallel": weights + grads + states, "stage 1: states": weights + grads + states / ranks,
            "stage 2: and gradients": weights + (grads + states) / ranks,
            "stage 3: and parameters": (weights + grads + states) / ranks}


@tables.numbers(parameters=(1, 1e15), ranks=(1, 1_000_000))
def zero_stages(parameters: float = 7.5e9, ranks: int = 64) -> View:
    found = zero(parameters, ranks)
    title = f"{parameters / 1e9:g} billion parameters on {ranks} ranks: bytes of a rank, without activations"
    bars = charts.bars([charts.Bar(name, size / 1e9, colour) for (name, size), colour in
                        zip(found.items(), (ORANGE, SKY, BLUE, GREEN))], unit="GB")
    text = "\n".join([title, *(f"  {name:<26}{gigabytes(size)}" for name, size in found.items())])
    return View(title, text, lambda: page.headline(title) + bars.html())


@tables.numbers(parameters=(1, 1e15), tokens=(1, 1e18), mfu=(0.001, 1), watts=(1, 100_000))
def budget(parameters: float, tokens: float | None = None, gpu: str = "H100", mfu: float = 0.4, watts: float = 700) -> View:
    """What a whole training takes: 6 operations per parameter and token, and as many tokens as Chinchilla's rule says, 20 for
    each parameter (Hoffmann et al. 2022, arXiv:2203.15556), if ``tokens`` does not say. ``mfu``: share of the peak in bf16."""
    card = cards.card(str(gpu))
    if card is None or "bfloat16" not in card.peak:
        raise UsageError(f"the peak of {gpu!r} in bf16 is not known: try H100, H200, A100 or B200")
    tokens = 20 * parameters if tokens is None else tokens
    flops = 6 * parameters * tokens
    hours = flops / (card.peak["bfloat16"] * 1e12 * mfu) / 3600
    rows = [("tokens", f"{tokens / 1e9:,.4g} billion"), ("operations", f"{flops:.3g}"),
            ("GPU-hours", f"{number(hours)} on {gpu} at {mfu:.0%} of its peak"),
            ("energy", f"{number(hours * watts / 1000)} kWh at {watts:g} W")]
    title = f"Training {parameters / 1e9:g} billion parameters once"
    return View(title, page.listed(title, rows), lambda: page.headline(title) + page.rows(rows))


def recorded() -> View:
    """What the techniques bring at a size that is too large for most laptops: counted, and measured on an H200."""
    file = paths.share("docs", "results") / "memory-1x-nvidia-h200.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    head = ["technique", "GB counted", "GB measured", "ms per step"]
    rows = [[row["name"].replace("recompute, loss in 8 parts,", "both,"),  # shorter, as a bar's name
             f"{row['predicted'] / 1e9:.2f}" if "predicted" in row else "-", f"{row['bytes'] / 1e9:.2f}",
             f"{row['step_ms']:.0f}"] for row in found["techniques"]]
    title = "124 million parameters, 16 rows of 1,024 tokens, vocabulary 50,304, bf16, not compiled"

    def picture() -> str:
        bars = [charts.Bar(name, float(measured), note=f"{ms} ms") for name, _, measured, ms in rows]
        return page.headline(title, "on an H200") + charts.bars(bars, unit="GB").html()

    return View(title, page.table(head, rows), picture)


def example() -> Path:
    """A snapshot of torch's allocator that ships with the lab."""
    return Path(__file__).with_name("snapshot.pickle.gz")


def a_run() -> str:
    """A short run of the language model on this machine, on a vocabulary that makes its logits large."""
    return f"train_lm.py --test --test-steps {sites.sizes().max_steps or 20} --data random --vocabulary 16384"
