"""Figures for the notebook about optimizers: bytes and times of updates, schedules, steps to a loss against the batch size."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ...jobs import runs
from ...system import machine, paths, sites, workspace
from ...system.errors import UsageError
from ...ui import charts, tables, words
from ...ui.charts import Line
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import GREEN, INK, MEMORY_PARTS, RUNS, VERMILLION
from . import updates

# bytes of float32 per parameter
STATE = {"sgd, no momentum": 0, "sgd": 4, "lars": 4, "lion": 4, "muon": 4, "adamw": 8, "lamb": 8}
RESNET50 = 25_557_032  # parameters
# scale: batch size and steps of a run, the larger batch and its steps, more switches
_SIZES = {
    "ci": (8, 4, 16, 2, "--image-size 16"),
    "laptop": (64, 320, 256, 140, ""),
    "gpu": (128, 800, 2048, 150, "--amp bf16 --channels-last --num-workers 8 --pin-memory"),
    "cluster": (128, 800, 2048, 150, "--amp bf16 --channels-last --num-workers 8 --pin-memory"),
}


@dataclass(frozen=True)
class Sized:
    """Commands for `submit`, to which the lab adds its switches: ``run`` with batches of ``batch`` images, ``large`` with
    ``large_batch`` images. Both last long enough for a loss of 1."""

    scale: str
    run: str
    large: str
    batch: int
    large_batch: int

    def __repr__(self) -> str:
        said = {"a run here": self.run, "a large batch": self.large}
        return "\n".join(f"{name + ':':<16} {value}" for name, value in said.items())


def sized(data: str = "tiny", scale: str = "") -> Sized:
    """The runs for jobs of the site in use, on ``tiny`` or ``cifar10``. Raises UsageError."""
    if data == "cifar10":
        from ...data import small

        small.find_cifar10()  # says where it should be
    chosen = sites.resolve_scale(scale or os.environ.get("DLOJZ_SCALE") or sites.current().scale)
    batch, steps, large, fewer, more = _SIZES[chosen]

    def command(size: int, count: int) -> str:
        return f"train.py --data {data} -b {size} --test --test-steps {count} {more}".strip()

    return Sized(chosen, command(batch, steps), command(large, fewer), batch, large)


# ------------------------------------------------------------------------------------------------------ bytes and updates
@tables.numbers(parameters=(1, 10**13))
@tables.numbers(parameters=(1, 10**15))
def states(parameters: int = RESNET50) -> View:
    """What training keeps in float32 for so many parameters, by optimizer; without activations."""
    unit, said = (1e9, "GB") if parameters >= 1e8 else (1e6, "MB")
    each = 4 * parameters / unit
    rows = [(name, {"parameters": each, "gradients": each, "optimizer": each * state / 4}) for name, state in STATE.items()]
    chart = charts.stacked(rows, unit=said, colours=MEMORY_PARTS)
    head = ["optimizer", f"weights and gradients ({said})", f"state ({said})", "bytes per parameter, in all"]
    cells = [[name, words.number(8 * parameters / unit), words.number(state * parameters / unit), str(8 + state)]
             for name, state in STATE.items()]
    title = f"What an optimizer keeps for {words.number(parameters / 1e6)} million parameters"
    return View("states", "\n".join([title, table(head, cells)]), lambda: headline(title, "float32") + chart.html())


@tables.numbers(parameters=(10_000, 10**10))
@tables.numbers(parameters=(0, 10**11))
def update(parameters: int = 0) -> View:
    """Times AdamW's update here, in three implementations and LAMB by hand, against the time that its bytes need."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = os.environ.get("DLOJZ_SCALE") == "ci"
    parameters = parameters or (100_000_000 if device.type == "cuda" else 500_000 if small else 10_000_000)
    with machine.one_thread(device.type == "cpu"):
        rows = updates.update(device, parameters, names=("adamw", "lamb"), side=min(1024, 256 * (1 if small else 4)))
    on = torch.cuda.get_device_name() if device.type == "cuda" else "one core of this machine"
    return _updates(rows, f"measured now, {on}")


def recorded_update() -> View:
    """The same as recorded on a GPU, for all optimizers."""
    found = _record("update")
    return _updates(found["rows"], _where(found)) if found else _not_there("update")


def _updates(rows: Sequence[dict], where: str) -> View:
    one = rows[0]
    title = f"An update of {one['parameters'] / 1e6:.1f} million parameters"
    head = ["optimizer", "ms", "ms at least, by its bytes", "ratio", "bytes of state per parameter"]
    cells = [[f"{row['optimizer']}, {row['implementation']}", f"{row['ms']:.2f}", f"{row['at_least_ms']:.2f}",
              f"{row['ms'] / row['at_least_ms']:.1f}", f"{row['state_bytes_per_parameter']:.0f}"] for row in rows if row["ms"]]
    bars = {"ms": [row["ms"] / max(other["ms"] for other in rows if other["ms"]) for row in rows if row["ms"]]}
    note = f"A copy moves {one['bandwidth'] / 1e9:,.0f} GB/s in this memory. An update reads gradients, and reads and writes " \
           "weights and states: 28 bytes per parameter for AdamW."
    page = headline(title, where) + table_html(head, cells, bars) + quiet(note)
    return View("an update", "\n".join([f"{title}: {where}", table(head, cells), note]), page)


# -------------------------------------------------------------------------------------------------------------- schedules
@tables.numbers(updates=(2, 10_000), warmup=(0, 10_000))
@tables.numbers(updates=(1, 100_000), warmup=(0, 100_000))
def schedules(updates: int = 100, warmup: int = 10) -> View:
    """The fractions that ``share`` of the workspace's optimizers.py gives for each update."""
    module = _yours()
    series = [Line(name, [(at, float(module.share(name, at, updates, warmup))) for at in range(updates)], colour,
                   width=width) for (name, width), colour in zip((("constant", 5.0), ("cosine", 2.5), ("wsd", 2.0)), RUNS)]
    chart = charts.lines(series, x="update", y="fraction of --lr", x_range=(0, updates), y_range=(0, 1.1), whole=True)
    head = ["schedule", *(f"update {at}" for at in _some(updates))]
    cells = [[line.name, *(f"{dict(line.points)[at]:.3f}" for at in _some(updates))] for line in series]
    title = f"Your schedules: {updates} updates, {warmup} of them warm-up"
    note = "All stay at 1 until the fence optimizers.schedule is written." if all(
        value == 1 for line in series for _, value in line.points) else ""
    text = "\n".join(filter(None, [title, table(head, cells), note]))
    return View("schedules", text, lambda: headline(title) + chart.html() + table_html(head, cells) + quiet(note) * bool(note))


def _some(updates: int) -> list[int]:
    return sorted({0, updates // 20, updates // 10, updates // 2, updates * 9 // 10, updates - 1})


def _yours():
    return paths.module(workspace.find() / "optimizers.py")


# ------------------------------------------------------------------------------------------------------- steps to a loss
@dataclass(frozen=True)
class Reached:
    """After how many steps a run's training loss was at most a target; None: not in ``ran`` steps."""

    run: str
    batch: int
    steps: int | None
    ran: int


def reached(run, target: float) -> Reached:
    """Of a run's record: the loss as a mean over 2,048 images, as in the recorded runs."""
    found = runs.one(run)
    batch = int(found.start.get("global_batch") or 1)
    losses = {step["step"]: step["loss"] for step in found.record.steps if "loss" in step}
    ran = max(losses, default=0)
    each = batch * max(1, round(ran / max(1, len(losses))))  # of a run kept as a reference, a step stands for several
    means = updates.smoothed(list(losses.values()), each)
    over = min(max(1, updates.MEAN_OVER // each), len(means))
    steps = next((step for at, (step, mean) in enumerate(zip(losses, means), 1) if at >= over and mean <= target), None)
    return Reached(found.name, batch, steps, ran)


def critical(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fits steps = fewest x (1 + critical / batch) to (batch, steps), in relative terms; returns (critical, fewest).

    With ``critical`` images a loss takes twice as many steps as with any number, and twice as many images as with few
    (McCandlish et al. 2018, arXiv:1812.06162, equation 2.11).
    """
    import numpy as np

    batch, steps = np.array(points, dtype=float).T
    fewest, images = np.linalg.lstsq(np.stack([1 / steps, 1 / (batch * steps)], axis=1), np.ones(len(steps)), rcond=None)[0]
    return float(images / fewest), float(fewest)


@tables.numbers(target=(0.0, 100.0))
def regimes(*own, target: float = 1.0, optimizers: Sequence[str] = ()) -> View:
    """Steps to a training loss against the batch size, as recorded on a GPU with three seeds, and one's own runs beside them."""
    mine = [reached(run, target) for run in own]
    found = _record("batches")
    parts, series, first = [], [], None
    if found:
        chosen = optimizers or list(dict.fromkeys(row["optimizer"] for row in found["rows"]))
        if f"{target:g}" not in found["rows"][0]["steps"]:
            raise UsageError(f"target={target:g}: the record has the steps to {', '.join(found['rows'][0]['steps'])}")
        sizes = sorted({row["batch"] for row in found["rows"] if row["optimizer"] in chosen})
        cells = []
        for number, name in enumerate(chosen):
            steps = {batch: [row["steps"][f"{target:g}"] for row in rows] for batch, rows in _best(found, name)}
            known = {batch: [each for each in every if each] for batch, every in steps.items() if any(every)}
            points = [(batch, sum(every) / len(every)) for batch, every in known.items()]
            series.append(Line(name, points, RUNS[number % len(RUNS)], marker="o",
                               band=[(batch, min(every), max(every)) for batch, every in known.items()],
                               tips=[f"{name}, {batch:,} images: {mean:.0f} steps" for batch, mean in points]))
            means = dict(points)
            spread = {batch: f" ({min(every)} to {max(every)})" * (len(every) > 1) for batch, every in known.items()}
            cells.append([name, *(f"{means[size]:,.0f}{spread[size]}" if size in known else
                                  "not reached" if size in steps else "-" for size in sizes),
                          f"{float(f'{critical(points)[0]:.2g}'):,.0f}" if len(points) > 2 else "-"])
        parts.append((["optimizer", *(f"{size:,} images" for size in sizes), "critical batch"], cells))
        first = next((line.points[0] for line in series if line.points), None)
    if first:
        last = min(64 * first[0], max(batch for line in series for batch, _ in line.points))
        series.append(Line("half the steps for twice the batch", [first, (last, first[1] * first[0] / last)], INK, width=1.2,
                           dash=(4, 4), opacity=0.7))
    if dots := sorted((each.batch, each.steps) for each in mine if each.steps):
        series.append(Line("your runs", dots, VERMILLION if not found else GREEN, marker="x", width=0, size=11))
    if mine:
        parts.append((["your run", "images per update", "steps", "images"],
                      [[each.run, f"{each.batch:,}", f"{each.steps:,}" if each.steps else f"not in {each.ran:,}",
                        f"{each.steps * each.batch:,}" if each.steps else "-"] for each in mine]))
    title = f"Steps to a training loss of {target:g}"
    where = _where(found) if found else "no record of a GPU is here"

    def body() -> str:
        at = sorted({x for line in series for x, _ in line.points})
        chart = charts.lines(series, x="images per update", y="steps", log="xy", x_ticks=at, height=300,
                             say_x=lambda size: f"{size:,.0f}") if at else None
        return headline(title, where) + (chart.html() if chart else "") + "".join(table_html(*part) for part in parts)

    return View("steps against the batch size", "\n".join([f"{title}: {where}", *(table(*part) for part in parts)]), body)


@tables.numbers(batch=(1, 10**9), target=(0.0, 100.0))
def rules(optimizer: str = "sgd", batch: int = 2048, target: float = 0.5) -> View:
    """What became of the rules of scaling at this batch size, from the same record: each rule with and without warm-up."""
    found = _record("batches")
    rows = [row for row in (found or {"rows": []})["rows"]
            if (row["optimizer"], row["batch"], row["seed"]) == (optimizer, batch, 1)]
    if not rows:
        return _not_there("batches")
    head = ["rule", "learning rate", "warm-up", f"steps to {target:g}"]
    cells = [[row["rule"], f"{row['lr']:.2g}", f"{row['warmup'] or 'none'}",
              f"{row['steps'][f'{target:g}'] or 'not in ' + str(row['ran'])}"] for row in rows]
    title = f"{optimizer}, {batch:,} images per update: the learning rate of 512 images, scaled"
    note = "A run ends once it has taken longer than the best before it."
    return View("rules", "\n".join([f"{title}: {_where(found)}", table(head, cells), note]),
                headline(title, _where(found)) + table_html(head, cells) + quiet(note))


def _best(found: dict, name: str) -> list[tuple[int, list[dict]]]:
    """Batch sizes and the runs at the best learning rate, of all seeds."""
    rows = [row for row in found["rows"] if row["optimizer"] == name and row["best"]]
    return [(batch, [row for row in rows if row["batch"] == batch]) for batch in sorted({row["batch"] for row in rows})]


@functools.lru_cache(maxsize=4)
def _record(suite: str) -> dict | None:
    files = sorted(paths.share("docs", "results").glob(f"{suite}-*.json"))
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return next((each for each in found if each["machine"].get("gpu")), found[0] if found else None)


def _where(found: dict) -> str:
    on = found["machine"].get("gpu") or found["machine"].get("cpu")
    return f"recorded on {on}, torch {found['versions'].get('torch')}, {found['date']}"


def _not_there(suite: str) -> View:
    said = f"docs/results has no record {suite}: `python -m dlojz.benchmarks.day3 {suite}` measures it on a GPU."
    return View(suite, said, quiet(said))
