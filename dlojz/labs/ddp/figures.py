"""Figures for the notebook about DistributedDataParallel."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...system.errors import UsageError
from ...ui import charts, tables, words
from ...ui.charts import Lane, Line, Span
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.palette import BLUE, GREEN, GREY, INK, ORANGE, PHASE, SKY, VERMILLION

SAME = 1e-5  # what differs by less is the order of sums
RANKS = (BLUE, ORANGE, GREEN, SKY)
STEP = (("its images", 1.3, PHASE["idle"]), ("forward", 1.5, PHASE["forward"]),
        ("backward: last layers first", 3.6, PHASE["backward"]))  # name, made-up length, colour
BUCKETS = ((0.15, 0.4), (0.45, 0.9), (0.75, 0.9), (1.0, 0.9))  # full at this part of the backward pass; length of its sending


@tables.numbers(processes=(1, 16))
def step(processes: int = 3) -> View:
    """What each process does in one step, and when they need each other: from the first full bucket of gradients on."""
    names, lengths, colours = zip(*STEP)
    begins = [sum(lengths[:place]) + 0.05 * place for place in range(len(STEP) + 1)]
    sent, free = [], 0.0
    for number, (filled, length) in enumerate(BUCKETS, 1):
        begin = max(free, begins[2] + filled * lengths[2])
        free = begin + length
        sent.append(Span(begin, free - 0.05, "all-reduce", GREY, False, f"all-reduce of bucket {number}", str(number)))
    lanes = []
    for rank in range(processes):
        shown = (f"{names[0]} {rank}", *names[1:])
        spans = [Span(begin, begin + length, name, colour, name == names[0], said, said)
                 for begin, name, length, colour, said in zip(begins, names, lengths, colours, shown)]
        spans += [Span(begins[3], free, "waits", PHASE["idle"], True, "waits for the last bucket", "waits"),
                  Span(free + 0.05, free + 1.25, "update", PHASE["update"], False, "update", "update")]
        lanes.append(Lane(f"rank {rank}", spans, 40))
    lanes.append(Lane("buckets", sent, 40))
    said = ("The gradients of the last layers are ready first. Once a bucket of them is full, its all-reduce starts and gives "
            "every process the mean, while the backward pass goes on to earlier layers. Only the last bucket is waited for.")
    equal = ("Parameters are the same before the step and gradients after the all-reduces, so each process makes the same "
             "update, and no parameter is ever sent.")
    text = "\n".join(["One step of several processes, each with its own copy of the model:",
                      "  1. its own images (different in each)   2. forward   3. backward: gradients of its own images",
                      "  under the backward pass: all-reduce of bucket 1, 2, 3, 4 as each is full: the mean of all gradients",
                      "  4. wait for the last bucket   5. the same update", said, equal])
    chart = charts.timeline(lanes, axis=False, legend=False)
    return View("a step of several processes", text,
                headline("One step of several processes") + chart.html() + quiet(said) + quiet(equal))


@tables.numbers(images=(1, 17), processes=(1, 8), epochs=(1, 8))
def shares(images: int = 10, processes: int = 2, epochs: int = 2) -> View:
    """Which process reads which image: split by the DistributedSampler of torch itself, in several ways."""
    from torch.utils.data import DistributedSampler

    if images % processes == 0:
        images += 1  # what does not go into the processes is the point
    lines, drawn = [f"{images} images, {processes} processes:"], []
    for name, tell, drop in (("set_epoch, drop_last=True", True, True), ("without set_epoch", False, True),
                             ("drop_last=False (the default)", True, False)):
        lines.append(f"  {name}")
        lanes, notes = [], []
        for epoch in range(epochs):
            seen: list[int] = []
            for rank in range(processes):
                sampler = DistributedSampler(range(images), processes, rank, seed=1, drop_last=drop)
                if tell:
                    sampler.set_epoch(epoch)
                mine = list(sampler)
                spans = [Span(place, place + 0.94, *(("read twice", VERMILLION) if image in seen else
                              (f"rank {rank}", RANKS[rank % len(RANKS)])), tip=f"image {image}", words=str(image))
                         for place, image in enumerate(mine)]
                lanes.append(Lane(f"epoch {epoch}, rank {rank}", spans))
                seen += mine
                lines.append(f"    epoch {epoch}, rank {rank}: {' '.join(f'{image:>2}' for image in mine)}")
            repeated = sorted({image for image in seen if seen.count(image) > 1})
            left_out = sorted(set(range(images)) - set(seen))
            if repeated or left_out:
                how = "twice" if repeated else "waits for another epoch" if tell else "is left out each time"
                notes.append(f"image {', '.join(map(str, repeated or left_out))} {how}")
                lines.append(f"      {notes[-1]}")
        drawn.append(charts.timeline(lanes, title=name, aside="; ".join(dict.fromkeys(notes)), axis=False, gap=3,
                                     end=-(-images // processes)))
    title = f"{images} images, split between {processes} processes"
    return View(title, "\n".join(lines), headline(title) + charts.grid(*drawn, columns=1).html())


@tables.numbers(batch=(1, 1_000_000), processes=(1, 1_000_000), images=(1, 10**12))
def rates(batch: int, processes: Sequence[int], images: int, base: tuple[float, int] = (0.1, 256)) -> View:
    """Global batch, updates of an epoch of so many images, and what the linear rule makes of the learning rate."""
    head = ["processes", "images of a process", "global batch", "updates per epoch", "linear rule: lr"]
    rows = [[str(count), str(batch), f"{batch * count:,}", f"{images // (batch * count):,}",
             f"{base[0] * batch * count / base[1]:.4g}"] for count in processes]
    title = f"An epoch of {images:,} images"
    note = f"Linear rule: {base[0]:g} for {base[1]} images, in proportion (Goyal et al. 2017, section 2.1)."
    return View(title, "\n".join([title, table(head, rows), note]), headline(title) + table_html(head, rows) + quiet(note))


def statistics(job) -> View:
    """Running means of a batch norm in each process, as a job of `dlojz.labs.ddp.statistics` found them. Raises UsageError."""
    from .statistics import NAME, WAYS

    try:
        found = json.loads((job.folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = "`print(job.err)` says why; submit it with again=True"
        raise UsageError(f"{job.run} has left no {NAME} ({error}): {why}") from None
    title = "running means of a batch norm"
    ranks = len(found["ways"]["alone"])
    about = f"{ranks} processes, {found['steps']} batches of {found['batch']} photos each; crosses: one process with all images"
    order = sorted(range(len(found["all"])), key=lambda channel: found["all"][channel])
    values = [value for way in found["ways"].values() for means in way for value in means] + found["all"]
    room = 0.12 * (max(values) - min(values))
    ways = [way for way in WAYS if way in found["ways"]]
    lines, drawn = [f"{title}: {about}"], []
    for way in ways:
        series = [dots(f"rank {rank}", mine, order, RANKS[rank % len(RANKS)], (rank - (ranks - 1) / 2) * 0.15)
                  for rank, mine in enumerate(found["ways"][way])]
        series.append(dots("one process with all images", found["all"], order, INK, marker="x"))
        drawn.append(charts.lines(series, title=WAYS[way], x="channel" if way == ways[-1] else "", x_ticks=range(len(order)),
                                  say_x=lambda place: str(order[round(place)]), x_range=(-0.5, len(order) - 0.5),
                                  y_range=(min(values) - room, max(values) + room), height=110))
        lines.append(f"  {WAYS[way]}: {said(found['ways'][way], found['all'])}")
    head = ["channel", *(f"{way}, rank {rank}" for way in ways for rank in range(ranks)), "all images"]
    rows = [[str(channel), *(f"{mine[channel]:.4f}" for way in ways for mine in found["ways"][way]),
             f"{found['all'][channel]:.4f}"] for channel in order]
    page = headline(title.capitalize(), about) + charts.grid(*drawn, columns=1).html()
    return View(title, "\n".join([*lines, "", table(head, rows)]), page + "".join(quiet(line.strip()) for line in lines[1:]))


def dots(name: str, means: Sequence[float], order: Sequence[int], colour: str, aside: float = 0.0, marker: str = "o") -> Line:
    """A value for each channel, the channels in this order; ``aside``: how far from their places."""
    return Line(name, [(place + aside, means[channel]) for place, channel in enumerate(order)], colour, marker=marker, width=0,
                tips=[f"{name}, channel {channel}: {means[channel]:.4f}" for channel in order])


def said(means: Sequence[Sequence[float]], whole: Sequence[float]) -> str:
    """How far processes are from each other, and from one that is given all images, in the channel where that is most."""
    apart = max(max(channel) - min(channel) for channel in zip(*means))
    off = max(abs(value - true) for mine in means for value, true in zip(mine, whole))
    between = f"processes differ by up to {words.number(apart)}" if apart > SAME else "all processes have the same"
    return between + (f", and from one with all images by up to {words.number(off)}" if off > SAME else
                      ", and one with all images has it, too")
