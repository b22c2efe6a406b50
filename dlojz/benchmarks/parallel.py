"""What links and ways of splitting a model cost between the processes of one machine, kept small in docs/results/ beside the page
that quotes it.

    python -m dlojz.benchmarks.parallel                            all parts, in as many processes as there are GPUs (else 2)
    python -m dlojz.benchmarks.parallel pipeline --processes 4     one of them
    python -m dlojz.benchmarks.parallel --tiny --out DIR           a try, with sizes that say nothing
    python -m dlojz.benchmarks.parallel --page                     the tables of docs/day4.md anew, from what is kept

Each part is a run of train_parallel.py: NCCL with a GPU for each process, else gloo on the CPU. What a part has measured before
it fails is kept. Without GPUs the devices of ``pipeline`` wait instead of computing, so that they need no cores of their own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..system import paths, suggest
from ..training import records
from . import day2, runs
from .day2 import MARK

SCRIPT = paths.PACKAGE / "reference" / "train_parallel.py"
PAGE = paths.PACKAGE.parent / "docs" / "day4.md"
PREFIX = "parallel_"  # of suites, so that they are not those of day 2
INTERRUPTED = "interrupted"
LONG = ("spans", "orders")  # fields that figures draw, and no page quotes
NET = "--width 4096 --heads 32 --vocabulary 32768 --length 2048 --rows 4"
PARTS = {  # switches on GPUs, on CPUs
    "links": ("--largest 1073741824", ""),
    "tensor": (NET, ""),
    "pipeline": ("--wait 0 --width 8192 --rows 1024", ""),
    "context": ("--width 4096 --heads 32 --length 2048 --rows 1", ""),
    "two": (NET, ""),
}
TINY = "--blocks 2 --width 16 --length 8 --rows 4 --largest 4096 --seconds 0.02 --wait 0.5 --microbatches 4"


def measure(part: str, switches: str, processes: int, device: str, limit: float) -> dict:
    """One run of a part, to its rows, and the machine's description. Rows that were written before it failed are there, and
    ``error`` says how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        words = [part, *switches.split(), "--device", device, "--run-dir", folder]
        try:
            done = runs.launched(SCRIPT, words, processes, limit)
            error = "" if not done.returncode else (done.stderr.strip().splitlines() or ["no message"])[-1]
        except subprocess.TimeoutExpired:
            error = f"not done after {limit:g} s"
        except KeyboardInterrupt:
            error = INTERRUPTED
        record = records.read(folder)
        error = next((one["message"] for one in record.events if one["event"] == "error"), error)
    rows = [{name: value for name, value in (event | simulated(event, processes)).items() if name not in
             ("event", "time", "part", *LONG)} for event in record.events if event["event"] == "row"]
    start = record.start or {}
    hardware = {name: value for name, value in start.get("machine", {}).items() if name not in ("host", "gpu_uuid")}
    return {"suite": PREFIX + part, "date": time.strftime("%Y-%m-%d", time.gmtime()), "switches": switches,
            "processes": processes, "backend": "nccl" if device == "cuda" else "gloo", "machine": hardware,
            "versions": start.get("versions", {}), "rows": rows} | ({"error": error} if error else {})


def simulated(row: dict, devices: int) -> dict:
    """The bubble of a pipeline's schedule where sending takes no time and all products take the same, by the kit's `simulate`: of
    torch's own order of actions, and for GPipe and 1F1B, which show none, of the kit's."""
    if "bubble" not in row:
        return {}
    kit, chunks = _kit(), row["chunks"]
    make = kit.gpipe if row["schedule"] == "GPipe" else kit.one_f_one_b
    orders = [[tuple(action) for action in order] for order in row["orders"]] if row["orders"] else [
        make(device, devices, row["microbatches"]) for device in range(devices)]
    times = kit.simulate(orders, {kind: (2 if kind == "B" else 1) / chunks for kind in "FBIW"})
    return {"simulated": max(0.0, 1 - 3 * row["microbatches"] / max(end for _, end in times.values()))}


def _kit():
    if str(SCRIPT.parent) not in sys.path:
        sys.path.insert(0, str(SCRIPT.parent))
    return __import__("parallelism")


# -------------------------------------------------------------------------------------------------------------- the page
def table(found: dict) -> str:
    """A kept part as Markdown, with the machine above it."""
    hardware, part = found["machine"], found["suite"].removeprefix(PREFIX)
    on = hardware.get("gpu") or f"{hardware.get('cpu')}, {hardware.get('cores_allowed')} cores"
    head, rows = TABLES[part](found["rows"])
    said = f"{on}, {found['processes']} processes, {found['backend']}, torch {found['versions'].get('torch')}, {found['date']}."
    if part == "links":
        latency, bandwidth = _kit().fit(*zip(*((row["bytes"], row["seconds"]) for row in found["rows"])))
        said += f" Fitted: {_time(latency)} + size / ({bandwidth / 1e9:,.1f} GB/s)."
    lines = [said, "", f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _of_links(rows: list[dict]) -> tuple[list, list]:
    return ["message", "time", "MB/s"], [(f"{row['bytes']:,} bytes", _time(row["seconds"]),
                                          f"{row['bytes'] / row['seconds'] / 1e6:,.1f}") for row in rows]


def _of_training(rows: list[dict]) -> tuple[list, list]:
    head = ["way", "loss differs by", "gradients by", "of the parameters", "sent forward", "backward", "ms", "one process"]
    return head, [(row["way"], f"{row['loss']:.0e}", f"{row['gradient']:.0e}", f"{row['held'] / row['parameters']:.0%}",
                   _sent(row["sent_forward"]), _sent(row["sent_backward"]), f"{row['seconds'] * 1e3:.1f}",
                   f"{row['alone'] * 1e3:.1f}" if "alone" in row else "-") for row in rows]


def _of_pipeline(rows: list[dict]) -> tuple[list, list]:
    return ["schedule", "stages", "step", "not work", "simulated", "loss differs by", "gradients by"], [
        (row["schedule"], f"{row['stages']}", _time(row["seconds"]), f"{row['bubble']:.1%}",
         f"{row['simulated']:.1%}" if "simulated" in row else "-", f"{row['loss']:.0e}", f"{row['gradient']:.0e}")
        for row in rows if "seconds" in row]


def _of_context(rows: list[dict]) -> tuple[list, list]:
    return ["way", "tokens", "result differs by", "gradients by", "sent", "time"], [
        (row["way"], f"{row['tokens']:,}", f"{row['result']:.0e}", f"{row['gradient']:.0e}", _sent(row["sent"]),
         _time(row["seconds"])) for row in rows]


def _sent(facts: dict) -> str:
    return ", ".join(f"{one['count']} {kind.replace('_', '-')}" for kind, one in facts.items() if kind != "recv")


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.3g} ms"


TABLES = {"links": _of_links, "tensor": _of_training, "two": _of_training, "pipeline": _of_pipeline, "context": _of_context}


def page(text: str, folder: Path) -> str:
    """The page with the tables of these parts made anew, between ``<!-- results: parallel_PART -->`` and its end."""
    def tables(match) -> str:
        if match[2].removeprefix(PREFIX) not in TABLES:
            return match[0]
        files = sorted(folder.glob(f"{match[2]}-*.json"))
        return match[1] + "\n".join(table(json.loads(file.read_text(encoding="utf-8"))) for file in files) + match[3]

    return MARK.sub(tables, text)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.parallel", description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (all)")
    parser.add_argument("--processes", type=int, help="(as many as there are GPUs, else 2; two: 4)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(the GPUs, where there are several)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a part at most (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it out; keep them elsewhere (--out)")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day4.md again, and measure nothing")
    parser.add_argument("--out", type=Path, default=day2.RESULTS, help="where to keep what was measured (%(default)s)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: {suggest.hint(unknown[0], PARTS)}Expected are {', '.join(PARTS)}")
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    import torch

    gpus = torch.cuda.device_count()
    device = args.device or ("cuda" if gpus > 1 else "cpu")
    failed = 0
    for part in args.parts or PARTS:
        processes = args.processes or (gpus if device == "cuda" else 4 if part == "two" else 2)
        if device == "cuda" and processes > gpus:
            print(f"{part}: {processes} processes need as many GPUs, and there are {gpus}: --device cpu", file=sys.stderr)
            failed += 1
            continue
        begun, switches = time.perf_counter(), TINY if args.tiny else PARTS[part][device == "cpu"]
        found = measure(part, switches, processes, device, args.limit)
        if "error" in found:
            failed += 1
            print(f"{part}: {found['error']}", file=sys.stderr)
        if found["rows"]:
            file = day2.keep(found, args.out)
            print(f"{part}: {len(found['rows'])} rows in {time.perf_counter() - begun:.0f} s, kept in {file}", flush=True)
        if found.get("error") == INTERRUPTED:
            return 130
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
