"""What each technique brings, one on top of the other: fp32, tf32, amp, channels-last, fused optimizer, compile.

    python -m dlojz.benchmarks.ladder                              random data, on the GPU or the CPU
    python -m dlojz.benchmarks.ladder --data DIR --workers 16      JPEG files through the loader
    python -m dlojz.benchmarks.ladder --gpus 4 --rungs compile     the last rung on four GPUs

Each rung is a run of the training script in a process of its own; what is printed comes from the records.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from ..system.errors import UsageError
from .runs import loader_switches, row, run


def rungs(amp: str, cuda: bool) -> dict[str, list[str]]:
    """Name of the rung -> the switches that it adds. A CPU has no tf32."""
    ladder = {"fp32": [], "tf32": ["--tf32"], "amp": ["--amp", amp], "channels-last": ["--channels-last"], "fused": ["--fused"],
              "compile": ["--compile"]}
    if not cuda:
        del ladder["tf32"]
    return ladder


def table(rows: list[dict]) -> str:
    first = next((r["images_per_second"] for r in rows if r["images_per_second"]), None)
    lines = [f"{'rung':<16}{'images/s':>10}{'ms/step':>10}{'GB':>8}{'W':>7}{'ratio':>8}  waiting for data"]
    for r in rows:
        if not r["images_per_second"]:
            lines.append(f"{r['name']:<16}{r['error'] or 'no timed steps':>10}")
            continue
        waiting = r["phases_ms"].get("idle", 0.0) / r["step_ms"]
        watts = f"{r['power']:.0f}" if r["power"] else "-"
        lines.append(f"{r['name']:<16}{r['images_per_second']:>10.1f}{r['step_ms']:>10.2f}{r['memory_gb'] or 0:>8.2f}{watts:>7}"
                     f"{r['images_per_second'] / first:>8.2f}  {waiting:.0%}")
    return "\n".join(lines)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.ladder", description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="random", help="random, photos or a folder (%(default)s)")
    parser.add_argument("--model")
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--steps", type=int, default=60, help="per rung, the first 10 or a fifth of them warm-up (%(default)s)")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--amp", choices=["bf16", "fp16"], default="bf16")
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--rungs", nargs="+", help="only these; each has the switches of the rungs below it")
    parser.add_argument("--json", type=Path, help="write the rows there too")
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder")
    parser.add_argument("extra", nargs="*", help="after --: more switches for each run")
    args = parser.parse_args(argv)
    if args.json and not args.json.parent.is_dir():
        parser.error(f"--json {args.json}: there is no folder {args.json.parent}")
    import torch

    cuda = torch.cuda.is_available()
    common = ["--data", args.data, "--test", "--test-steps", str(args.steps), *loader_switches(args.workers, cuda)]
    for name in ("model", "image_size", "batch_size"):
        if getattr(args, name) is not None:
            common += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    rows, switches = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for name, added in rungs(args.amp, cuda).items():
            switches = switches + added
            if args.rungs and name not in args.rungs:
                continue
            try:
                record = run([*common, *switches, *args.extra], (args.keep or Path(scratch)) / name, args.gpus)
            except UsageError as error:
                print(f"{name}: {error}", file=sys.stderr)
                if rows:
                    continue
                return 2  # the first: all others would be refused as well
            rows.append(row(name, switches, record))
            print(*table(rows).splitlines()[-1 if len(rows) > 1 else 0 :], sep="\n", flush=True)
            start = record.start
    if not rows:
        return 1
    machine = start.get("machine", {})
    print(f"\n{start['model']}, {start['image_size']} px, {start['world_size']} x {start['batch_size']}, {args.data}, "
          f"{machine.get('gpu') or machine.get('cpu')}, {machine.get('cores_allowed')} cores, torch {start['versions']['torch']}")
    if args.json:
        said = {"machine": machine, "versions": start["versions"], "data": args.data, "rows": rows}
        args.json.write_text(json.dumps(said, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
