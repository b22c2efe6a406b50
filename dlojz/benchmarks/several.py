"""What several GPUs bring to the training of a language model, kept small in docs/results/ beside the page that quotes it.

    python -m dlojz.benchmarks.several                                   all parts, with all GPUs of this machine
    python -m dlojz.benchmarks.several sizes --compile --compile-blocks  one of them, with more switches for each run
    python -m dlojz.benchmarks.several --device cpu --tiny --out DIR     a try, with sizes that say nothing
    python -m dlojz.benchmarks.several --page                            the tables of docs/day4.md anew, from what is kept

``sizes``: a copy of the model in each process (DDP), or a part (``--shard``), from 124 million to 3 billion parameters.
``hybrid``: the same processes as 2, 4, … replicas of the model. ``lm_scaling``: 1, 2, 4 and 8 processes. ``resumed``: a
checkpoint of as many processes, resumed by half of them, and back. Each row is a run of train_lm.py, kept as soon as it is over.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..system import paths, suggest
from ..system.errors import UsageError
from ..training import records, summary
from . import hardware, pages, parallel, runs

SCRIPT = paths.PACKAGE / "reference" / "train_lm.py"
COMMON = "--data random --length 1024 --vocabulary 50304 --amp bf16 --fused --metric-every 10 --test"
TINY = "--data random --length 16 --vocabulary 320 --metric-every 2 --test"
ROWS = {"124m": 32, "350m": 16, "1b": 8, "3b": 4}  # per process: what an H200 holds, also with a copy of the model
WAYS = {"a copy each (DDP)": "", "parts, blocks kept whole (ZeRO 2)": "--shard zero2", "parts (FSDP2)": "--shard"}
SAVED, DONE = 6, 12  # steps


@dataclass
class Here:
    device: str
    tiny: bool
    processes: int
    switches: list[str]
    limit: float

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    def run(self, switches: str, folder: Path, processes: int | None = None) -> records.Record:
        """Raises UsageError where it was refused, has failed, or was not done in time."""
        words = [*switches.split(), *self.switches, "--device", self.device]
        try:
            record = runs.run(words, folder, processes or self.processes, SCRIPT, self.limit)
        except subprocess.TimeoutExpired:
            raise UsageError(f"not done after {self.limit:g} s") from None
        if record.errors:
            raise UsageError(record.errors[-1]["message"])
        return record

    def timed(self, name: str, model: str, switches: str, steps: int, processes: int | None = None) -> dict:
        """A row; ``error`` says why there are no numbers in it."""
        size = f"{TINY} --model 1m -b 2" if self.tiny else f"{COMMON} --model {model} -b {ROWS[model]}"
        processes = processes or self.processes
        row = {"name": name, "model": model, "rows": ROWS[model], "processes": processes}
        try:
            with tempfile.TemporaryDirectory() as folder:
                record = self.run(f"{size} {switches} --test-steps {5 if self.tiny else steps}", Path(folder), processes)
        except UsageError as error:
            print(f"{name}, {model}: {error}", file=sys.stderr)
            return row | {"switches": switches, "error": str(error)[:300]}
        found = runs.row(name, switches.split(), record)
        held = sum(record.end.get(f"bytes_{what}", 0) for what in ("parameters", "gradients", "states"))
        row |= {key: found[key] for key in ("switches", "step_ms", "memory_gb", "power")} | {
            "tokens_per_second": found["images_per_second"], "held_gb": held / 1e9, "mfu": summary.numbers(record).get("mfu"),
            "loss": summary.numbers(record).get("loss"), "parameters": record.start["parameters"]}
        print(f"{name}, {model}, {processes} processes: {row['tokens_per_second']:,.0f} tokens/s, {row['memory_gb']:.2f} GB",
              flush=True)
        return row


# ----------------------------------------------------------------------------------------------------------------- parts
def sizes(here: Here) -> Iterator[dict]:
    """The largest first: it shows most."""
    for model in reversed(ROWS):
        for name, switches in WAYS.items():
            if "zero2" not in switches or model == "1b":
                yield here.timed(name, model, switches, steps=20)


def hybrid(here: Here) -> Iterator[dict]:
    """Up to a model in each process; one over all of them is among the rows of `sizes`."""
    for replicas in (count for count in (2, 4, 8) if here.processes % count == 0):
        each = here.processes // replicas
        name = f"{replicas} replicas of {each} part{'s' * (each > 1)}"
        yield here.timed(name, "1b", f"--shard --replicas {replicas}", steps=20)


def lm_scaling(here: Here) -> Iterator[dict]:
    counts = sorted({count for count in (1, 2, 4, 8, here.processes) if count <= here.processes})
    for name, switches in (("as it is", ""), ("each block compiled", "--compile --compile-blocks")):
        for count in counts if here.cuda or not switches else ():
            yield here.timed(name, "124m", switches, 40, count)


def resumed(here: Here) -> Iterator[dict]:
    """Losses beside those of a run that was not interrupted, with as many rows in each step. Without the states of the optimizer
    they would differ in the second step after the checkpoint."""
    size = "--data stdlib --shard --metric-every 1 --test " + (
        "--model 1m --length 16" if here.tiny else "--model 124m --length 512")
    rows, many, few = 16 if here.processes <= 16 else here.processes, here.processes, max(1, here.processes // 2)
    with tempfile.TemporaryDirectory() as folder:
        def run(name: str, processes: int, steps: int) -> records.Record:
            return here.run(f"{size} -b {rows // processes} --test-steps {steps} --resume --checkpoint-every {SAVED}",
                            Path(folder, name), processes)

        straight = run("straight", many, DONE)
        for first, second in ((many, few), (few, many)):
            name = f"by-{first}"
            saved, record = run(name, first, SAVED), run(name, second, DONE)
            losses = [[step["loss"] for step in one.steps[SAVED:DONE]] for one in (record, straight)]
            yield {"saved_by": first, "resumed_by": second, "resumed_at": record.start["resumed_at"], "steps": len(losses[0]),
                   "loss": max(abs(mine / right - 1) for mine, right in zip(*losses, strict=True)),
                   "validation": abs(record.validations[-1]["loss"] / straight.validations[-1]["loss"] - 1),
                   "states_gb": [one.end["bytes_states"] / 1e9 for one in (saved, record)],
                   **{what: saved.checkpoints[-1][what] for what in ("bytes", "seconds")}}


PARTS = {"sizes": sizes, "hybrid": hybrid, "lm_scaling": lm_scaling, "resumed": resumed}
PREFIX = "several_"


def described(part: str, here: Here, rows: list[dict]) -> dict:
    common = TINY if here.tiny else COMMON
    return hardware.described(PREFIX + part, here, rows) | {
        "processes": here.processes, "backend": "nccl" if here.cuda else "gloo",
        "common": " ".join([common, *here.switches]) if part != "resumed" else "--data stdlib --model 124m --length 512"}


# -------------------------------------------------------------------------------------------------------------- the page
def _speed(row: dict) -> list[str]:
    if "error" in row:
        return [row["error"].partition(".")[0], *[""] * 4]
    mfu = f"{row['mfu']:.1%}" if row.get("mfu") else "-"
    return [f"{row['tokens_per_second']:,.0f}", f"{row['step_ms']:.1f}", mfu, f"{row['memory_gb']:.1f} GB",
            f"{row['held_gb']:.1f} GB"]


HEAD = ["tokens/s", "ms per step", "of the peak in bf16", "GPU memory of a process", "parameters, gradients, states"]


def _of_ways(rows: list[dict]) -> tuple[list, list]:
    return ["model, rows per process, way", *HEAD], [
        (f"{row['model']}, {row['rows']}, {row['name']}", *_speed(row)) for row in rows]


def _of_scaling(rows: list[dict]) -> tuple[list, list]:
    alone = {row["name"]: row["tokens_per_second"] for row in rows if row["processes"] == 1 and "error" not in row}
    return ["train_lm.py, processes", "efficiency", *HEAD], [
        (f"{row['name']}, {row['processes']}",
         f"{row['tokens_per_second'] / row['processes'] / alone[row['name']]:.3f}" if "error" not in row and row["name"] in alone
         else "-", *_speed(row)) for row in rows]


def _of_resumed(rows: list[dict]) -> tuple[list, list]:
    return ["saved by, resumed by", "losses differ by", "validation by", "checkpoint", "written in"], [
        (f"{row['saved_by']}, {row['resumed_by']}", f"{row['loss']:.0e}", f"{row['validation']:.0e}",
         f"{row['bytes'] / 1e9:.2f} GB", f"{row['seconds']:.2f} s" if "seconds" in row else "-") for row in rows]


TABLES = {"sizes": _of_ways, "hybrid": _of_ways, "lm_scaling": _of_scaling, "resumed": _of_resumed}


def table(found: dict) -> str:
    said = f"{found['processes']} processes, {found['backend']}, `{found['common']}`"
    return pages.table(found, *TABLES[found["suite"].removeprefix(PREFIX)](found["rows"]), said)


def page(text: str, folder: Path) -> str:
    return pages.rebuilt(text, folder, {PREFIX + part: (PREFIX + part, table) for part in PARTS})


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.several", description=__doc__.split("\n\n")[0],
                                     allow_abbrev=False)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (all)")
    parser.add_argument("--processes", type=int, help="(as many as there are GPUs, else 2)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(the GPUs, where there are several)")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a run at most (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it out; keep them elsewhere (--out)")
    parser.add_argument("--page", action="store_true", help="write the tables of docs/day4.md again, and measure nothing")
    parser.add_argument("--out", type=Path, default=hardware.RESULTS, help="where to keep what was measured (%(default)s)")
    args, switches = parser.parse_known_args(argv)
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: {suggest.hint(unknown[0], PARTS)}Expected are {', '.join(PARTS)}")
    if args.page:
        parallel.PAGE.write_text(page(parallel.PAGE.read_text(encoding="utf-8"), args.out), encoding="utf-8")
        return 0
    import torch

    gpus = torch.cuda.device_count()
    device = args.device or ("cuda" if gpus > 1 else "cpu")
    processes = args.processes or (gpus if device == "cuda" else 2)
    if device == "cuda" and processes > gpus:
        parser.error(f"{processes} processes need as many GPUs, and there are {gpus}")
    here = Here(device, args.tiny, processes, switches, args.limit)
    begun = time.perf_counter()
    code = hardware.measure({part: PARTS[part] for part in args.parts or PARTS}, here, described, args.out)
    print(f"{time.perf_counter() - begun:.0f} s in all")
    return code


if __name__ == "__main__":
    sys.exit(main())
