"""Figures for the notebook about DistributedDataParallel."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...system.errors import UsageError
from ...ui import tables, words
from ...ui.page import View, headline, quiet, table, table_html
from ...ui.svg import BLUE, GREEN, GREY, ORANGE, PHASE, VERMILLION, Panel, Svg, legend, ticks

SAME = 1e-5  # what differs by less is the order of sums
RANKS = (BLUE, VERMILLION, GREEN, ORANGE)


@tables.numbers(processes=(1, 16))
def step(processes: int = 3) -> View:
    """What each process does in one step, and the one moment in which they need each other."""
    width, left, row = 900, 92, 62
    svg = Svg(width, 44 + processes * row + 40, "one training step of several processes")
    parts = (("its images", 112, PHASE["idle"]), ("forward", 112, PHASE["forward"]), ("backward", 178, PHASE["backward"]),
             ("mean of all", 128, GREY), ("update", 112, PHASE["update"]))
    x = left
    places = []
    for name, wide, colour in parts:
        places.append((name, x, wide, colour))
        x += wide + 16
    high = processes * row
    for name, x, wide, colour in places:
        if name == "mean of all":
            svg.rect(x, 34, wide, high - 14, colour, opacity=0.3, radius=6)
            svg.text(x + wide / 2, 24, "all-reduce", anchor="middle", weight=600)
            svg.text(x + wide / 2, 34 + (high - 14) / 2 - 4, "the mean of", anchor="middle")
            svg.text(x + wide / 2, 34 + (high - 14) / 2 + 13, "all gradients", anchor="middle")
    for rank in range(processes):
        y = 34 + rank * row
        svg.text(2, y + 20, f"rank {rank}", weight=600)
        svg.text(2, y + 36, "own process", size=11, opacity=0.8)
        for name, x, wide, colour in places:
            if name == "mean of all":
                _arrow(svg, x - 15, x - 2, y + 24)
                _arrow(svg, x + wide + 1, x + wide + 15, y + 24)
                continue
            svg.rect(x, y, wide, 48, colour, opacity=0.75 if name != "its images" else 0.35, radius=4)
            svg.text(x + wide / 2, y + 29, f"{name} {rank}" if name == "its images" else name, anchor="middle", weight=600)
    bottom = 34 + high + 10
    svg.text(places[0][1] + 56, bottom, "different", anchor="middle", opacity=0.85)
    svg.text(places[2][1] + 89, bottom, "gradients of its own images", anchor="middle", opacity=0.85)
    svg.text(places[4][1] + 56, bottom, "the same", anchor="middle", opacity=0.85)
    said = ("Parameters are the same before the step, gradients are the same after the all-reduce: so each process makes the "
            "same update, the copies stay equal, and no parameter is ever sent.")
    text = "\n".join(["One step of several processes, each with its own copy of the model:",
                      "  1. its own images (different in each)   2. forward   3. backward: gradients of its own images",
                      "  4. all-reduce: all get the mean of all gradients   5. the same update", said])
    return View("a step of several processes", text, headline("One step of several processes") + str(svg) + quiet(said))


def _arrow(svg: Svg, x: float, end: float, y: float) -> None:
    svg.path(f"M{x} {y}L{end} {y}M{end - 5} {y - 5}L{end} {y}L{end - 5} {y + 5}", "currentColor", width=1.5, opacity=0.7)


@tables.numbers(images=(1, 17), processes=(1, 8), epochs=(1, 8))
def shares(images: int = 10, processes: int = 2, epochs: int = 2) -> View:
    """Which process reads which image: dealt out by the DistributedSampler of torch itself, in several ways."""
    from torch.utils.data import DistributedSampler

    ways = [("set_epoch, drop_last=True", True, True), ("without set_epoch", False, True),
            ("drop_last=False (the default)", True, False)]
    if images % processes == 0:
        images += 1  # what does not go into the processes is the point
    cell, left = 26, 340
    svg = Svg(900, 22 + len(ways) * (epochs * processes * (cell + 3) + 24), "which process reads which image")
    lines, y = [f"{images} images, {processes} processes:"], 8
    for name, tell, drop in ways:
        lines.append(f"  {name}")
        svg.text(2, y + 18, name, weight=600)
        for epoch in range(epochs):
            seen: list[int] = []
            for rank in range(processes):
                sampler = DistributedSampler(range(images), processes, rank, seed=1, drop_last=drop)
                if tell:
                    sampler.set_epoch(epoch)
                mine = list(sampler)
                svg.text(left - 12, y + 18, f"epoch {epoch}, rank {rank}", anchor="end")
                for place, image in enumerate(mine):
                    twice = image in seen
                    x = left + place * (cell + 4)
                    svg.rect(x, y, cell, cell, RANKS[rank % len(RANKS)], f"image {image}", opacity=0.4, radius=3,
                             stroke="currentColor" if twice else "")
                    svg.text(x + cell / 2, y + 17, str(image), anchor="middle", weight=600 if twice else 400)
                seen += mine
                lines.append(f"    epoch {epoch}, rank {rank}: {' '.join(f'{image:>2}' for image in mine)}")
                y += cell + 3
            repeated = sorted({image for image in seen if seen.count(image) > 1})
            left_out = sorted(set(range(images)) - set(seen))
            note = (f"image {', '.join(map(str, repeated))} twice" if repeated else
                    f"image {', '.join(map(str, left_out))} {'waits for another epoch' if tell else 'is left out each time'}"
                    if left_out else "")
            if note:
                lines.append(f"      {note}")
                svg.text(left + 6 * (cell + 4) + 16, y - cell * processes / 2, note, opacity=0.85)
        y += 20
    title = f"{images} images, dealt out to {processes} processes"
    page = headline(title) + str(svg) + legend([(f"rank {rank}", RANKS[rank % len(RANKS)]) for rank in range(processes)])
    return View(title, "\n".join(lines), page)


@tables.numbers(batch=(1, 1_000_000), processes=(1, 1_000_000), images=(1, 10**12))
def rates(batch: int, processes: Sequence[int], images: int, base: tuple[float, int] = (0.1, 256)) -> View:
    """Global batch, updates of an epoch of so many images, and what the linear rule makes of the learning rate."""
    head = ["processes", "images of a process", "global batch", "updates an epoch", "linear rule: lr"]
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
    about = f"{ranks} processes, {found['steps']} batches of {found['batch']} photos each; lines: one process with all images"
    order = sorted(range(len(found["all"])), key=lambda channel: found["all"][channel])
    values = [value for way in found["ways"].values() for means in way for value in means] + found["all"]
    room = 0.12 * (max(values) - min(values))
    low, high = min(values) - room, max(values) + room
    ways = [way for way in WAYS if way in found["ways"]]
    svg = Svg(900, 30 + len(ways) * 150, title)
    lines = [f"{title}: {about}"]
    for number, way in enumerate(ways):
        means = found["ways"][way]
        panel = Panel(svg, 62, 32 + number * 150, 800, 98, (-0.5, len(order) - 0.5), (low, high))
        panel.axis_y(WAYS[way], ticks(low, high, 4))
        panel.axis_x("channel" if number == len(ways) - 1 else "", range(len(order)), lambda place: str(order[round(place)]))
        for place, channel in enumerate(order):
            y = panel.py(found["all"][channel])
            svg.line(panel.px(place) - 14, y, panel.px(place) + 14, y, width=2, opacity=0.55)
            for rank, mine in enumerate(means):
                x = panel.px(place) + (rank - (ranks - 1) / 2) * 9
                tip = f"rank {rank}, channel {channel}: {mine[channel]:.4f}"
                svg.dot(x, panel.py(mine[channel]), RANKS[rank % len(RANKS)], 4, tip)
        lines.append(f"  {WAYS[way]}: {said(means, found['all'])}")
    head = ["channel", *(f"{way}, rank {rank}" for way in ways for rank in range(ranks)), "all images"]
    rows = [[str(channel), *(f"{mine[channel]:.4f}" for way in ways for mine in found["ways"][way]),
             f"{found['all'][channel]:.4f}"] for channel in order]
    text = "\n".join([*lines, "", table(head, rows)])
    notes = "".join(quiet(line.strip()) for line in lines[1:])
    page = headline(title.capitalize(), about) + str(svg)
    return View(title, text, page + legend([(f"rank {rank}", RANKS[rank % len(RANKS)]) for rank in range(ranks)]) + notes)


def said(means: Sequence[Sequence[float]], whole: Sequence[float]) -> str:
    """How far processes are from each other, and from one that is given all images, in the channel where that is most."""
    apart = max(max(channel) - min(channel) for channel in zip(*means))
    off = max(abs(value - true) for mine in means for value, true in zip(mine, whole))
    between = f"processes differ by up to {words.number(apart)}" if apart > SAME else "all processes have the same"
    return between + (f", and from one with all images by up to {words.number(off)}" if off > SAME else
                      ", and one with all images has it, too")

