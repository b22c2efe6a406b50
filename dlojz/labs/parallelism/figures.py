"""Figures for the notebook about ways of splitting: links, what ways send, schedules drawn and measured, a ring, a decision."""

from __future__ import annotations

import json

from ...system import paths, workspace
from ...system.errors import UsageError
from ...ui import charts, tables, words
from ...ui.charts import Lane, Line, Rule, Span
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION
from .runs import rows

KINDS = {"F": ("forward", BLUE), "B": ("backward", ORANGE), "I": ("gradients of inputs", VERMILLION),
         "W": ("gradients of weights", SKY)}
SCHEDULES = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": "Interleaved1F1B", "zero_bubble": "InterleavedZeroBubble"}
PEAK = 784e12  # FLOP/s of an H200 in bfloat16, measured (docs/day3.md)
# Bytes per second of one GPU in one direction, as vendors say: NVLink 4 of an H100 or H200 has 900 GB/s in both together
LINKS = {"NVLink in a node": 450e9, "400 Gbit/s between nodes": 50e9, "100 Gbit/s between nodes": 12.5e9}


def yours():
    """The parallelism.py of this workspace."""
    return paths.module(workspace.find() / "parallelism.py")


# ----------------------------------------------------------------------------------------------------------------- links
def link(job) -> View:
    """An all-reduce's time by its size, as a run has measured it, and the line that your `fit` draws through it."""
    measured = rows(job, "links")
    sizes, seconds = [row["bytes"] for row in measured], [row["seconds"] for row in measured]
    latency, bandwidth = yours().fit(sizes, seconds)
    title = "time of an all-reduce by its size"
    lines, said, marks = [Line("measured", list(zip(sizes, seconds)), BLUE, marker="o")], ["Your `fit` finds nothing yet."], []
    if _found(latency, bandwidth):
        knee = latency * bandwidth
        fitted = [(size, latency + size / bandwidth) for size in sizes]
        lines.append(Line("latency + size / bandwidth", fitted, ORANGE, dash=(6, 4)))
        marks.append(Rule(None, f"knee {_bytes(knee)}", GREY, x=knee))
        said = [f"Latency {words.seconds(latency)}, bandwidth {_bytes(bandwidth)}/s. Below {_bytes(knee)} (the knee, latency x "
                "bandwidth) latency is more than half of the time: two small messages cost twice as much as one of both."]
    chart = charts.lines(lines, x="size of the message", y="time", log="xy", say_x=_bytes, say_y=words.seconds,
                         say=words.seconds, rules=marks)
    head, cells = ["message", "time", "bytes per second"], [[_bytes(size), words.seconds(took), _bytes(size / took)]
                                                              for size, took in zip(sizes, seconds)]
    return View(title, "\n".join([title, table(head, cells), *said]),
                headline(title.capitalize()) + chart.html() + table_html(head, cells) + quiet(said[0]))


def _found(latency: float, bandwidth: float) -> bool:
    return latency > 0 and 0 < bandwidth < float("inf")


def recorded_links() -> View:
    """All-reduces of two processes as they were recorded, over NVLink and on a CPU, and what your `fit` says of them."""
    lines, cells, colours = [], [], iter((BLUE, ORANGE, GREEN))
    for file in sorted(paths.share("docs", "results").glob("parallel_links-2x-*.json"), reverse=True):
        found = json.loads(file.read_text(encoding="utf-8"))
        on = found["machine"].get("gpu") or f"{found['machine']['cores_allowed']} cores"
        name = f"{'NVLink, ' if found['backend'] == 'nccl' else ''}{found['backend']}, {on}"
        sizes, seconds = ([row[key] for row in found["rows"]] for key in ("bytes", "seconds"))
        latency, bandwidth = yours().fit(sizes, seconds)
        lines.append(Line(name, list(zip(sizes, seconds)), next(colours), marker="o"))
        fitted = ["-"] * 3
        if _found(latency, bandwidth):
            fitted = [words.seconds(latency), f"{_bytes(bandwidth)}/s", _bytes(latency * bandwidth)]
        cells.append([name, *fitted, f"{_bytes(sizes[-1] / seconds[-1])}/s"])
    title = "recorded: time of an all-reduce of two processes by its size"
    head = ["link", "latency by your fit", "bandwidth by your fit", "knee", "largest message"]
    chart = charts.lines(lines, x="size of the message", y="time", log="xy", say_x=_bytes, say_y=words.seconds, say=words.seconds)
    return View(title, "\n".join([title, table(head, cells)]),
                headline(title.capitalize()) + chart.html() + table_html(head, cells))


@tables.numbers(width=(128, 65536), tokens=(1, 10**7), gpus=(2, 1024))
def inside(width: int = 8192, tokens: int = 8192, gpus: int = 8) -> View:
    """One layer of a transformer, forward, tensor parallel over ``gpus``: how long it computes, and how long its two all-reduces
    take on three links. Computed: 24 x tokens x width² operations at an H200's measured peak; an all-reduce sends 2 (n - 1) / n
    of its bytes, in bfloat16, at the link's full rate."""
    compute = 24 * tokens * width**2 / gpus / PEAK
    sent = 2 * 2 * (gpus - 1) / gpus * tokens * width * 2
    named = [(name, {"computing": compute, "two all-reduces": sent / rate}) for name, rate in LINKS.items()]
    title = f"one layer of width {width:,}, {tokens:,} tokens, over {gpus} GPUs"
    chart = charts.stacked(named, colours={"computing": GREEN, "two all-reduces": ORANGE}, say=words.seconds)
    lines = [f"  {name:<26} computing {words.seconds(compute)}, sending {words.seconds(sent / rate)}"
             for name, rate in LINKS.items()]
    note = "Computed, not measured, and without latency: links at the rates in their data sheets, products at the peak."
    return View(title, "\n".join([title, *lines, note]), headline("Forward pass", title) + chart.html() + quiet(note))


# -------------------------------------------------------------------------------------------------------------- one way
def ways(job, part: str) -> View:
    """What each way of splitting held, sent and computed, beside one process: the rows of ``tensor``, ``context`` or ``two``."""
    head, cells = ["way", "result differs by", "gradients by", "holds", "", "sends"], []
    for row in rows(job, part):
        said = [row["way"], f"{row.get('loss', row.get('result')):.1e}", f"{row['gradient']:.1e}",
                words.share(row["held"] / row["parameters"]) if "held" in row else "its tokens"]
        passes = [("forward", "sent_forward"), ("backward", "sent_backward")] if "sent_forward" in row else [("both", "sent")]
        cells += [[*(said if not number else [""] * 4), name, _sent(row[key])] for number, (name, key) in enumerate(passes)]
    title = f"beside one process: {part}"
    note = ("Differences: of three losses or of the result, and of the first gradients, as a fraction of the largest number. "
            "float32 has 7 digits, and sums in another order differ in the last. Holds: of all parameters.")
    return View(title, "\n".join([title, table(head, cells), note]), headline(title.capitalize()) + table_html(head, cells)
                + quiet(note))


@tables.numbers(processes=(2, 12))
def turns(processes: int = 4) -> View:
    """Whose keys and values a process has, turn by turn, and which of them a causal mask leaves out as a whole."""
    cells = [[(rank - turn) % processes for turn in range(processes)] for rank in range(processes)]
    masked = sum(other > rank for rank, row in enumerate(cells) for other in row)
    chart = charts.cells(cells, rows=[f"rank {rank}" for rank in range(processes)],
                         columns=[f"turn {turn}" for turn in range(processes)], title="whose keys and values are here")
    note = (f"Causal: rank r needs parts 0 to r only, so {masked} of {processes**2} blocks are masked as a whole. Rank 0 needs "
            "one, the last rank all: real implementations give each process a part from the beginning and one from the end.")
    return View("a ring", f"{chart.text()}\n{note}", chart.html() + quiet(note))


# ------------------------------------------------------------------------------------------------------------- pipelines
def _order(module, schedule: str, devices: int, batches: int) -> list[list[tuple]]:
    make = getattr(module, {"1f1b": "one_f_one_b"}.get(schedule, schedule))
    return [make(device, devices, batches) for device in range(devices)]


def _seconds(chunks: int, unit: float = 1.0) -> dict[str, float]:
    """What an action takes where a product of all of a device's layers takes ``unit``: forward one, backward two."""
    return {kind: unit * (2 if kind == "B" else 1) / chunks for kind in KINDS}


def _lanes(times: dict, devices: int, batches: int) -> list[Lane]:
    lanes = []
    for device in range(devices):
        mine = [(action, span) for action, span in times.items() if action[1] % devices == device]
        lanes.append(Lane(f"device {device}", [
            Span(begin, end, KINDS[kind][0], KINDS[kind][1], faint=stage >= devices, words=str(batch),
                 tip=f"stage {stage}, microbatch {batch}") for (kind, stage, batch), (begin, end) in mine], 22))
    return lanes


@tables.numbers(devices=(1, 16), microbatches=(1, 64))
def schedules(devices: int = 4, microbatches: int = 8) -> View:
    """Four schedules as your `simulate` and your orders have them, and the bubble by your formula. A product takes one unit, a
    backward pass two."""
    module, parts, lines = yours(), [], []
    for name in SCHEDULES:
        chunks = 2 if name == "interleaved" else 1
        if chunks == 2 and microbatches % devices:
            lines.append(f"{name}: microbatches have to be a multiple of devices")
            continue
        times = module.simulate(_order(module, name, devices, microbatches), _seconds(chunks))
        formula = module.bubble(name, devices, microbatches, chunks)
        if not times:
            lines.append(f"{name}: your `simulate` returns nothing yet")
            continue
        end, longest = max(end for _, end in times.values()), 3.0 * (microbatches + devices - 1)
        said = f"{words.number(end)} units, {_idle(times, microbatches)} idle; by your formula {words.share(formula)}"
        lines.append(f"{name}: {said}")
        parts.append(charts.timeline(_lanes(times, devices, microbatches), title=name, aside=said, begin=0.0,
                                     end=max(end, longest), axis=False, gap=3).html())
    title = f"{devices} devices, {microbatches} microbatches"
    note = "Numbers are microbatches. Paler: the second stage of a device."
    return View(title, "\n".join([title, *lines, note]), headline(title) + "".join(parts or map(quiet, lines)) + quiet(note))


def _idle(times: dict, batches: int) -> str:
    """What of a device's time is not work, where its work for a microbatch takes 3 units."""
    return words.share(max(0.0, round(1 - 3 * batches / max(end for _, end in times.values()), 6))) if times else "-"


def pipelines(*jobs) -> View:
    """The same schedules as torch runs them: the bubble by your formula, by your `simulate` with torch's orders, measured."""
    module = yours()
    head = ["schedule", "devices", "stages", "formula", "simulated", "measured", "step", "loss differs by", "gradients by"]
    cells, bars = [], []
    for row in (row for job in jobs for row in rows(job, "pipeline")):
        if "seconds" not in row:
            cells.append([row["schedule"], row["error"], *[""] * 7])
            continue
        devices, batches, chunks = len(row["spans"]), row["microbatches"], row["chunks"]
        name = next((ours for ours, torchs in SCHEDULES.items() if torchs == row["schedule"]), "")
        idle = module.bubble(name, devices, batches, chunks) if name else 0
        formula = words.share(idle) if idle else "-"
        orders = [[tuple(action) for action in order] for order in row["orders"]] if row["orders"] else _order(
            module, "gpipe" if row["schedule"] == "GPipe" else "1f1b", devices, batches)
        times = module.simulate(orders, _seconds(chunks))
        cells.append([row["schedule"], str(devices), str(row["stages"]), formula, _idle(times, batches),
                      words.share(row["bubble"]), words.seconds(row["seconds"]), f"{row['loss']:.1e}", f"{row['gradient']:.1e}"])
        bars.append((f"{row['schedule']}, {devices} devices", row["bubble"]))
    title = "what of a step is not work"
    note = ("Measured is simulated, plus what sending and the host take. Simulated are torch's orders, and for GPipe and 1F1B "
            "those of parallelism.py. Differences: beside one process.")
    return View(title, "\n".join([title, table(head, cells), note]),
                headline(title.capitalize()) + charts.bars(bars, say=words.share).html() + table_html(head, cells) + quiet(note))


def step(job, schedule: str = "1F1B") -> View:
    """One step of a schedule as its devices have noted it: when each of them was at work."""
    found = {row["schedule"]: row for row in rows(job, "pipeline") if row.get("spans")}
    if schedule not in found:
        raise UsageError(f"schedule={schedule!r} was not run: choose one of {', '.join(found)}")
    row = found[schedule]
    lanes = [Lane(f"device {device}", [Span(begin, end, KINDS[kind][0], KINDS[kind][1]) for kind, begin, end in spans], 22)
             for device, spans in enumerate(row["spans"])]
    busy = [sum(end - begin for _, begin, end in spans) / row["seconds"] for spans in row["spans"]]
    lines = [f"  device {device}: at work {words.share(share)} of the step" for device, share in enumerate(busy)]
    title = f"{schedule} as it ran: {words.seconds(row['seconds'])} per step"
    return View(title, "\n".join([title, *lines]), charts.timeline(lanes, title=title, begin=0.0, end=row["seconds"]).html())


# --------------------------------------------------------------------------------------------------------- which, when
MODELS = (("1 billion", 1e9, 10e9), ("7 billion", 7e9, 20e9), ("30 billion", 30e9, 40e9), ("70 billion", 70e9, 80e9))
MACHINES = (("1 GPU", 1, 1, True), ("8 GPUs, one node", 8, 8, True), ("64, fast network", 64, 8, True),
            ("64, slow network", 64, 8, False), ("512, fast network", 512, 8, True))


@tables.numbers(rows=(1, 10**6))
def decisions(rows: int = 256) -> View:
    """What your `choose` says of four models on five machines of H200s (141 GB), for a batch of ``rows``."""
    choose = yours().choose
    head = ["model, a row's activations", *(name for name, *_ in MACHINES)]
    cells = [[f"{name}, {row / 1e9:g} GB", *(choose(parameters, row, rows, gpus, node, 141e9, fast)
                                            for _, gpus, node, fast in MACHINES)] for name, parameters, row in MODELS]
    title = f"a batch of {rows:,} rows, GPUs of 141 GB"
    return View(title, "\n".join([title, table(head, cells)]), headline("What your function chooses", title)
                + table_html(head, cells))


def _sent(facts: dict) -> str:
    kinds = {kind: one for kind, one in facts.items() if kind != "recv"}
    said = " + ".join(f"{one['count']} {kind.replace('_', '-')}" for kind, one in kinds.items())
    return f"{said}: {_bytes(sum(one['bytes'] for one in kinds.values()))}" if said else "nothing"


def _bytes(value: float) -> str:
    return charts.si(value) + "B"
