"""How fast the language model trains on one device, one technique per row, kept as small JSON in docs/results/.

    python -m dlojz.benchmarks.language                      the variants, each in a process of its own
    python -m dlojz.benchmarks.language eager whole          some of them
    python -m dlojz.benchmarks.language --model 1m --length 64 --rows 2 --vocabulary 320 --steps 3     a quick try

Random tokens on the device, AdamW in one kernel, no clipping, no metrics. A row: tokens/s over the timed steps, the first step in
seconds, the peak of what tensors took, and the share of the GPU's peak that the model needs (6ND and attention, over all tokens).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..data import texts
from ..system import cards, machine, paths, suggest
from ..training import records, summary
from . import pages

RESULTS = paths.PACKAGE.parent / "docs" / "results"
PAGE = RESULTS.with_name("day4.md")
LIMIT = 120  # seconds of a variant


@dataclass(frozen=True)
class Variant:
    """``compiled``: no, whole or blocks. ``mode``, ``options``: torch.compile's. ``weights``: float32 with autocast, or all in
    bfloat16. ``size``: numbers of a head, where it is not the preset's. ``model``, ``rows``: where they are not those of the
    command. ``joined``: `Joined` instead of the model's SwiGLU. ``fp8``: the products of the blocks, by whom. ``text``: steps on
    the standard library's sources, of which the loss is kept. ``profiled``: its kernels' shares are printed."""

    says: str
    compiled: str = "whole"
    mode: str = "default"
    options: dict = field(default_factory=dict)
    weights: str = "float32"
    size: int | None = None
    model: str | None = None
    rows: int | None = None
    joined: bool = False
    fp8: str = ""
    text: int = 0
    profiled: bool = False


VARIANTS = {
    "eager": Variant("as it is", "no", profiled=True),
    "script": Variant("by train_lm.py itself, with its books"),
    "whole": Variant("compiled whole", profiled=True),
    "joined": Variant("compiled whole, one product for both of SwiGLU", joined=True),
    "views": Variant("the same, gradients written side by side at once", joined=True, options={"max_pointwise_cat_inputs": 1}),
    "tuned": Variant("compiled whole, sizes of kernels searched", options={"coordinate_descent_tuning": True}),
    "heads64": Variant("compiled whole, heads of 64 numbers, as GPT-2 has", size=64),
    "bf16": Variant("compiled whole, all weights bfloat16", weights="bfloat16"),
    "graphs": Variant("compiled whole, with CUDA graphs", mode="reduce-overhead"),
    "blocks": Variant("each block compiled by itself, and the loss", "blocks"),
    "fp8": Variant("the same, products of the blocks in FP8", "blocks", fp8="hand"),
    "torchao": Variant("the same by torchao", "blocks", fp8="torchao"),
    "1b": Variant("a billion parameters, by blocks", "blocks", model="1b", rows=8),
    "1b-fp8": Variant("the same, products of the blocks in FP8", "blocks", model="1b", rows=8, fp8="hand"),
    "1b-torchao": Variant("the same by torchao", "blocks", model="1b", rows=8, fp8="torchao"),
    "text": Variant("by blocks, on text", "blocks", text=200),
    "text-torchao": Variant("the same by torchao", "blocks", text=200, fp8="torchao"),
}


def joined(lm):
    """A SwiGLU of ``lm``'s that makes gate and up in one product, side by side."""
    from torch import nn
    from torch.nn import functional as F

    class Joined(nn.Module):
        def __init__(self, shape):
            super().__init__()
            self.gate_and_up = nn.Linear(shape.width, 2 * shape.hidden, bias=False)
            self.down = nn.Linear(shape.hidden, shape.width, bias=False)

        def forward(self, x):
            gate, up = self.gate_and_up(x).chunk(2, -1)
            return self.down(F.silu(gate) * up)

    return Joined


def in_fp8(net) -> None:
    """The linear layers of ``net.blocks`` compute in FP8 from now on, forward and backward, as torchao's recipe ``tensorwise``
    does: activations and weights in E4M3, gradients in E5M2, one scale per tensor, from its own largest number."""
    import quantize
    import torch
    from torch import nn

    def multiplied(a, b, **how):
        """``a`` (rows, inner) times ``b`` (inner, columns), each (numbers, scale)."""
        (a, scale_a), (b, scale_b) = a, b
        by_columns = b.t().contiguous().t()  # as `_scaled_mm` wants the second
        return torch._scaled_mm(a.contiguous(), by_columns, scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, **how)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            (x, scale_x), (weight, scale_w) = quantize.to_fp8(x), quantize.to_fp8(weight)
            ctx.save_for_backward(x, scale_x, weight, scale_w)
            return multiplied((x, scale_x), (weight.t(), scale_w), use_fast_accum=True)

        @staticmethod
        def backward(ctx, grad):
            x, scale_x, weight, scale_w = ctx.saved_tensors
            grad, scale = quantize.to_fp8(grad, quantize.E5M2)
            return multiplied((grad, scale), (weight, scale_w)), multiplied((grad.t(), scale), (x, scale_x))

    class Float8Linear(nn.Linear):
        def forward(self, x):
            return Product.apply(x.flatten(0, -2), self.weight).unflatten(0, x.shape[:-1])

    for module in net.blocks.modules():
        if type(module) is nn.Linear:
            module.__class__ = Float8Linear


def by_torchao(net) -> None:
    """The same with torchao's layers."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    convert_to_float8_training(net.blocks, config=Float8LinearConfig.from_recipe_name("tensorwise"))


def measure(variant: Variant, args) -> dict:
    """Trains in this process, and returns a row."""
    sys.path.insert(0, str(paths.PACKAGE / "reference"))
    import lm
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    name, rows = variant.model or args.model, variant.rows or args.rows
    shape = lm.shape(name, args.vocabulary, args.length)
    if variant.size:
        shape = lm.Shape(shape.layers, shape.width, shape.width // variant.size, shape.vocabulary, shape.length)
    if variant.joined:
        lm.SwiGLU = joined(lm)
    with device:
        net = lm.Transformer(shape).to(getattr(torch, variant.weights))
    if variant.fp8:
        {"hand": in_fp8, "torchao": by_torchao}[variant.fp8](net)
    how = {"options": variant.options} if variant.options else {"mode": variant.mode}
    model = net
    if variant.compiled == "whole":
        model = torch.compile(net, **how)
    elif variant.compiled == "blocks":
        for block in net.blocks:
            block.compile(**how)
        lm.next_token_loss = torch.compile(lm.next_token_loss, **how)
    optimizer = torch.optim.AdamW(net.parameters(), 6e-4 if variant.text else 1e-4, fused=True)
    tokens = torch.randint(0, args.vocabulary, (rows, args.length + 1), device=device)
    if variant.text:
        train = texts.Tokens("stdlib", "train", args.length)
        rest = iter(torch.randint(len(train), (2 * variant.text + 1, rows)).tolist())
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=variant.weights == "float32" and device.type == "cuda")

    def step():
        batch = tokens
        if variant.text:
            batch = torch.stack([train[i] for i in next(rest)]).to(device)
        with autocast:
            loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach().clone()  # what CUDA graphs return is overwritten by their next step

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    count = min(variant.text, 10 * args.steps) or args.steps
    began = time.perf_counter()
    losses = [step()]
    wait()
    first_seconds = time.perf_counter() - began
    for _ in range(0 if variant.text else max(2, args.steps // 4)):
        step()
    wait()
    began = time.perf_counter()
    for _ in range(count - bool(variant.text)):
        losses.append(step())
    wait()
    seconds = (time.perf_counter() - began) / count
    parameters = sum(p.numel() for p in net.parameters())
    rate = rows * args.length / seconds
    card = cards.card(torch.cuda.get_device_name()) if device.type == "cuda" else None
    last = losses[-20:] if variant.text else losses[-1:]
    row = {"says": variant.says, "model": name, "rows": rows, "tokens_per_second": rate, "step_ms": 1000 * seconds,
           "first_step_seconds": first_seconds, "memory_gb": torch.cuda.max_memory_allocated() / 1e9 if card else None,
           "mfu": rate * shape.flops_per_token(parameters) / (card.peak["bfloat16"] * 1e12) if card else None,
           "loss": [losses[0].item(), torch.stack(last).mean().item()], "parameters": parameters, "heads": shape.heads}
    if variant.profiled and device.type == "cuda":
        row["kernels"] = kernels(step, wait)
    return row


def kernels(step, wait, most: int = 45) -> list[list]:
    """The kernels that take the most time of a step: name, ms per step, how many per step."""
    import torch

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(3):
            step()
        wait()
    found = [event for event in profiler.key_averages() if event.device_time_total > 0]  # not the calls that start them
    found.sort(key=lambda event: -event.device_time_total)
    whole = [["all kernels", sum(event.device_time_total for event in found) / 3000, sum(event.count for event in found) / 3]]
    return whole + [[event.key[:110], event.device_time_total / 3000, event.count / 3] for event in found[:most]]


def script(args) -> dict:
    """The same by train_lm.py itself, whose loop also clips gradients and keeps books."""
    size = f"--model {args.model} --length {args.length} -b {args.rows} --vocabulary {args.vocabulary} --data random"
    how = f"--amp bf16 --compile --fused --test --metric-every 10 --test-steps {args.steps + 20}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, paths.PACKAGE / "reference" / "train_lm.py", *size.split(), *how.split()]
        subprocess.run([*command, "--run-dir", folder], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)
        return of_run(Path(folder))


def of_run(folder: Path) -> dict:
    record = records.read(folder)
    found, steps = summary.numbers(record), record.steps
    return {"says": "compiled whole, by train_lm.py", "model": record.start["model"], "rows": record.start["batch_size"],
            "tokens_per_second": found["images_per_second"], "step_ms": 1000 * found["step_seconds"],
            "memory_gb": found.get("memory_allocated", 0) / 1e9 or None, "mfu": found.get("mfu"),
            "loss": [steps[0].get("loss"), steps[-1].get("loss")]}


# -------------------------------------------------------------------------------------------------------------- the page
NANOGPT = 501_800  # tokens/s of its bench.py (65.30 ms) beside `script` and `whole` of docs/results: same H200, batch and torch


def of_speed(found: dict) -> str:
    rows = [row for row in found["rows"].values() if row["model"] == found["model"] and not row.get("text")]
    head = ["version", "tokens/s", "ms per step", "of the peak in bf16", "GPU memory", "times nanoGPT"]
    return pages.table(found, head, [(
        row["says"], f"{row['tokens_per_second']:,.0f}", f"{row['step_ms']:.1f}", f"{row['mfu']:.1%}",
        f"{row['memory_gb']:.1f} GB", f"{row['tokens_per_second'] / NANOGPT:.2f}") for row in rows])


def of_fp8(found: dict) -> str:
    rows, made = found["rows"], []
    for plain, start in (("blocks", ""), ("text", "text-"), ("1b", "1b-")):
        ways = [rows.get(name) for name in (plain, f"{start}fp8", f"{start}torchao")]
        if plain in rows and any(ways[1:]):
            one = rows[plain]
            what = f"{one['model']}, {one['rows']} rows" + (f", {one['text']} steps on text" if one.get("text") else "")
            times = ["-" if not row else f"{row['step_ms']:.1f} ({one['step_ms'] / row['step_ms']:.2f})" for row in ways]
            losses = (f"{row['loss'][1]:.2{'f' if row['loss'][1] > 0.01 else 'g'}}" if row else "-" for row in ways)
            made.append((what, times[0].split()[0], *times[1:], *losses))
    head = ["training", "ms per step, bf16", "FP8 (times as fast)", "torchao's FP8", "last loss, bf16", "FP8", "torchao's"]
    return pages.table(found, head, made) if made else "Not measured yet.\n"


def page(text: str, folder: Path) -> str:
    return pages.rebuilt(text, folder, {"language": ("language", of_speed), "language_fp8": ("language", of_fp8)})


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.language", description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("variants", nargs="*", metavar="VARIANT", help=f"any of {', '.join(VARIANTS)} (all)")
    add("--model", default="124m")
    add("--length", type=int, default=1024)
    add("--rows", type=int, default=32)
    add("--vocabulary", type=int, default=50304)
    add("--steps", type=int, default=40)
    add("--out", type=Path, default=RESULTS, help="where to keep what was measured (%(default)s)")
    add("--page", action="store_true", help="write the tables of docs/day4.md again, and measure nothing")
    add("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    if unknown := [name for name in args.variants if name not in VARIANTS]:
        near = suggest.hint(unknown[0], VARIANTS)
        parser.error(f"there is no variant {unknown[0]!r}: {near}Expected are {', '.join(VARIANTS)}")
    if args.child:
        name = args.variants[0]
        print("ROW", json.dumps(script(args) if name == "script" else measure(VARIANTS[name], args)))
        return 0
    rows, left = {}, 0
    own = [f"--{name}={getattr(args, name)}" for name in ("model", "length", "rows", "vocabulary", "steps")]
    for name in args.variants or VARIANTS:
        command = [sys.executable, "-m", "dlojz.benchmarks.language", name, "--child", *own]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            said = [line[4:] for line in ended.stdout.splitlines() if line.startswith("ROW ")]
            why = "" if said else (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            said, why = [], f"more than {LIMIT} s"
        if not said:
            print(f"{name}: {why}", file=sys.stderr, flush=True)
            left += 1
            continue
        row = rows[name] = json.loads(said[0])
        print(f"{name:<10} {row['tokens_per_second']:>10,.0f} tokens/s {row['step_ms']:>9.2f} ms  MFU {row['mfu'] or 0:.1%}  "
              f"{row['memory_gb'] or 0:5.1f} GB  {row['says']}", flush=True)
        for kernel, ms, count in row.get("kernels", ()):
            print(f"    {ms:8.3f} ms {count:6.1f}  {kernel}")
        keep(rows, args)
    return int(left > 0)


def keep(rows: dict, args) -> Path:
    """Writes the rows with the machine, the versions and the date as ``language-1x-DEVICE.json``. Rows that the file has of the
    same training and torch stay, unless they are measured anew."""
    import torch

    from .day2 import _rounded

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    told = machine.describe(device)
    hardware = {name: value for name, value in told["machine"].items() if name not in ("host", "gpu_uuid")}
    name = (hardware.get("gpu") or f"{hardware['cores_allowed']} cores").lower().replace(" ", "-")
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / f"language-1x-{name}.json"
    asked = {name: getattr(args, name) for name in ("model", "length", "vocabulary", "steps")} | {"batch_size": args.rows}
    head = {"date": time.strftime("%Y-%m-%d", time.gmtime()), **asked, "machine": hardware, "versions": told["versions"]}
    made = {name: _rounded(asdict(VARIANTS[name]) | row) for name, row in rows.items()}
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if before and before["versions"]["torch"] == told["versions"]["torch"] and all(before.get(n) == asked[n] for n in asked):
        made = before["rows"] | made
    said = ",\n".join(f"  {json.dumps(name)}: {json.dumps(made[name])}" for name in VARIANTS if name in made)
    file.write_text(json.dumps(head, indent=1).removesuffix("\n}") + ',\n "rows": {\n' + said + "\n }\n}\n")
    return file


if __name__ == "__main__":
    sys.exit(main())
