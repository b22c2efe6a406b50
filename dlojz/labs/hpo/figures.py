"""Figures for the notebook about searching: landscapes, what a search has tried, its workers, its finalists, what transfers."""

from __future__ import annotations

import functools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...jobs import runs
from ...system import machine, paths, processes, sites, workspace
from ...system.errors import UsageError
from ...training import trials
from ...ui import charts, tables, words
from ...ui.charts import Lane, Line, Point, Span
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BAD, BLUE, GREEN, GREY, ORANGE, RUNS, VERMILLION
from .. import catalogue

# scale: the command of the search, how many finalists, their seeds, epochs and images of `transfer`
_SIZES = {
    "ci": ("--trials 9 --workers 2 --images 500 300 300", 2, 2, 1, 400),
    "laptop": ("--trials 27 --workers 2", 3, 3, 2, 2_000),
    "gpu": ("--trials 81 --workers 4", 3, 5, 2, 20_000),
    "cluster": ("--trials 81 --workers 4", 3, 5, 2, 20_000),
}
COLOURS = {"complete": BLUE, "pruned": ORANGE, "failed": VERMILLION, "running": GREY, "killed": BAD}
RATIOS = ("lr", "decay")  # on logarithmic axes
RANGES = {"lr": (1e-4, 1), "decay": (1e-3, 1), "momentum": (0, 0.99), "dropout": (0, 0.5)}
RATES = [2.0**power for power in range(-12, -3)]


@dataclass(frozen=True)
class Sized:
    """``run``: the command of the search."""

    run: str
    finalists: int
    seeds: int
    epochs: int
    images: int


def sized(scale: str = "") -> Sized:
    command, *rest = _SIZES[sites.resolve_scale(scale or os.environ.get("DLOJZ_SCALE") or sites.current().scale)]
    return Sized(f"search.py {command}", *rest)


@functools.cache
def finished():
    """The kit's own search.py. Raises UsageError where Optuna is not installed."""
    return paths.module(catalogue.reference("search.py"))


def yours():
    return paths.module(workspace.find() / "search.py")


def _view(title: str, chart, head: Sequence[str] = (), rows: Sequence[Sequence[str]] = (), note: str = "", twin=True) -> View:
    """``twin``: False where the table says more of the chart than its own text does."""
    said = [title, *([chart.text()] if chart and twin else []), *([table(head, rows)] if rows else []), *([note] if note else [])]
    return View(title, "\n".join(said), lambda: headline(title) + (chart.html() if chart else "")
                + (table_html(head, rows) if rows else "") + (quiet(note) if note else ""))


def _empty(job, wanted: str = "an error") -> View:
    """What a figure says that has nothing to show. ``wanted``: what no trial has."""
    study = _study(job)
    over = sum(one.state.is_finished() for one in study.get_trials(deepcopy=False)) if study else 0
    run = getattr(job, "run", job)
    return _view(f"{over} trials of {run} are over, and none has reported {wanted}: is `hpo.objective` written?" if over else
                 f"No trial yet: {run} has no journal with a finished trial", None)


def _study(job):
    """The study of a job, its name, a group of jobs, or a path; None where there is none."""
    if isinstance(job, str) and (named := runs.jobs_of(job)):
        job = named
    if isinstance(job, (str, Path)):
        file = Path(job)
    else:
        first = job if hasattr(job, "folder") else job[0]
        file = first.folder / "search.journal"
    return trials.Search(file).study if file.is_file() and file.stat().st_size else None


def _rows(job) -> list[dict]:
    study = _study(job)
    return [row for row in trials.rows(study) if row["errors"]] if study else []


def _value(value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _best(rows: list[dict]) -> dict | None:
    return min((row for row in rows if row["state"] == "complete"), key=lambda row: row["value"], default=None)


# ------------------------------------------------------------------------------------------------------------- landscapes
def himmelblau(x: float, y: float) -> float:
    """Four minima of 0 (Himmelblau 1972)."""
    return (x * x + y - 11) ** 2 + (x + y * y - 7) ** 2


def rosenbrock(x: float, y: float) -> float:
    """A curved valley with one minimum of 0 at (1, 1) (Rosenbrock 1960)."""
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


LANDSCAPES = {"Himmelblau": (himmelblau, (-5, 5), (-5, 5)), "Rosenbrock": (rosenbrock, (-2, 2), (-1, 3))}


def _proposals(how: str, name: str, budget: int, seed: int) -> list[tuple[float, float, float]]:
    """(x, y, value) of each."""
    function, xs, ys = LANDSCAPES[name]
    if how == "grid":
        side = math.isqrt(budget)
        at = [(number + 0.5) / side for number in range(side)]
        places = [(xs[0] + a * (xs[1] - xs[0]), ys[0] + b * (ys[1] - ys[0])) for a in at for b in at]
    elif how == "random":
        draw = random.Random(seed)
        places = [(draw.uniform(*xs), draw.uniform(*ys)) for _ in range(budget)]
    else:
        optuna = trials.library()
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True))
        study.optimize(lambda trial: function(trial.suggest_float("x", *xs), trial.suggest_float("y", *ys)), budget)
        places = [(one.params["x"], one.params["y"]) for one in study.trials]
    return [(x, y, function(x, y)) for x, y in places]


def _contours(name: str) -> list[Line]:
    import contourpy  # matplotlib's own
    import numpy as np

    function, xs, ys = LANDSCAPES[name]
    x, y = np.linspace(*xs, 61), np.linspace(*ys, 61)
    heights = np.log10(np.array([[function(a, b) for a in x] for b in y]) + 1e-3)
    generator = contourpy.contour_generator(x, y, heights)
    levels = np.linspace(heights.min(), heights.max(), 9)[1:-1]
    return [Line("", [tuple(point) for point in line], GREY, width=1, opacity=0.6, shown=False)
            for level in levels for line in generator.lines(level)]


@tables.numbers(budget=(1, 400), seeds=(1, 20))
def landscapes(budget: int = 49, seeds: int = 5) -> View:
    """Grid, random and TPE with the same number of proposals on two landscapes."""
    panels, rows = [], []
    for name, (_, xs, ys) in LANDSCAPES.items():
        contours = _contours(name)
        for how, colour in (("grid", BLUE), ("random", ORANGE), ("TPE", GREEN)):
            tried = [_proposals(how, name, budget, seed) for seed in range(1 if how == "grid" else seeds)]
            points = [Point("", x, y, colour, f"{value:.3g}") for x, y, value in tried[0]]
            panel = charts.scatter(points, title=f"{name}, {how}", x_range=xs, y_range=ys, named=False, line=contours, height=190)
            panels.append(panel)
            found = sorted(min(value for *_, value in one) for one in tried)
            spread = f"{found[0]:.3g} to {found[-1]:.3g}" if len(found) > 1 else ""
            below = sum(value < 5 for *_, value in tried[0])
            rows.append([name, how, f"{found[len(found) // 2]:.3g}", spread, str(below)])
    drawn = charts.grid(*panels, columns=3)
    head = ["landscape", "proposals", f"the best of {budget} (median)", f"with {seeds} seeds", "below 5 (first seed)"]
    title = f"{budget} proposals each; lines of equal height, the minimum is 0"
    return View(title, "\n".join([title, table(head, rows)]), lambda: headline(title) + drawn.html() + table_html(head, rows))


# ------------------------------------------------------------------------------------------------------- what was tried
def history(job) -> View:
    """The error of each trial by its number, and the best so far."""
    rows = _rows(job)
    if not rows:
        return _empty(job)
    chart = _by_number(rows)
    counts = ", ".join(f"{sum(row['state'] == state for row in rows)} {state}" for state in COLOURS
                       if any(row["state"] == state for row in rows))
    found = _best(rows)
    epochs = sum(len(row["errors"]) for row in rows)
    most = max(len(row["errors"]) for row in rows) * len(rows)
    note = f"{counts}. {epochs} epochs were trained, {epochs / most:.0%} of {most}."
    if found:
        note += f" The best is trial {found['number']}, {found['value']:.3f}: {said(found['params'])}."
    return _view("What the search has found", chart, note=note)


def _by_number(rows: list[dict]):
    series, best, low = [], [], math.inf
    for state, marker in (("complete", "o"), ("pruned", "x")):
        there = [row for row in rows if row["state"] == state]
        tips = [f"trial {row['number']}: {row['value']:.3f} after {len(row['errors'])} epochs" for row in there]
        series.append(Line(state, [(row["number"], row["value"]) for row in there], COLOURS[state], marker=marker, width=0,
                           tips=tips))
    for row in rows:
        low = min(low, row["value"]) if row["state"] == "complete" else low
        if low < math.inf:
            best.append((row["number"], low))
    series.append(Line("the best so far", best, GREEN))
    return charts.lines(series, x="trial", y="validation error", whole=True, y_range=_around(rows))


def _around(rows: list[dict]) -> tuple[float, float]:
    """The range of an axis for all errors of these trials."""
    errors = [error for row in rows for error in row["errors"].values()]
    return 0.9 * min(errors), min(1.0, 1.05 * max(errors))


def said(params: dict) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in params.items())


@tables.numbers(epoch=(1, 1000))
def importance(job, epoch: int = 1) -> View:
    """What fraction of the variance of the errors after ``epoch`` epochs the groups of each parameter explain."""
    rows = [row for row in _rows(job) if str(epoch) in row["errors"]]
    if len(rows) < 6:
        return _view(f"{len(rows)} trials have an error after epoch {epoch}: six are needed", None)
    bars = []
    given = {name: rows for name in dict.fromkeys(name for row in rows for name in row["params"])}
    for optimizer in ("sgd", "adamw"):  # whose good rates have nothing to do with each other
        given[f"lr of {optimizer}"] = [row for row in rows if row["params"].get("optimizer") == optimizer]
    for name, some in given.items():
        key = name.partition(" ")[0]
        there = [(row["params"][key], row["errors"][str(epoch)]) for row in some if key in row["params"]]
        if len(there) < 6:
            continue
        explained, groups = explains(there)
        chance = (groups - 1) / (len(there) - 1)
        note = f"by chance {chance:.2f}"
        bars.append(charts.Bar(name, explained, note=note, faint=explained < 2 * chance))
    bars.sort(key=lambda bar: -bar.value)
    chart = charts.bars(bars, say=lambda value: f"{value:.2f}")
    return _view(f"What fraction of the variance of the errors after epoch {epoch} each parameter explains", chart,
                 note="Values of a parameter are put into groups: its categories, or thirds from low to high. The bar is the "
                      "variance between groups, divided by all of it (η²). Pale: less than twice what chance gives.")


def explains(there: Sequence[tuple]) -> tuple[float, int]:
    """η²: variance between groups of the first item, over all of it; and the number of groups. Numbers make three groups."""
    values = [value for value, _ in there]
    if len(set(values)) > 3:
        order = sorted(values)
        edges = [order[len(order) // 3], order[2 * len(order) // 3]]
        keyed = [(sum(value >= edge for edge in edges), error) for value, error in there]
    else:
        keyed = list(there)
    mean = sum(error for _, error in keyed) / len(keyed)
    every = sum((error - mean) ** 2 for _, error in keyed)
    groups: dict = {}
    for key, error in keyed:
        groups.setdefault(key, []).append(error)
    between = sum(len(errors) * (sum(errors) / len(errors) - mean) ** 2 for errors in groups.values())
    return (between / every if every else 0.0), len(groups)


def slices(job) -> View:
    """The error against each parameter; whether the best one is at an end of its range."""
    rows = [row for row in _rows(job) if row["state"] in ("complete", "pruned")]
    if not rows:
        return _empty(job)
    panels, best = [], _best(rows)
    for name in (name for name in RANGES if any(name in row["params"] for row in rows)):
        series = [Line(state, [(row["params"][name], row["value"]) for row in rows if name in row["params"]
                               and row["state"] == state], COLOURS[state], marker=marker, width=0)
                  for state, marker in (("complete", "o"), ("pruned", "x"))]
        panels.append(charts.lines(series, title=name, log="x" if name in RATIOS else "", x_range=RANGES[name],
                                   y_range=_around(rows), height=170, legend=not panels))
    note = "No trial ran to its end."
    if best:
        at = [f"{name} {_value(value)} {edge}" for name, value in best["params"].items() if (edge := at_edge(name, value))]
        note = f"The best: {said(best['params'])}. " + (
            f"At an end of its range: {', '.join(at)}. The answer may be outside: widen the space." if at else
            "None of its values is at an end of its range.")
    return _view("Validation error against each parameter", charts.grid(*panels, columns=2), note=note)


def at_edge(name: str, value) -> str:
    """In words, where a value is in the lowest or highest twentieth of its range."""
    if name not in RANGES:
        return ""
    low, high = RANGES[name]
    part = (math.log(value / low) / math.log(high / low)) if name in RATIOS else (value - low) / (high - low)
    return f"(the range begins at {low:g})" if part < 0.05 and name in RATIOS else (
        f"(the range ends at {high:g})" if part > 0.95 else "")


def pruned(job) -> View:
    """The errors of each trial by epoch, and what those that were stopped would have needed."""
    rows = [row for row in _rows(job) if row["state"] in ("complete", "pruned")]
    if not rows:
        return _empty(job)
    series = []
    for state in ("pruned", "complete"):
        for number, row in enumerate(one for one in rows if one["state"] == state):
            points = [(int(epoch), error) for epoch, error in row["errors"].items()]
            series.append(Line(state, points, COLOURS[state], width=1.5, opacity=0.8, shown=not number))
    ends = [(int(max(row["errors"], key=int)), row["value"]) for row in rows if row["state"] == "pruned"]
    series.append(Line("stopped here", ends, COLOURS["pruned"], marker="x", width=0))
    chart = charts.lines(series, x="epoch", y="validation error", whole=True, y_range=_around(rows))
    cells = []
    for row in sorted((one for one in rows if one["state"] == "pruned"), key=lambda one: one["value"])[:6]:
        epoch = max(row["errors"], key=int)
        there = sorted(one["errors"][epoch] for one in rows if epoch in one["errors"])
        place = sum(error < row["errors"][epoch] for error in there) + 1
        cells.append([str(row["number"]), epoch, f"{row['errors'][epoch]:.3f}", f"{place} of {len(there)}",
                      f"{there[max(1, len(there) // 3) - 1]:.3f}"])
    head = ["trial", "stopped after epoch", "error", "place among all that came so far, in the end", "the best third ends at"]
    return _view("Pruned, and why: the six best of them", chart, head, cells,
                 "A place is counted when all trials are over. When a trial was stopped, there were fewer.", twin=False)


def workers(job) -> View:
    """Which worker ran which trial, when."""
    rows = _rows(job)
    return _timeline(rows, "Workers") if rows else _empty(job)


def _timeline(rows: list[dict], title: str) -> View:
    lanes: dict[int, list[Span]] = {}
    for row in rows:
        for at, (worker, begin) in enumerate(row["workers"]):
            last = at == len(row["workers"]) - 1
            end = row["end"] if last else row["workers"][at + 1][1]
            state = {"fail": "failed"}.get(row["state"], row["state"]) if last else "killed"
            lanes.setdefault(worker, []).append(Span(begin, end or begin, state, COLOURS.get(state, GREY),
                                                     tip=f"trial {row['number']}: {state}", words=str(row["number"])))
    chart = charts.timeline([Lane(f"worker {number}", lanes[number]) for number in sorted(lanes)], colours=COLOURS)
    again = [row for row in rows if len(row["workers"]) > 1]
    note = f"{len(rows)} trials by {len(lanes)} workers. The number in a span is that of its trial."
    if again:
        taken = [f"trial {row['number']} by worker {row['workers'][-1][0]}" for row in again]
        note += f" Taken up again: {', '.join(taken)}."
    return _view(title, chart, note=note)


# ---------------------------------------------------------------------------------------------------------------- a kill
_WORKER = """
import sys, time
from dlojz.training import trials
trials.POLL = 0.05
def objective(trial):
    x = trial.suggest_float("x", -1, 1)
    time.sleep(0.3)
    return x * x
print("ready", flush=True)
sys.stdin.readline()
trials.Search(sys.argv[1]).run(objective, int(sys.argv[2]))
"""


@tables.numbers(count=(3, 40))
def killed(count: int = 8) -> View:
    """Two workers and ``count`` trials of 0.3 s, without a training. The first worker is killed in its second trial."""
    trials.library()
    with tempfile.TemporaryDirectory() as scratch:
        journal = Path(scratch) / "search.journal"
        both: list[subprocess.Popen] = []
        try:
            with processes.deaf_to_ctrl_c():
                for _ in range(2):
                    both.append(subprocess.Popen([sys.executable, "-c", _WORKER, str(journal), str(count)],
                                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for process in both:
                process.stdout.readline()
            for process in both:
                process.stdin.write("go\n")
                process.stdin.flush()
            until = time.monotonic() + 60
            while time.monotonic() < until:
                held = [row for row in trials.rows(trials.Search(journal).study) if row["workers"][-1][0] == 1]
                if len(held) > 1 and held[-1]["state"] == "running":
                    break
                time.sleep(0.05)
            claims = [claim for one in trials.Search(journal).study.trials for claim in trials.attempts(one.user_attrs)]
            first = min(claims, key=lambda claim: claim["at"])["process"]["pid"]
            next(process for process in both if process.pid == first).kill()
            for process in both:
                process.wait(120)
        finally:
            for process in both:
                process.kill()
                process.communicate()
        rows = trials.rows(trials.Search(journal).study)
    return _timeline(rows, f"{len(rows)} of {count} trials, although worker 1 was killed (kill -9)")


# ------------------------------------------------------------------------------------------------------------- finalists
def finalists(job) -> View:
    """The best trials of a search, each trained anew with new seeds, by your `confirm`; then the chosen one on the test set."""
    rows = sorted((row for row in _rows(job) if row["state"] == "complete"), key=lambda row: row["value"])
    if not rows:
        return _empty(job, "the error of its last epoch")
    import torch

    size, mine, kit = sized(), yours(), finished()
    with machine.one_thread():
        data = kit.load("cuda" if torch.cuda.is_available() else "cpu", [500, 300, 300] if "--images" in size.run else None)
        rows = rows[: size.finalists]
        seeds = [1001 + number for number in range(size.seeds)]
        nets: dict = {}

        def score(configuration, seed):
            *_, net = kit.trained(configuration, data.train, seed, kit.EPOCHS)
            nets.setdefault(said(configuration), []).append(net)
            return kit.error(net, data.validation)

        place, means, errors = mine.confirm([row["params"] for row in rows], score, seeds)
        test = [kit.error(net, data.test) for net in nets.get(said(rows[place]["params"]), [])]
    cells = [[("→ " if at == place else "") + f"trial {row['number']}", f"{row['value']:.3f}", f"{mean:.3f} ± {error:.3f}",
              said(row["params"])] for at, (row, mean, error) in enumerate(zip(rows, means, errors))]
    note = f"± is the standard error of {len(seeds)} seeds. "
    note += (f"The chosen one on the test set, looked at once: {sum(test) / len(test):.3f}." if test else
             "Nothing was trained: write `hpo.confirm`.")
    return _view("Finalists with new seeds", None, ["trial", "in the search", "validation error", "configuration"], cells, note)


# ------------------------------------------------------------------------------------------------------------ what transfers
def transfer() -> View:
    """Loss against the learning rate at three widths, standard and by your `mup`, measured here."""
    import torch

    size, mine = sized(), yours()
    with machine.one_thread():
        data = finished().load("cuda" if torch.cuda.is_available() else "cpu", [size.images, 100, 100])
        rows = list(mine.transfer(data, rates=RATES[2::2] if size.images < 2_000 else RATES[1:], epochs=size.epochs))
    return _transfer(rows, f"{size.images:,} images, {words.counted(size.epochs, 'epoch')}, on this machine")


def _transfer(rows: list[dict], where: str) -> View:
    widths = list(dict.fromkeys(row["width"] for row in rows))
    panels, cells = [], []
    for scheme in ("standard", "muP"):
        series = []
        for number, width in enumerate(widths):
            points = [(row["lr"], row["loss"]) for row in rows if row["scheme"] == scheme and row["width"] == width]
            series.append(Line(f"width {width}", points, RUNS[number % len(RUNS)], marker="o"))
            lr, loss = min(points, key=lambda point: point[1])
            cells.append([scheme, str(width), f"2^{math.log2(lr):.0f}", f"{lowest(points):.2g}", f"{loss:.3f}"])
        panels.append(charts.lines(series, x="learning rate", y="training loss", title=scheme, log="x", legend=not panels,
                                   y_range=(min(row["loss"] for row in rows) * 0.95, min(2.4, max(row["loss"] for row in rows)))))
    head = ["scheme", "width", "best rate tried", "between the rates", "its loss"]
    return _view(f"What transfers: {where}", charts.grid(*panels), head, cells,
                 "Between the rates: where a parabola through the best one and its neighbours is lowest.")


def lowest(points: Sequence[tuple[float, float]]) -> float:
    """The learning rate at the lowest point of a parabola in log lr through the best point and its neighbours."""
    points = sorted(points)
    at = min(range(len(points)), key=lambda number: points[number][1])
    if not 0 < at < len(points) - 1:
        return points[at][0]
    (a, fa), (b, fb), (c, fc) = [(math.log(lr), loss) for lr, loss in points[at - 1 : at + 2]]
    over = (b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)
    under = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    return math.exp(b - over / under / 2) if under else points[at][0]


# -------------------------------------------------------------------------------------------------------------- recorded
def _recorded(part: str) -> dict:
    found = sorted(paths.share("docs", "results").glob(f"hpo_{part}-*.json"))  # with one GPU first
    if not found:
        raise UsageError(f"docs/results has no record hpo_{part}: python -m dlojz.benchmarks.searching {part} measures it")
    return json.loads(found[0].read_text(encoding="utf-8"))


def _where(found: dict) -> str:
    on = found["machine"].get("gpu") or found["machine"].get("cpu")
    count = found.get("gpus", 1)
    return f"recorded on {'one' if count == 1 else count} {on}, torch {found['versions'].get('torch')}, {found['date']}"


def recorded_transfer() -> View:
    """As `transfer`, for wider networks."""
    found = _recorded("transfer")
    return _transfer(found["rows"], _where(found))


def recorded_search() -> View:
    """What a search has cost, by its record: time of the GPU, energy, epochs; beside what one training of its best costs."""
    found, after = _recorded("search"), _recorded("confirm")
    *rows, whole = found["rows"]
    best = _best(rows)
    one = [row for row in after["rows"] if row["number"] == best["number"]]
    seconds, joules = (statistics.median(row[key] for row in one) for key in ("seconds", "joules"))
    states = [row["state"] for row in rows]
    full = len(rows) * max(len(row["errors"]) for row in rows)
    cells = [["trials", f"{len(rows)}: {', '.join(f'{states.count(each)} {each}' for each in sorted(set(states)))}", "1"],
             ["epochs", f"{whole['epochs']}, {whole['epochs'] / full:.0%} of {full}", str(len(best["errors"]))],
             ["seconds of the GPU", f"{whole['gpu_seconds']:.0f} ({whole['gpu_seconds'] / 3600:.3f} hours)", f"{seconds:.1f}"],
             ["energy", f"{whole['joules'] / 1000:.1f} kJ", f"{joules / 1000:.2f} kJ"]]
    title = f"A search takes {whole['joules'] / joules:.0f} times the energy of one training of what it finds: {_where(found)}"
    return _view(title, _by_number(rows),
                 ["", f"the search, {whole['workers']} workers", "the best, trained once"], cells,
                 f"The best: trial {best['number']}, {best['value']:.4f} in the search: {said(best['params'])}.")


def recorded_finalists() -> View:
    """The best of that search with new seeds, on validation and test."""
    found = _recorded("confirm")
    cells = []
    for number in dict.fromkeys(row["number"] for row in found["rows"]):
        there = [row for row in found["rows"] if row["number"] == number]
        cells.append([f"trial {number}", f"{there[0]['searched']:.4f}", str(len(there)),
                      *(_mean([row[key] for row in there]) for key in ("validation", "test"))])
    return _view(f"The best with new seeds: {_where(found)}", None,
                 ["trial", "in the search", "new seeds", "validation error", "test error"], cells,
                 "± is the standard error of the mean.")


def _mean(values: list[float]) -> str:
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:.4f} (one seed)"
    spread = (sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)) ** 0.5
    return f"{mean:.4f} ± {spread:.4f}"


# ---------------------------------------------------------------------------------------------------------- which pruner
@tables.numbers(budget=(9, 2000), orders=(2, 100))
def pruners(budget: int = 90, orders: int = 20) -> View:
    """Recorded trainings in the same random orders, stopped by each pruner of your search.py, for ``budget`` epochs in all."""
    found = _recorded("curves")
    curves = [list(row["errors"].values()) for row in found["rows"]]
    cells, last = [], len(curves[0])
    for name, make in yours().PRUNERS.items():
        tried = [_replayed(curves, make(last), budget, seed) for seed in range(orders)]
        begun, complete, spent = (statistics.mean(one[at] for one in tried) for at in range(3))
        cells.append([name, f"{begun:.1f}", f"{complete:.1f}", f"{spent:.1f}", _mean([one[3] for one in tried])])
    ends = [curve[-1] for curve in curves]
    ranks = [f"{rank([curve[epoch - 1] for curve in curves], ends):.2f} after epoch {epoch}" for epoch in (1, 3) if epoch < last]
    return _view(f"{budget} epochs for each pruner: {_where(found)}", None,
                 ["pruner", "trials begun", "complete", "epochs", f"the best one's error, mean of {orders} orders"], cells,
                 f"{len(curves)} random trainings of {last} epochs; the best of all ends at {min(ends):.4f}. The budget cuts "
                 f"off no trial that has begun. Rank correlation of the errors with the last ones: {', '.join(ranks)}.")


def _replayed(curves: list[list[float]], pruner, budget: int, seed: int) -> tuple[int, int, int, float]:
    """Trials begun, complete ones, epochs, and the smallest error of a complete one (1 without any)."""
    optuna = trials.library()
    study = optuna.create_study(pruner=pruner, study_name=f"order {seed}")  # Hyperband's groups depend on the name
    begun, ends, spent = 0, [], 0
    for curve in random.Random(seed).sample(curves, len(curves)):
        if spent >= budget:
            break
        trial, begun = study.ask(), begun + 1
        for epoch, error in enumerate(curve, start=1):
            trial.report(error, epoch)
            spent += 1
            if epoch < len(curve) and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, error)
            ends.append(error)
    return begun, len(ends), spent, min(ends, default=1.0)


def rank(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; equal values share the mean of their places."""
    return statistics.correlation(*([sum((each < value) + (each == value) / 2 for each in values) for value in values]
                                    for values in (one, other)))
