"""What the second day's techniques bring and what they cost, kept small in docs/results/ beside the page that quotes it.

    python -m dlojz.benchmarks.day2 loader augment --data DIR        one process (DIR: see `python -m dlojz.data --help`)
    python -m dlojz.benchmarks.day2 scaling metrics syncbn unused    as many processes as there are GPUs
    python -m dlojz.benchmarks.day2 --page                           the tables of docs/day2.md anew, from what is kept

Each trial is a run of the training script in a process of its own; what is kept comes from the records.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ..system import machine, paths, suggest
from ..system.errors import UsageError
from ..training import records
from .runs import loader_switches, row, run

RESULTS = paths.PACKAGE.parent / "docs" / "results"
PAGE = paths.PACKAGE.parent / "docs" / "day2.md"
FAST = {True: "--tf32 --amp bf16 --channels-last --fused", False: "--channels-last"}  # with a GPU, without
MARK = re.compile(r"(?s)(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)")


@dataclass(frozen=True)
class Trial:
    """A run: its name in the table, the switches that it adds, the data it reads (random: tensors on the device); ``slow``: it
    makes half of the steps."""

    name: str
    switches: str = ""
    data: str = "random"
    processes: int = 1
    slow: bool = False


@dataclass(frozen=True)
class Here:
    """What a machine measures with: an image folder, loader processes, training processes."""

    data: str
    workers: int
    processes: int
    cuda: bool


# ------------------------------------------------------------------------------------------------------------ the suites
def loader(here: Here) -> list[Trial]:
    """One switch on top of the other, from everything off; first of all what the device could do."""
    counts = sorted({count for count in (1, 4, 8, here.workers) if count <= here.workers})
    trials = [Trial("random data"), Trial("no workers", "", here.data, slow=True)]
    trials += [Trial(f"{count} worker{'s' * (count > 1)}", f"--num-workers {count}", here.data, slow=count == 1)
               for count in counts]
    switches = f"--num-workers {here.workers}"
    on_gpu = [("pinned memory", "--pin-memory"), ("non-blocking copies", "--non-blocking")] if here.cuda else []
    for name, added in (*on_gpu, ("4 batches ahead", "--prefetch-factor 4"), ("last batch dropped", "--drop-last"),
                        ("kept workers", "--persistent-workers")):
        switches += f" {added}"
        trials.append(Trial(f"+ {name}", switches, here.data))
    return trials


def augment(here: Here) -> list[Trial]:
    """With all workers, and with half of them, as where others share a node: what is done to images on the CPU waits for these,
    the rest for the device."""
    names = {here.workers: ("none", "randaugment", "mixup-cpu", "mixup", "cutmix-loop", "cutmix"),
             here.workers // 2: ("none", "randaugment", "mixup-cpu", "mixup")}
    return [Trial(f"{name}, {count} worker{'s' * (count > 1)}",
                  f"--augment {name} {' '.join(loader_switches(count, here.cuda))}", here.data)
            for count, some in names.items() if count for name in some]


def scaling(here: Here) -> list[Trial]:
    counts = sorted({count for count in (1, 2, 4, 8, here.processes) if count <= here.processes})
    return [Trial(f"{count} process{'es' * (count > 1)}", processes=count) for count in counts]


def metrics(here: Here) -> list[Trial]:
    named = {"every step": 1, "every 8 steps": 8, "every 50 steps": 50}
    return [Trial(name, f"--metric-every {count}", processes=here.processes) for name, count in named.items()]


def syncbn(here: Here) -> list[Trial]:
    if not here.cuda:
        return []  # torch has it for GPUs only
    return _off_and_on(here, "of each process", "of all processes", "--sync-bn")


def unused(here: Here) -> list[Trial]:
    return _off_and_on(here, "not searched", "searched", "--find-unused-parameters")


def _off_and_on(here: Here, off: str, on: str, switch: str) -> list[Trial]:
    return [Trial(name, added, processes=here.processes) for name, added in ((off, ""), (on, switch))]


SUITES = {
    "loader": (loader, "the loader, one more switch per row"),
    "augment": (augment, "augmentation on the CPU and on the device"),
    "scaling": (scaling, "more processes, same batch per process"),
    "metrics": (metrics, "loss and accuracy summed over all processes"),
    "syncbn": (syncbn, "the statistics of batch norm"),
    "unused": (unused, "the search for unused parameters"),
}


# ------------------------------------------------------------------------------------------------------------- measuring
def measure(suite: str, here: Here, steps: int, extra: list[str], folder: Path, done=lambda found: None) -> dict:
    """Runs all trials of a suite, each in a folder of its own in ``folder``; returns what `keep` writes. ``done`` is given the
    same after each of them, with the rows that there are."""
    rows, start, trials = [], {}, SUITES[suite][0](here)
    most = max(trial.processes for trial in trials)
    for number, trial in enumerate(trials):
        switches = [*FAST[here.cuda].split(), *extra, *trial.switches.split(), "--data", trial.data]
        switches += ["--test", "--test-steps", str(steps // (1 + trial.slow))]
        try:
            record = run(switches, folder / f"{number:02d}", trial.processes)
        except UsageError as error:
            print(f"{suite}, {trial.name}: {error}", file=sys.stderr)
            if not rows:
                break  # the first: all others would be refused as well
            continue
        start = record.start or start
        rows.append(kept(trial.name, trial.switches, record))
        print(f"{suite:<10}{trial.name:<26}{_number(rows[-1]['images_per_second']):>8} images/s", flush=True)
        done(described(suite, FAST[here.cuda], start, rows, most))
    return described(suite, FAST[here.cuda], start, rows, most)


def kept(name: str, switches: str, record: records.Record) -> dict:
    """A row, with two more numbers: the processes, and the wait for the loader in the first step of all."""
    first = record.steps[0] if record.steps else {}
    return {**row(name, switches.split(), record), "processes": record.start.get("world_size"),
            "first_step_ms": first["seconds"] * 1000 if "seconds" in first else None}


def described(suite: str, common: str, start: dict, rows: list[dict], processes: int) -> dict:
    """A suite's rows with what is needed to compare them later: the machine, versions, model, sizes and the date."""
    told = {name: start.get(name) for name in ("model", "image_size", "batch_size")}
    hardware = {name: value for name, value in start.get("machine", {}).items() if name not in ("host", "gpu_uuid")}
    return {"suite": suite, "date": time.strftime("%Y-%m-%d", time.gmtime(start.get("time"))), **told, "common": common,
            "processes": processes, "machine": hardware, "versions": start.get("versions", {}), "rows": rows}


def file_of(found: dict, folder: Path) -> Path:
    """``SUITE-PROCESSESx-DEVICE.json``; of one process where nothing is said."""
    device = found["machine"].get("gpu") or f"{found['machine'].get('cores_allowed')} cores"
    count = found.get("processes", found.get("gpus", 1))
    return folder / f"{found['suite']}-{count}x-{re.sub(r'[^a-z0-9]+', '-', device.lower()).strip('-')}.json"


def keep(found: dict, folder: Path) -> Path:
    """Writes a suite's result as `file_of` names it, one row a line, numbers with four figures."""
    file = file_of(found, folder)
    head = {name: value for name, value in found.items() if name != "rows"}
    rows = ",\n".join("  " + json.dumps(_rounded(r)) for r in found["rows"])
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(head, indent=1).removesuffix("\n}") + ',\n "rows": [\n' + rows + "\n ]\n}\n")
    return file


def _rounded(value):
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return float(f"{value:.4g}") if isinstance(value, float) else value


# -------------------------------------------------------------------------------------------------------------- the page
def page(text: str, folder: Path) -> str:
    """The page with its tables made anew: between ``<!-- results: SUITE -->`` and its end, one for each kept file."""
    def tables(match: re.Match) -> str:
        files = sorted(folder.glob(f"{match[2]}-*.json"))
        made = [table(json.loads(file.read_text(encoding="utf-8"))) for file in files]
        return match[1] + "\n".join(made or ["Not measured yet.\n"]) + match[3]

    return MARK.sub(tables, text)


def table(found: dict) -> str:
    """A kept result as Markdown, with the machine above it."""
    hardware, versions, rows = found["machine"], found["versions"], found["rows"]
    on = hardware.get("gpu") or hardware.get("cpu")
    said = (f"{on}, {hardware.get('cores_allowed')} cores, torch {versions.get('torch')}, {found['date']}: {found['model']}, "
            f"{found['image_size']} px, {found['batch_size']} images per process, `{found['common']}`.")
    ratio = "ratio" if len({r["processes"] for r in rows}) == 1 else "efficiency"
    head = [SUITES[found["suite"]][1], "images/s", ratio, "ms per step", "waiting for data", "copying, ms", "first step, s"]
    lines = [said, "", f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    first = next((r["images_per_second"] / r["processes"] for r in rows if r["images_per_second"]), None)
    for r in rows:
        if not r["images_per_second"]:
            lines.append(f"| {r['name']} | {r['error'] or 'no timed steps'} | | | | | |")
            continue
        speed, waiting = r["images_per_second"], r["phases_ms"].get("idle", 0.0) / r["step_ms"]
        share = speed / r["processes"] / first
        lines.append(f"| {r['name']} | {_number(speed)} | {share:.3f} | {r['step_ms']:.1f} | {waiting:.0%} "
                     f"| {r['phases_ms'].get('copy', 0.0):.1f} | {(r['first_step_ms'] or 0) / 1000:.1f} |")
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.day2", description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"any of {', '.join(SUITES)}")
    parser.add_argument("--data", default="photos", help="for what reads images: photos, or a folder (%(default)s)")
    parser.add_argument("--workers", type=int, help="the most loader processes (two less than the cores)")
    parser.add_argument("--processes", type=int, help="training processes (the GPUs that there are, else 2)")
    parser.add_argument("--steps", type=int, default=60, help="a run, the first 10 or a fifth of them warm-up (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep what was measured (%(default)s)")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day2.md again, and measure nothing")
    args, extra = parser.parse_known_args(argv)
    if unknown := [name for name in args.suites if name not in SUITES]:
        parser.error(f"there is no suite {unknown[0]!r}: {suggest.hint(unknown[0], SUITES)}Expected are {', '.join(SUITES)}")
    if args.page and not args.out.is_dir():
        parser.error(f"--out {args.out}: there is no such folder")
    if args.page:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    if not args.suites:
        parser.error(f"name a suite: {', '.join(SUITES)}")
    import torch

    gpus = torch.cuda.device_count()
    workers = max(1, machine.cores_allowed() - 2) if args.workers is None else args.workers
    here = Here(args.data, workers, args.processes or gpus or 2, gpus > 0)
    left = 0
    for suite in args.suites:
        if not (planned := SUITES[suite][0](here)):
            print(f"{suite}: this needs a GPU", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            try:
                found = measure(suite, here, args.steps, extra, Path(scratch), lambda some: keep(some, args.out))
            except KeyboardInterrupt:
                print(f"{suite}: interrupted; what was measured until then is kept in {args.out}", file=sys.stderr)
                return 130
        if found["rows"]:
            print(f"kept in {keep(found, args.out)}")
        left += len(planned) - len(found["rows"])
    if left:
        print(f"{left} of the runs were refused, or failed before they began", file=sys.stderr)
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())
