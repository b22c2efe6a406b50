"""How fast the language model trains on one device, one technique per row, kept as small JSON in docs/results/.

    python -m dlojz.benchmarks.language                      the variants, each in a process of its own
    python -m dlojz.benchmarks.language eager whole          some of them
    python -m dlojz.benchmarks.language --model 1m --length 64 --rows 2 --vocabulary 320 --steps 3     a quick try

Random tokens on the device, AdamW in one kernel, no clipping, no metrics. A row: tokens/s over the timed steps, the first step in
seconds, the peak of what tensors took, and the share of the GPU's peak that the model needs (6ND and attention, over all tokens).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from ..system import cards, machine, paths, suggest

RESULTS = paths.PACKAGE.parent / "docs" / "results"
LIMIT = 120  # seconds of a variant


@dataclass(frozen=True)
class Variant:
    """``compiled``: no, whole or blocks. ``mode``: torch.compile's. ``attention``: the kernel that is preferred, by its name in
    ``SDPBackend``, or empty. ``weights``: float32 with autocast, or all in bfloat16. ``size``: numbers of a head, where it
    is not the preset's. ``profiled``: its kernels' shares are printed."""

    says: str
    compiled: str = "whole"
    mode: str = "default"
    attention: str = ""
    weights: str = "float32"
    size: int | None = None
    profiled: bool = False


VARIANTS = {
    "eager": Variant("as it is", "no"),
    "whole": Variant("compiled whole", profiled=True),
    "flash": Variant("compiled whole, FlashAttention 2", attention="FLASH_ATTENTION"),
    "heads64": Variant("compiled whole, heads of 64 numbers, as GPT-2 has", size=64),
    "bf16": Variant("compiled whole, all weights bfloat16", weights="bfloat16"),
    "graphs": Variant("compiled whole, with CUDA graphs", mode="reduce-overhead"),
    "blocks": Variant("each block compiled by itself, and the loss", "blocks"),
}


def measure(variant: Variant, args) -> dict:
    """Trains in this process, and returns a row."""
    sys.path.insert(0, str(paths.PACKAGE / "reference"))
    import lm
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    shape = lm.shape(args.model, args.vocabulary, args.length)
    if variant.size:
        shape = lm.Shape(shape.layers, shape.width, shape.width // variant.size, shape.vocabulary, shape.length)
    net = lm.Transformer(shape).to(device, getattr(torch, variant.weights))
    model, mode = net, None if variant.mode == "default" else variant.mode
    if variant.compiled == "whole":
        model = torch.compile(net, mode=mode)
    elif variant.compiled == "blocks":
        for block in net.blocks:
            block.compile(mode=mode)
        lm.next_token_loss = torch.compile(lm.next_token_loss, mode=mode)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-4, fused=True)
    tokens = torch.randint(0, args.vocabulary, (args.rows, args.length + 1), device=device)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=variant.weights == "float32" and device.type == "cuda")
    rest = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    attention = contextlib.nullcontext()
    if variant.attention and device.type == "cuda":
        attention = sdpa_kernel([getattr(SDPBackend, variant.attention), *rest], set_priority=True)

    def step():
        with autocast:
            loss = model(inputs, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    with attention:
        began = time.perf_counter()
        first = step().item()
        wait()
        first_seconds = time.perf_counter() - began
        for _ in range(max(2, args.steps // 4)):
            step()
        wait()
        began = time.perf_counter()
        for _ in range(args.steps):
            loss = step()
        wait()
        seconds = (time.perf_counter() - began) / args.steps
        parameters = sum(p.numel() for p in net.parameters())
        rate = args.rows * args.length / seconds
        card = cards.card(torch.cuda.get_device_name()) if device.type == "cuda" else None
        row = {"says": variant.says, "tokens_per_second": rate, "step_ms": 1000 * seconds, "first_step_seconds": first_seconds,
               "memory_gb": torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else None,
               "mfu": rate * shape.flops_per_token(parameters) / (card.peak["bfloat16"] * 1e12) if card else None,
               "loss": [first, loss.item()], "parameters": parameters, "heads": shape.heads}
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
    found = sorted(profiler.key_averages(), key=lambda event: -event.device_time_total)
    whole = [["all kernels", sum(event.device_time_total for event in found) / 3000, sum(event.count for event in found) / 3]]
    return whole + [[event.key[:110], event.device_time_total / 3000, event.count / 3] for event in found[:most]]


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
    add("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if unknown := [name for name in args.variants if name not in VARIANTS]:
        near = suggest.hint(unknown[0], VARIANTS)
        parser.error(f"there is no variant {unknown[0]!r}: {near}Expected are {', '.join(VARIANTS)}")
    if args.child:
        print("ROW", json.dumps(measure(VARIANTS[args.variants[0]], args)))
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
              f"{row['memory_gb'] or 0:5.1f} GB  first step {row['first_step_seconds']:.1f} s  {row['says']}", flush=True)
        for kernel, ms, count in row.get("kernels", ()):
            print(f"    {ms:8.3f} ms {count:6.1f}  {kernel}")
        keep(rows, args)
    return int(left > 0)


def keep(rows: dict, args) -> Path:
    """Writes the rows with the machine, the versions and the date as ``language-1x-DEVICE.json``."""
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
    said = ",\n".join(f"  {json.dumps(name)}: {json.dumps(_rounded(row | asdict(VARIANTS[name])))}" for name, row in rows.items())
    file.write_text(json.dumps(head, indent=1).removesuffix("\n}") + ',\n "rows": {\n' + said + "\n }\n}\n")
    return file


if __name__ == "__main__":
    sys.exit(main())
