"""Figures for the notebook about what DDP takes for granted: parameters, batches, processes."""

from __future__ import annotations

from ...jobs.job import Job
from ...system.errors import UsageError
from ...ui import charts, tables
from ...ui.charts import Bracket, Lane, Span
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BAD, CARE, GREY, PHASE, VERMILLION
from ...ui.svg import Svg

FORWARD, BACKWARD, UPDATE = (PHASE[name] for name in ("forward", "backward", "update"))
SENT = GREY  # an all-reduce, as in the notebook before this one


def buckets() -> View:
    """Why a parameter without a gradient stops everything: its bucket is never full."""
    svg = Svg(900, 214, "buckets of gradients, one of which is never full")
    columns = (("bucket 1", ("heads.2", "heads.1", "heads.0"), BAD, "never full: not sent"),
               ("bucket 2", ("trunk.2", "trunk.0"), CARE, "full: it waits for its turn"))
    svg.text(2, 18, "a step that used head 1", weight=600)
    x = 190
    for name, parts, colour, state in columns:
        wide = 96 * len(parts)
        svg.text(x + wide / 2, 18, name, anchor="middle", weight=600)
        svg.rect(x - 6, 28, wide + 6, 54, "none", stroke="currentColor", radius=5)
        for number, part in enumerate(parts):
            has = part not in ("heads.2", "heads.0")
            ink = "#fff" if has else "currentColor"
            svg.rect(x + 96 * number, 34, 90, 42, BACKWARD if has else "none", radius=3, stroke="" if has else GREY)
            svg.text(x + 96 * number + 45, 52, part, anchor="middle", weight=600, fill=ink)
            svg.text(x + 96 * number + 45, 68, "gradient" if has else "nothing", anchor="middle", size=11, fill=ink)
        middle = x + wide / 2 - 3
        svg.path(f"M{middle} 88V116m-5 -6l5 6l5 -6", colour, width=2, dash="4 4")
        svg.rect(middle - 96, 122, 192, 34, colour, opacity=0.16, radius=5, stroke=colour)
        svg.text(middle, 143, state, anchor="middle", weight=600)
        x += wide + 90
    hooks = "As the backward pass reaches a parameter, its gradient goes into a bucket. Full buckets are sent, in their order."
    error = "The next forward pass finds a reduction that has not ended, and raises the error."
    svg.text(2, 184, hooks, opacity=0.85)
    svg.text(2, 202, error, opacity=0.85)
    text = "\n".join([
        "Buckets of gradients after a step that used head 1 of 3:",
        "  bucket 1: heads.2 nothing, heads.1 gradient, heads.0 nothing -> never full: not sent",
        "  bucket 2: trunk.2 gradient, trunk.0 gradient                 -> full: it waits for its turn", hooks, error])
    return View("buckets", text, headline("What DDP waits for") + str(svg))


@tables.numbers(batches=(1, 4))
def groups(batches: int = 4) -> View:
    """A group of batches on two processes, without and with no_sync. Lengths are made up; what counts is how often they meet."""
    ends, lanes, lines = {}, [], []
    for name, every in (("gradients sent in every batch", True), ("no_sync in all batches but the last", False)):
        spans, now = [], 0.0
        for number in range(1, batches + 1):
            parts = [("forward", 0.9, FORWARD), ("backward", 1.5, BACKWARD)]
            for what, length, colour in parts + [("all-reduce", 1, SENT)] * (every or number == batches):
                words = str(number) if what != "all-reduce" else ""
                spans.append(Span(now, now + length, what, colour, False, f"{what} of batch {number}" if words else what, words))
                now += length + 0.04
        ends[every] = now + 0.8
        spans.append(Span(now, ends[every], "update", UPDATE, tip="update"))
        lanes += [Lane("rank 0", spans, 30, labels=[(0, now, name)]), Lane("rank 1", spans, 30)]
        lines.append(f"  {name}: {batches if every else 1} all-reduce for one update of {batches} batches")
    saved = [Bracket(ends[False], ends[True], f"{batches - 1} all-reduces saved")] if batches > 1 else []
    chart = charts.timeline(lanes, brackets=saved, axis=False)
    said = "Drawn one after the other; in truth a part of an all-reduce hides behind the backward pass, and so costs less."
    page = headline(f"One update from {batches} batches", "two processes") + chart.html() + quiet(said)
    return View("groups", "\n".join([f"One update from {batches} batches, two processes:", *lines, said]), page)


@tables.numbers(short=(1, 10), long=(1, 10))
def uneven(short: int = 5, long: int = 7) -> View:
    """Two processes with different numbers of batches, and three ways for them to end. Raises UsageError."""
    if short >= long:
        raise UsageError(f"short={short} and long={long} can't be drawn: one process has fewer batches than the other")
    ways = (
        ("as they are", short, "rank 0 waits in its all-reduce for one that never comes", "wait"),
        ("agreed on the smallest number", short, f"{long - short} batches of rank 0 are not trained on", "leave"),
        ("Join", long, f"rank 1 answers {long - short} all-reduces with zeros, and gets the last weights", "shadow"),
    )
    lanes = []
    for name, trained, result, how in ways:
        for rank, own in enumerate((long, short)):
            done = min(own, trained)
            spans = [Span(batch, batch + 0.94, "trained", BACKWARD, tip=f"batch {batch + 1}", words=f"batch {batch + 1}")
                     for batch in range(done)]
            if how == "wait" and own > short:
                spans.append(Span(short, long - 0.06, "waits", VERMILLION, tip="waits", words="waits"))
            else:
                what = "zeros" if how == "shadow" else "left out"
                spans += [Span(batch, batch + 0.94, what, SENT, how == "leave", what, what)
                          for batch in range(done, long if how == "shadow" else own)]
            lanes.append(Lane(f"rank {rank}", spans, 26, labels=[] if rank else [(0, long, f"{name}: {result}")]))
    title = f"{long} and {short} batches"
    text = [f"Two processes with {long} and {short} batches", *(f"  {name}: {result}" for name, _, result, _ in ways)]
    chart = charts.timeline(lanes, axis=False, legend=False)
    page = headline(title, "each all-reduce of one needs its match in the other") + chart.html()
    return View("uneven batches", "\n".join(text), page)


def lost(*jobs: Job) -> View:
    """How jobs ended of which a process died: the state, how long after the training began, and whom their record names."""
    head = ["job", "state", "dead rank", "ended after", "what the record says"]
    rows = []
    for job in jobs:
        record, named = job.record, "-"
        errors = sorted(record.errors, key=lambda error: (error.get("kind") != "lost_rank", error.get("rank", 0)))
        if errors and errors[0].get("lost"):
            named = ", ".join(map(str, errors[0]["lost"]))
        seconds = f"{errors[0]['time'] - record.start['time']:.1f} s" if errors and record.start else "-"
        rows.append([job.name, str(job.state), named, seconds, errors[0]["message"] if errors else "nothing"])
    said = "Ended after: from the start of the training to that line of the record. It went wrong in the third step or later."
    narrow = [[*row[:4], row[4] if len(row[4]) < 110 else row[4][:107] + "..."] for row in rows]
    page = headline("How they ended") + _wrapped(table_html(head, rows)) + quiet(said)
    return View("dead processes", "\n".join(["How they ended", table(head, narrow), said]), page)


def _wrapped(html: str) -> str:
    """A table whose last column may take several lines."""
    return html.replace("white-space: nowrap", "vertical-align: top")

