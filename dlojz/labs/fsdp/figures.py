"""Figures for the notebook about FSDP."""

from __future__ import annotations

from ...jobs import runs
from ...system.errors import UsageError
from ...ui import charts, tables, words
from ...ui.charts import Lane, Span
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, COLLECTIVE, GREEN, GREY, ORANGE, PHASE, SKY

PARTS = {"parameters": BLUE, "gradients": ORANGE, "optimizer states": GREEN, "gathered while it computes": SKY}
WAYS = {"DDP": "a copy in each process", "zero2": "a part; blocks stay whole", "zero3": "a part; one block whole"}


@tables.numbers(processes=(1, 100_000), billions=(1, 100_000), blocks=(1, 10_000))
def stages(processes: int = 8, billions: int = 3, blocks: int = 26) -> View:
    """Bytes that a process holds with AdamW in float32: 4 per parameter, per gradient, and 8 of states. Activations come on
    top. zero3 has one block gathered and the next one on its way."""
    each = 4e9 * billions
    rows = [("DDP", {"parameters": each, "gradients": each, "optimizer states": 2 * each})]
    for way, gathered in (("zero2", each), ("zero3", each * min(1.0, 2 / blocks))):
        part = each / processes
        rows.append((way, {"parameters": part, "gradients": part, "optimizer states": 2 * part,
                           "gathered while it computes": gathered}))
    title = f"{billions:,} billion parameters, AdamW, {processes} processes"
    chart = charts.stacked([(f"{way}: {WAYS[way]}", parts) for way, parts in rows], colours=PARTS, say=_gigabytes)
    lines = [f"{title}: what a process holds", *(f"  {way:<6} {_gigabytes(sum(parts.values()))}  ({WAYS[way]})"
                                                  for way, parts in rows)]
    note = "Computed, not measured: 16 bytes per parameter, activations not counted."
    return View(title, "\n".join([*lines, note]), headline(title, "what a process holds") + chart.html() + quiet(note))


def _gigabytes(value: float) -> str:
    return f"{words.number(value / 1e9)} GB"


def _bytes(value: float) -> str:
    return _gigabytes(value) if value >= 1e9 else f"{words.number(value / 1e6)} MB"


@tables.numbers(blocks=(1, 8))
def step(blocks: int = 3) -> View:
    """Which block is whole when, in one step of zero3, and what is sent: lengths are made up."""
    lanes, at, sent = [], 0.0, []
    whole: list[list[tuple[float, float, str]]] = [[] for _ in range(blocks)]
    order = [(block, "forward") for block in range(blocks)] + [(block, "backward") for block in reversed(range(blocks))]
    for place, (block, phase) in enumerate(order):
        sent.append(Span(at - 0.6 if place else at, at if place else at + 0.6, "all-gather", COLLECTIVE, tip=f"block {block}"))
        at += 0.6 if not place else 0
        length = 1.0 if phase == "forward" else 2.0
        whole[block].append((at - 0.6, at + length, phase))
        if phase == "backward":
            sent.append(Span(at + length, at + length + 0.5, "reduce-scatter", GREY, tip=f"gradients of block {block}"))
        at += length
    for block, spans in enumerate(whole):
        drawn = [Span(begin, end, phase, PHASE[phase], tip=f"block {block} is whole") for begin, end, phase in spans]
        lanes.append(Lane(f"block {block} whole", drawn, 26))
    lanes.append(Lane("sent", sent, 26))
    said = ("Outside of its bars a process holds its part of a block alone. The next block is gathered while one computes; a "
            "block's gradients are summed and split while the block before it goes backward.")
    text = "\n".join(["One step of zero3:", *(f"  block {number}: gathered, forward, freed; gathered, backward, freed, gradients "
                                              "summed and split" for number in range(blocks)), said])
    return View("a step of zero3", text, headline("One step of zero3") + charts.timeline(lanes, axis=False).html() + quiet(said))


def held(*jobs) -> View:
    """Runs beside each other: the bytes that rank 0 holds, its peak on a GPU, tokens/s. Raises UsageError where a run has not
    recorded them."""
    if not jobs:
        raise UsageError("give jobs, or names of runs, that train_lm.py has made")
    rows, cells, rates = [], [], []
    for job in jobs:
        run = runs.one(job)
        end, found = run.record.end or {}, run.numbers
        parts = [end.get(name) for name in ("bytes_parameters", "bytes_gradients", "bytes_states")]
        if None in parts:
            raise UsageError(f"{run.name} has not recorded what it holds: it did not run to completion, or is no train_lm.py")
        rows.append((run.name, dict(zip(PARTS, map(float, parts)))))
        peak, speed = end.get("memory_allocated"), found.get("images_per_second")
        rates.append(speed)
        cells.append([run.name, _bytes(sum(parts)), _bytes(peak) if peak else "not measured: no GPU",
                      words.number(speed) if speed else "-"])
    head = ["run", "parameters, gradients, states of rank 0", "peak on its GPU", "tokens/s of all"]
    title = "what a process holds, and how fast all are"
    chart = charts.stacked(rows, colours=PARTS, say=_bytes)
    speeds = charts.bars([(name, speed) for (name, _), speed in zip(rows, rates)], unit="tokens/s", baseline=rows[0][0])
    return View(title, f"{title}\n{table(head, cells)}", headline(title.capitalize()) + chart.html() + speeds.html()
                + table_html(head, cells))
