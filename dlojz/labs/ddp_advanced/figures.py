"""Figures for the notebook about what DDP takes for granted: parameters, batches, processes."""

from __future__ import annotations

from ...jobs.job import Job
from ...system.errors import UsageError
from ...ui import tables
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.svg import BAD, CARE, GREY, PHASE, VERMILLION, Svg, legend

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
    svg = Svg(900, 262, "forward, backward and all-reduce of a group, without and with no_sync")
    wide = {"forward": 46, "backward": 78, "sent": 52, "update": 40}
    y, ends, lines = 8, {}, []
    for name, every in (("gradients sent in every batch", True), ("no_sync in all batches but the last", False)):
        svg.text(2, y + 12, name, weight=600)
        for rank in (0, 1):
            top, x = y + 24 + rank * 40, 62
            svg.text(2, top + 21, f"rank {rank}", opacity=0.85)
            for number in range(batches):
                for phase, colour in (("forward", FORWARD), ("backward", BACKWARD)):
                    svg.rect(x, top, wide[phase], 32, colour, f"{phase} of batch {number + 1}", opacity=0.85, radius=2)
                    svg.text(x + wide[phase] / 2, top + 20, f"{number + 1}", anchor="middle", fill="#fff", size=11)
                    x += wide[phase] + 2
                if every or number == batches - 1:
                    if rank == 0:
                        svg.rect(x, top, wide["sent"], 72, SENT, "all-reduce", opacity=0.55, radius=3)
                    x += wide["sent"] + 2
            svg.rect(x, top, wide["update"], 32, UPDATE, "update", opacity=0.85, radius=2)
            ends[every] = x + wide["update"]
        lines.append(f"  {name}: {batches if every else 1} all-reduce for one update of {batches} batches")
        y += 122
    arrow = f"M{ends[False]} 240H{ends[True]}m-6 -5l6 5l-6 5M{ends[False]} 240l6 -5m-6 5l6 5"
    svg.path(arrow, "currentColor", width=1.4, opacity=0.7)
    svg.text((ends[False] + ends[True]) / 2, 256, f"{batches - 1} all-reduces saved", anchor="middle", opacity=0.85)
    names = [("forward", FORWARD), ("backward", BACKWARD), ("all-reduce of the gradients", SENT), ("update", UPDATE)]
    said = "Drawn one after the other; in truth a part of an all-reduce hides behind the backward pass, and so costs less."
    page = headline(f"One update from {batches} batches", "two processes") + str(svg) + legend(names) + quiet(said)
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
    svg = Svg(900, 3 * 96 + 4, "two processes with different numbers of batches")
    lines = []
    for row, (name, trained, result, how) in enumerate(ways):
        y = 4 + row * 96
        svg.text(2, y + 14, name, weight=600)
        svg.text(250, y + 14, result, opacity=0.85)
        for rank, own in enumerate((long, short)):
            top = y + 22 + 32 * rank
            svg.text(2, top + 18, f"rank {rank}", opacity=0.85)
            for batch in range(long):
                x, there, done = 62 + batch * 82, batch < own, batch < min(own, trained)
                if done and not (how == "wait" and batch >= short):
                    svg.rect(x, top, 76, 26, BACKWARD, f"batch {batch + 1}", opacity=0.85, radius=3)
                    svg.text(x + 38, top + 17, f"batch {batch + 1}", anchor="middle", fill="#fff", size=11)
                elif how == "wait" and there and batch == short:
                    rest = 82 * (long - short - 1)
                    svg.rect(x, top, 76 + rest, 26, VERMILLION, "waits", opacity=0.85, radius=3)
                    svg.text(x + 38 + rest / 2, top + 17, "waits", anchor="middle", fill="#fff", size=11, weight=600)
                elif how == "leave" and there:
                    svg.rect(x, top, 76, 26, "none", "left out", radius=3, stroke=GREY)
                    svg.text(x + 38, top + 17, "left out", anchor="middle", size=11, opacity=0.85)
                elif how == "shadow" and not there:
                    svg.rect(x, top, 76, 26, SENT, "zeros", opacity=0.45, radius=3)
                    svg.text(x + 38, top + 17, "zeros", anchor="middle", size=11)
        lines.append(f"  {name}: {result}")
    title = f"{long} and {short} batches"
    return View("uneven batches", "\n".join([f"Two processes with {long} and {short} batches", *lines]),
                headline(title, "each all-reduce of one needs its match in the other") + str(svg))


def lost(*jobs: Job) -> View:
    """How jobs ended that lost a process: the state, how long after the training began, and whom their record names."""
    head = ["job", "state", "lost rank", "ended after", "what the record says"]
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
    return View("lost processes", "\n".join(["How they ended", table(head, narrow), said]), page)


def _wrapped(html: str) -> str:
    """A table whose last column may take several lines."""
    return html.replace("white-space: nowrap", "vertical-align: top")

