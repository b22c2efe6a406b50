"""What a search of hyperparameters costs and finds on a GPU, kept small in docs/results/.

    python -m dlojz.benchmarks.searching                       all parts, about four minutes on a GPU
    python -m dlojz.benchmarks.searching search transfer       some of them
    python -m dlojz.benchmarks.searching --device cpu --tiny   a try, with sizes that say nothing

``search``: one journal, four workers on each GPU; a row for each trial, with seconds since the first was taken, then one for the
whole. ``confirm``: the three best of it with five new seeds, on validation and test. ``transfer``: training loss against the
learning rate by width, standard and muP. ``workers``: the same 16 trainings by 2 and 4 workers on one GPU and on two. ``curves``:
81 random trials to their end, with which pruners are compared. Needs Optuna.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..system import paths, suggest
from ..training import trials
from . import hardware

RESULTS = paths.PACKAGE.parent / "docs" / "results"
SCRIPT = paths.PACKAGE / "reference" / "search.py"
SEEDS = range(1001, 1006)  # of `confirm`: none of them is the number of a trial
FINALISTS = 3


@dataclass
class Here:
    device: str
    tiny: bool
    out: Path

    @property
    def gpus(self) -> int:
        """How many it may use; 1 without any."""
        import torch

        return max(1, torch.cuda.device_count() if self.cuda else 0)

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    @property
    def images(self) -> list[int] | None:
        return [300, 100, 100] if self.tiny else None


def ran(here: Here, workers: int, *switches: str, **env: str) -> tuple[list[dict], dict]:
    """The trials of a search as they are in its journal, and what is true of the whole."""
    with tempfile.TemporaryDirectory() as scratch:
        journal = f"{scratch}/search.journal"
        command = [sys.executable, str(SCRIPT), "--journal", journal, "--workers", str(workers), "--device", here.device]
        command += [*switches, *(["--images", *map(str, here.images), "--epochs", "3"] if here.tiny else [])]
        begun = time.perf_counter()
        subprocess.run(command, check=True, env=os.environ | env)
        took = time.perf_counter() - begun
        study = trials.Search(journal).study
        rows, used = trials.rows(study), trials.account(study)
    for row in rows:
        row["workers"] = [[worker, round(begin, 2)] for worker, begin in row["workers"]]
    return rows, {"workers": workers, "trials": len(rows), "command": took, "seconds": max(row["end"] for row in rows),
                  "epochs": sum(len(row["errors"]) for row in rows), **used}


def search(here: Here) -> Iterator[dict]:
    """A row for each trial of a search, and one of the whole."""
    rows, whole = ran(here, 2 if here.tiny else 4 * here.gpus, "--trials", "8" if here.tiny else "120")
    yield from rows
    yield {"what": "whole", "sampler": "tpe", "pruner": "yours", **whole}


def workers(here: Here) -> Iterator[dict]:
    """The same trainings, random ones and none pruned, by so many workers on so many GPUs."""
    for gpus, count in ((1, 2),) if here.tiny else ((2, 4), (2, 2), (1, 4), (1, 2)):
        if gpus > here.gpus:
            continue
        allowed = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1").split(",")
        rows, whole = ran(here, count, "--trials", "4" if here.tiny else "16", "--sampler", "random", "--pruner", "none",
                          CUDA_VISIBLE_DEVICES=",".join(allowed[:gpus]))
        seen, later = set(), []
        for row in rows:
            (worker, _), = row["workers"]
            later += [row["end"] - row["begin"]] if worker in seen else []  # its first training loads kernels
            seen.add(worker)
        yield {"gpus": gpus, **whole, "training": statistics.median(later)}


def curves(here: Here) -> Iterator[dict]:
    """Random trials of which none is pruned: what pruners are compared with afterwards."""
    rows, _ = ran(here, 2 if here.tiny else 4 * here.gpus, "--trials", "4" if here.tiny else "81", "--sampler", "random",
                  "--pruner", "none")
    for row in rows:
        yield {name: row[name] for name in ("number", "params", "errors")}


def confirm(here: Here) -> Iterator[dict]:
    """After `search`: what it kept says who the finalists are."""
    import torch

    kit = _kit()
    (kept,) = here.out.glob("hpo_search-1x-*.json")
    found = json.loads(kept.read_text())["rows"]
    finalists = sorted((row for row in found if row.get("state") == "complete"), key=lambda row: row["value"])[:FINALISTS]
    data, meter = kit.load(here.device, here.images), trials.meter_of(here.device)
    list(kit.trained(finalists[0]["params"], data.train, 0, 1))  # the first training loads kernels
    for row in finalists:
        for seed in SEEDS:
            begun, before = time.perf_counter(), meter.read()
            *_, net = kit.trained(row["params"], data.train, seed, kit.EPOCHS)
            if here.cuda:
                torch.cuda.synchronize()
            took, after = time.perf_counter() - begun, meter.read()
            joules = after[1] - before[1] if before and after else None
            yield {"number": row["number"], "searched": row["value"], "seed": seed, "seconds": took, "joules": joules,
                   "validation": kit.error(net, data.validation), "test": kit.error(net, data.test)}


def transfer(here: Here) -> Iterator[dict]:
    kit = _kit()
    data = kit.load(here.device, here.images or [20_000, 100, 100])
    rates = [2.0**-8] if here.tiny else [2.0**power for power in range(-13, -4)]
    yield from kit.transfer(data, (64, 128) if here.tiny else (64, 128, 256, 1024, 4096), rates, epochs=2)


PARTS = {"search": search, "transfer": transfer, "confirm": confirm, "workers": workers, "curves": curves}


def _kit():
    if str(SCRIPT.parent) not in sys.path:
        sys.path.insert(0, str(SCRIPT.parent))
    return __import__("search")


def described(part: str, here, rows: list[dict]) -> dict:
    found = hardware.described(f"hpo_{part}", here, rows)
    found["versions"]["optuna"] = trials.library().__version__
    return found | ({"gpus": here.gpus} if part in ("search", "workers", "curves") else {})


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlojz.benchmarks.searching", description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)} (all)")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="(the GPU, where there is one)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try it out; keep them elsewhere (--out)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where to keep what was measured (%(default)s)")
    args = parser.parse_args(argv)
    if unknown := [name for name in args.parts if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}: {suggest.hint(unknown[0], PARTS)}Expected are {', '.join(PARTS)}")
    import torch

    here = Here(args.device or ("cuda" if torch.cuda.is_available() else "cpu"), args.tiny, args.out)
    return hardware.measure({part: PARTS[part] for part in args.parts or PARTS}, here, described, args.out)


if __name__ == "__main__":
    sys.exit(main())
