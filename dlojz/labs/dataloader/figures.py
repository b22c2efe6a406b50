"""Figures for the notebook about the DataLoader: what workers change, the table of trials, what is reachable."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...jobs import Job, jobs, runs
from ...system import hardware, machine
from ...system.errors import UsageError
from ...system.look import System
from ...ui import charts, tables, words
from ...ui.page import View, headline, listed, note, quiet, table, table_html
from ...ui.page import rows as rows_html
from ...ui.palette import BLUE, CARE, PHASE

MEASURES = ("images_per_second", "ratio", "step_ms", "loading_ms", "waiting", "first_step_s", "with_workers_gb")
WHAT = {"loading": "loading", "training": "training", "idle": "the device waits"}
COLOURS = {"training": BLUE, "the device waits": PHASE["idle"]}

# --- what workers change --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """Something that lasts: on which lane (-1: the device), which batch, from when to when; ``what``: loading, training, idle."""

    lane: int
    batch: int
    begin: float
    end: float
    what: str


def schedule(loading: float, training: float, workers: int, batches: int, ahead: int = 2) -> list[Span]:
    """Who does what when: each worker loads every ``workers``-th batch, and has no more than ``ahead`` of them waiting."""
    spans, free, device, taken = [], [0.0] * max(1, workers), 0.0, []
    for batch in range(batches):
        lane = batch % max(1, workers)
        if workers:
            room = taken[batch - workers * ahead] if batch >= workers * ahead else 0.0
            begin = max(free[lane], room)
        else:
            begin = device  # the training process loads for itself
        free[lane] = begin + loading
        if free[lane] > device:
            spans.append(Span(-1, batch, device, free[lane], "idle"))
        taken.append(max(device, free[lane]))
        spans += [Span(lane, batch, begin, free[lane], "loading"), Span(-1, batch, taken[-1], taken[-1] + training, "training")]
        device = taken[-1] + training
    return spans


@tables.numbers(loading=(0.05, 100.0), training=(0.05, 100.0), workers=(0, 16), batches=(1, 100))
def pipeline(loading: float = 2.6, training: float = 1.0, workers: Sequence[int] = (0, 1, 3), batches: int = 8) -> View:
    """A loader with so many workers, where loading a batch takes so much longer than training on it."""
    found = {count: schedule(loading, training, count, batches) for count in workers}
    end, drawn, lines = max(span.end for spans in found.values() for span in spans), [], []
    for count, spans in found.items():
        name = words.counted(count, "worker") if count else "no workers"
        lanes = [charts.Lane(_lane(lane, count), [
            charts.Span(span.begin, span.end, WHAT[span.what], tip=f"{WHAT[span.what]}, batch {span.batch + 1}",
                        words="" if span.what == "idle" else f"{span.batch + 1}")
            for span in spans if span.lane == lane]) for lane in range(-1, max(1, count))]
        drawn.append(charts.timeline(lanes, title=name, begin=0, end=end, colours=COLOURS, axis=False, gap=3, left=110))
        ended = max(span.end for span in spans)
        waited = sum(span.end - span.begin for span in spans if span.what == "idle")
        lines.append(f"  {name:<10}  {batches} batches in {ended:.1f}, the device waits {waited / ended:.0%} of that")
    said = f"Time in trainings of a batch; loading a batch takes {loading:g} of them. A model, not a measurement."
    page = headline("Who does what when") + charts.grid(*drawn, columns=1).html()
    page += "".join(quiet(line.strip()) for line in lines) + quiet(said)
    return View("loading beside training", "\n".join(["Who does what when", *lines, said]), page)


def _lane(lane: int, workers: int) -> str:
    return "the device" if lane < 0 else f"worker {lane + 1}" if workers else "the process"


# --- the trials ------------------------------------------------------------------------------------------------------------


def trials(prefix: str = "feed_", against: str = "feed_random") -> list[Job]:
    """All runs whose names begin so, for `views.compare`; of a run that was repeated, the last one."""
    found = [job for job in jobs if job.name.startswith(prefix)]
    if not any(job.name == against for job in found):
        raise UsageError(f"there is no run {against} yet: submit the cell that makes it, then look again")
    return list({(job.name, job.command): job for job in found}.values())


# --- what there is room for ------------------------------------------------------------------------------------------------


@tables.numbers(workers=(0, 1024), batch_size=(1, 1_000_000), image_size=(1, 10_000), prefetch=(1, 1000))
def room(workers: int, batch_size: int, image_size: int, prefetch: int = 2) -> View:
    """Cores that this process may use, and shared memory, beside what a loader with so many workers asks for."""
    need = hardware.loader_needs(workers, prefetch, batch_size, image_size)
    shm = hardware.look_shm(System())
    allowed, present = machine.cores_allowed(), os.cpu_count()
    free = f"{shm['free'] / 1e6:,.0f} MB free" if shm["there"] else "not there on this system"
    rows = [("cores", f"{allowed} of {present} are for this process (its CPU set and its control group's limit)"),
            ("workers", f"{workers}, each {prefetch} batches ahead: {workers * prefetch} batches of {batch_size} images of "
                        f"{image_size} px wait"),
            ("as uint8", f"{need / 1e6:,.1f} MB in /dev/shm"), ("as float32", f"{4 * need / 1e6:,.1f} MB"),
            ("/dev/shm", free)]
    said = []
    if workers > allowed:
        said.append(f"{workers} workers on {allowed} cores take turns: no more than one for each core.")
    if shm["there"] and shm["free"] < 4 * need:
        said.append("Too little for float32 images: workers would die with a bus error. In a container, --shm-size=8g.")
    title = "Room for a loader in this process"
    page = headline(title) + rows_html(rows) + "".join(note(line, CARE) for line in said)
    return View(title, "\n".join([listed(title, rows), *said]), page)


@tables.numbers(images=(1, 100_000))
def reachable(random_run="feed_random", images: int = 64) -> View:
    """How fast one core loads photos, measured now, beside how many the model takes on random data: cores needed, or where the
    model computes on the same cores, which share of that speed is left."""
    run = runs.one(random_run)
    speed = run.numbers.get("images_per_second")
    if not speed:
        raise UsageError(f"{run.name} has measured nothing yet: let it complete first")
    size, cores = run.start["image_size"], run.machine.get("cores_allowed") or machine.cores_allowed()
    seconds = seconds_to_load(size, images)
    rows = [("loading", f"{1 / seconds:,.0f} images/s on one core: {seconds * 1000:.2f} ms for an image of {size} px"),
            ("random data", f"{words.number(speed)} images/s ({run.name})")]
    if run.on_gpu:
        rows += [("cores needed", f"{speed * seconds:.1f}, to load as fast as the GPU trains; the run may use {cores}")]
        said = "A worker keeps one core busy. Where cores are lacking, an image has to become cheaper."
        share = min(1.0, cores / (speed * seconds))
    else:
        training = cores / speed
        share = training / (training + seconds)
        rows += [("training", f"{training * 1000:.2f} ms for an image, if the model keeps all {cores} cores busy")]
        said = "Model and loader share these cores: what loading takes, training lacks, however many workers there are."
    rows += [("reachable", f"about {share:.0%} of the speed on random data")]
    title = "What is reachable here"
    return View(title, "\n".join([listed(title, rows), said]), headline(title) + rows_html(rows) + quiet(said))


def seconds_to_load(image_size: int, images: int = 64) -> float:
    """Seconds of a core for one training image of the photo set, from the file to the tensor."""
    import torch

    from ... import data

    photos = data.dataset("photos", "train", image_size)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for index in range(4):
            photos[index]
        began = time.process_time()  # the time of this process: others on the machine do not count
        for index in range(images):
            photos[index]
        return (time.process_time() - began) / images
    finally:
        torch.set_num_threads(threads)


# --- the first batch of each epoch -----------------------------------------------------------------------------------------


@tables.numbers(workers=(1, 256), image_size=(8, 1024), batch_size=(1, 128), epochs=(1, 20))
def starts(workers: int = 2, image_size: int = 64, batch_size: int = 8, epochs: int = 3) -> View:
    """How long an epoch's first batch is waited for, with workers that are started anew and with workers that stay."""
    import torch
    from torch.utils.data import DataLoader, Subset

    from ... import data

    every = data.dataset("photos", "train", image_size)
    photos = Subset(every, range(min(len(every), 4 * workers * batch_size)))
    waited = {}
    for name, kept in (("started anew", False), ("persistent_workers", True)):
        loader = DataLoader(photos, batch_size, num_workers=workers, persistent_workers=kept, generator=torch.Generator())
        waited[name] = []
        for _ in range(epochs):
            began = time.perf_counter()
            for number, _batch in enumerate(loader):
                if not number:
                    waited[name].append(time.perf_counter() - began)
    title = f"Waiting for the first batch, {words.counted(workers, 'worker')}"
    head = ["", *(f"epoch {number + 1}" for number in range(epochs))]
    cells = [[name, *(words.seconds(value) for value in values)] for name, values in waited.items()]
    longest = max(max(values) for values in waited.values())
    bars = {head[i + 1]: [values[i] / longest for values in waited.values()] for i in range(epochs)}
    said = f"{batch_size} images of {image_size} px a batch; a worker is started by `{multiprocessing.get_start_method()}`."
    page = headline(title) + table_html(head, cells, bars) + quiet(said)
    return View(title, "\n".join([title, table(head, cells), said]), page)
