"""Predicted and measured memory of training steps, and what each technique that saves memory brings and costs.

    python -m dlojz.benchmarks.memory measure techniques snapshot       on a GPU: bytes, milliseconds, an allocator's snapshot
    python -m dlojz.benchmarks.memory predict                           anywhere: adds the predictions to what was measured

Kept as small JSON in docs/results/. A measurement is `torch.cuda.max_memory_allocated` over two steps and a validation of the
same step as the prediction runs on fake tensors; cuDNN takes the algorithms that its heuristics choose.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib
import json
import sys
import time
from pathlib import Path

import torch

from ..system import machine, paths
from ..training import memory_plan
from .day2 import RESULTS, _rounded

IMAGE = "train.py --data random --image-size 224 --model {} -b {}"
LANGUAGE = "train_lm.py --data random --length 1024 --vocabulary 50304 --model {} -b {}"
PLANS = [
    *(IMAGE.format("resnet50", 256) + more for more in (
        "", " --amp bf16", " --amp bf16 --channels-last", " --amp bf16 --channels-last --checkpoint-activations",
        " --amp bf16 --channels-last --optimizer adamw")),
    *(IMAGE.format("resnet152", 128) + more for more in (
        "", " --amp bf16 --channels-last", " --amp bf16 --channels-last --checkpoint-activations",
        " --amp bf16 --channels-last --optimizer adamw --fused")),
    *(LANGUAGE.format("124m", 16) + more for more in (
        "", " --amp bf16", " --amp bf16 --fused", " --amp bf16 --optimizer sgd", " --amp bf16 --checkpoint-activations",
        " --amp bf16 --checkpoint-activations products", " --amp bf16 --chunked-loss 8", " --amp bf16 --lora 16")),
    LANGUAGE.format("350m", 8) + " --amp bf16 --fused",
    LANGUAGE.format("1b", 4) + " --amp bf16 --checkpoint-activations --chunked-loss 8",
]
BASE = LANGUAGE.format("124m", 16) + " --amp bf16 --fused"
TECHNIQUES = {  # name: switches, or what `technique` does
    "as it is": "", "keep products": " --checkpoint-activations products", "recompute blocks": " --checkpoint-activations",
    "loss in 8 parts": " --chunked-loss 8", "recompute, loss in 8 parts": " --checkpoint-activations --chunked-loss 8",
    "LoRA, rank 16": " --lora 16", "step in the backward pass": "", "4 batches of 4": "",
    "batch of 4, activations on the host": "",
}


def on_gpu(command: str, tiny: bool):
    """The step of a command as `memory_plan` runs it, with tensors on the GPU."""
    words = command.split()
    module = importlib.import_module(words[0].removesuffix(".py"))
    args = module.arguments(words[1:])
    if tiny:
        args.batch_size, args.model, args.amp = 2, "1m" if "lm" in words[0] else "resnet18", "off"
        args.image_size, args.length, args.vocabulary = 32, 16, 320
    make = memory_plan._language if "lm" in words[0] else memory_plan._images
    with torch.device(DEVICE):
        return make(args, module)


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def cleared() -> None:
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak() -> int:
    return torch.cuda.max_memory_allocated() if DEVICE == "cuda" else 0


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def measure(tiny: bool) -> list[dict]:
    rows = []
    weight = torch.ones(64, 64, device=DEVICE)
    _ = weight @ weight, weight.bfloat16() @ weight.bfloat16()
    wait()
    rows.append({"command": "workspace of matrix products", "measured": torch.cuda.memory_allocated() if DEVICE == "cuda" else 0})
    for command in PLANS:
        cleared()
        began = time.perf_counter()
        made = on_gpu(command, tiny)
        try:
            memory_plan.steps(made, DEVICE, 2)
            wait()
            rows.append({"command": command, "measured": peak()})
        except torch.OutOfMemoryError as error:
            rows.append({"command": command, "error": str(error)[:100]})
        del made
        print(f"{rows[-1].get('measured', 0) / 1e9:8.3f} GB {time.perf_counter() - began:5.1f} s  {command}", flush=True)
    return rows


def technique(name: str, switches: str, tiny: bool) -> dict:
    """Bytes at the peak and milliseconds of a step, the median of 5."""
    saving = importlib.import_module("saving")
    cleared()
    made = on_gpu((BASE.replace("-b 16", "-b 4") if "of 4" in name else BASE) + switches, tiny)
    if name.startswith("step"):
        saving.step_in_backward(list(made.net.parameters()), functools.partial(torch.optim.AdamW, lr=1e-4, fused=True))
        made.optimizer = None
    forward, times = made.loss, []
    if name.endswith("on the host"):
        def on_host(*batch):
            with torch.autograd.graph.save_on_cpu(pin_memory=DEVICE == "cuda"):
                return forward(*batch)

        made.loss = on_host
    made.net.train()
    for number in range(3 if name.endswith("on the host") else 7):
        wait()
        began = time.perf_counter()
        for _ in range(4 if name.startswith("4 ") else 1):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=made.half is not None):
                loss = made.loss(*made.batch)
            loss.backward()
        if made.optimizer is not None:
            made.optimizer.step()
            made.optimizer.zero_grad(set_to_none=True)
        wait()
        if number > 1:
            times.append(time.perf_counter() - began)
    row = {"name": name, "switches": switches.strip(), "bytes": peak(), "step_ms": 1000 * sorted(times)[len(times) // 2]}
    print(f"{row['bytes'] / 1e9:8.3f} GB {row['step_ms']:8.1f} ms  {name}", flush=True)
    return row


def snapshot(file: Path, tiny: bool) -> None:
    """Three steps of a small model, with the allocator's history, as a pickle."""
    cleared()
    made = on_gpu("train_lm.py --data random --model 10m --length 512 --vocabulary 8192 -b 8 --amp bf16", tiny)
    if DEVICE == "cpu":
        return
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    memory_plan.steps(made, DEVICE, 2)
    wait()
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.cuda.memory._dump_snapshot(str(file))
    torch.cuda.memory._record_memory_history(enabled=None)
    print(f"{file.stat().st_size / 1e6:.1f} MB of snapshot")


def predict(rows: list[dict]) -> list[dict]:
    found = []
    for row in rows:
        if row["command"] in PLANS:
            plan = memory_plan.of_command(row["command"])
            row = {**row, "predicted": plan.peak, "parts": plan.parts}
            off = f"{row['predicted'] / row['measured'] - 1:+.1%}" if row.get("measured") else ""
            print(f"{plan.peak / 1e9:8.3f} GB predicted, {row.get('measured', 0) / 1e9:8.3f} measured {off:>7}  {row['command']}",
                  flush=True)
        found.append(row)
    return found


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.memory", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="+", choices=["measure", "techniques", "snapshot", "predict"])
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="the smallest models, to try this script")
    args = parser.parse_args(argv)
    sys.path.insert(0, str(paths.PACKAGE / "reference"))
    name = (torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu").lower().replace(" ", "-")
    file = args.out / f"memory-1x-{name}.json"
    if args.parts == ["predict"]:
        for file in sorted(args.out.glob("memory-1x-*.json")):
            found = json.loads(file.read_text())
            found["predictions"] = predict(found["predictions"])
            keep(file, found)
        return 0
    torch.backends.cudnn.allow_tf32 = False
    told = machine.describe(torch.device(DEVICE))
    hardware = {key: value for key, value in told["machine"].items() if key not in ("host", "gpu_uuid")}
    found = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": hardware, "versions": told["versions"],
             "predictions": [], "techniques": []}
    if "measure" in args.parts:
        found["predictions"] = measure(args.tiny)
        keep(file, found)
    if "techniques" in args.parts:
        for each, switches in TECHNIQUES.items():
            try:
                found["techniques"].append(technique(each, switches, args.tiny))
            except Exception as error:  # the others are measured all the same
                print(f"{each}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        keep(file, found)
    if "snapshot" in args.parts:
        snapshot(args.out / "snapshot.pickle", args.tiny)
    return 0


def keep(file: Path, found: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lists = {key: value for key, value in found.items() if isinstance(value, list)}
    head = json.dumps({key: value for key, value in found.items() if key not in lists}, indent=1).removesuffix("\n}")
    for key, value in lists.items():
        head += f',\n "{key}": [\n' + ",\n".join("  " + json.dumps(_rounded(row)) for row in value) + "\n ]"
    file.write_text(head + "\n}\n")


if __name__ == "__main__":
    sys.exit(main())
