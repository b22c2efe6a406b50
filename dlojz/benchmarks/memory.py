"""Predicted and measured memory of training steps, and what each technique that saves memory brings and costs.

    python -m dlojz.benchmarks.memory measure techniques learning snapshot       on a GPU
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
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean

import torch

from ..system import machine, paths
from ..training import memory_plan
from . import pages
from .day2 import RESULTS, _rounded

PAGE = RESULTS.with_name("day4.md")
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
    "states in 8 bits": " --optimizer adamw8", "all in bf16": " --weights bf16 --optimizer adamw16",
    "recompute, loss in 8 parts, states in 8 bits": " --checkpoint-activations --chunked-loss 8 --optimizer adamw8",
    "recompute, loss in 8 parts, all in bf16":
        " --checkpoint-activations --chunked-loss 8 --weights bf16 --optimizer adamw16",
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


def peak() -> dict:
    """Bytes: ``measured`` with what the allocator's blocks are larger than tensors, ``requested`` without."""
    if DEVICE == "cpu":
        return {"measured": 0, "requested": 0}
    return {"measured": torch.cuda.max_memory_allocated(), "requested": torch.cuda.memory_stats()["requested_bytes.all.peak"]}


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
            rows.append({"command": command, **peak()})
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
    row = {"name": name, "switches": switches.strip(), "bytes": peak()["measured"],
           "step_ms": 1000 * sorted(times)[len(times) // 2]}
    print(f"{row['bytes'] / 1e9:8.3f} GB {row['step_ms']:8.1f} ms  {name}", flush=True)
    return row


LEARNING = {  # name: switches
    "float32": "", "states in 8 bits": " --optimizer adamw8", "all in bf16": " --weights bf16 --optimizer adamw16",
    "all in bf16, rounded to the nearest": " --weights bf16"}


def learn(name: str, switches: str, tiny: bool) -> dict:
    """Trains on the standard library's sources, with train_lm.py: the loss of the last 20 steps, and that of validation."""
    size = "--model 1m --length 32 -b 2 --test-steps 3" if tiny else "--model 124m --length 512 -b 32 --test-steps 200 --amp bf16"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, paths.PACKAGE / "reference" / "train_lm.py", *size.split(), *switches.split(), "--test",
                   "--metric-every", "1", "--run-dir", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        events = [json.loads(line) for line in (Path(folder) / "record.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    row = {"name": name, "command": f"train_lm.py {size}{switches} --test", "first": losses[0], "last": fmean(losses[-20:]),
           "validation": [event["loss"] for event in events if event["event"] == "validation"][-1]}
    print(f"loss {row['first']:.3f} to {row['last']:.3f}, validation {row['validation']:.3f}  {name}", flush=True)
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


# -------------------------------------------------------------------------------------------------------------- the page
def of_plans(found: dict) -> str:
    rows = [row for row in found["predictions"] if row["command"] in PLANS]
    short = re.compile(r"--(data|image-size|length|vocabulary) \S+ ")
    return pages.table(found, ["step", "GB counted", "GB measured", "difference"], [(
        f"`{short.sub('', row['command'])}`", f"{row['predicted'] / 1e9:.2f}", f"{row['measured'] / 1e9:.2f}",
        f"{row['predicted'] / row['measured'] - 1:+.1%}") for row in rows])


def of_techniques(found: dict) -> str:
    return pages.table(found, ["technique", "GB counted", "GB measured", "ms per step"], [(
        row["name"], f"{row['predicted'] / 1e9:.2f}" if "predicted" in row else "-", f"{row['bytes'] / 1e9:.2f}",
        f"{row['step_ms']:.1f}") for row in found["techniques"]])


def of_losses(found: dict) -> str:
    return pages.table(found, ["weights, states", "first loss", "loss of the last 20 steps", "validation"], [(
        row["name"], *(f"{row[name]:.3f}" for name in ("first", "last", "validation"))) for row in found["learning"]])


def page(text: str, folder: Path) -> str:
    tables = {"memory": of_plans, "memory_techniques": of_techniques, "memory_learning": of_losses}
    return pages.rebuilt(text, folder, {name: ("memory-1x", table) for name, table in tables.items()})


PARTS = ("measure", "techniques", "learning", "snapshot", "predict")


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.memory", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results are kept (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="the smallest models, to try this script")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day4.md again, and measure nothing")
    args = parser.parse_args(argv)
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    if not args.parts or set(args.parts) - set(PARTS):
        parser.error(f"name some of {', '.join(PARTS)}")
    sys.path.insert(0, str(paths.PACKAGE / "reference"))
    name = (torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu").lower().replace(" ", "-")
    file = args.out / f"memory-1x-{name}.json"
    if args.parts == ["predict"]:
        for file in sorted(args.out.glob("memory-1x-*.json")):
            found = json.loads(file.read_text())
            found["predictions"] = predict(found["predictions"])
            for row in found["techniques"]:
                if row["switches"] or row["name"] == "as it is":
                    row["predicted"] = memory_plan.of_command(f"{BASE} {row['switches']}").peak
            keep(file, found)
        return 0
    torch.backends.cudnn.allow_tf32 = False
    told = machine.describe(torch.device(DEVICE))
    hardware = {key: value for key, value in told["machine"].items() if key not in ("host", "gpu_uuid")}
    found = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": hardware, "versions": told["versions"],
             "predictions": [], "techniques": [], "learning": []}
    if "measure" in args.parts:
        found["predictions"] = measure(args.tiny)
        keep(file, found)
    for part, one, rows in (("techniques", technique, TECHNIQUES), ("learning", learn, LEARNING)):
        for each, switches in rows.items() if part in args.parts else ():
            try:
                found[part].append(one(each, switches, args.tiny))
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
