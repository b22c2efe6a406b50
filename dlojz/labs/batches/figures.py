"""Figures about what workers draw and how sequences are padded."""

from __future__ import annotations

import os
import random
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...system import paths, workspace
from ...system.errors import UsageError
from ...ui import charts, tables
from ...ui.page import View, headline, note, table, table_html
from ...ui.palette import CARE, GREEN, GREY
from ...ui.svg import Svg

LOADING = "loading.py"

# --- chance ----------------------------------------------------------------------------------------------------------------

SOURCES = ("torch.rand", "random.random", "numpy.random.rand", "the set's own numpy generator")


class Chances:
    """A data set whose items are what four sources of chance give: (worker, torch's, Python's, numpy's global, its own)."""

    def __init__(self, items: int = 4):
        import numpy as np

        self.items, self.rng = items, np.random.default_rng(0)

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[int, float, float, float, float]:
        import numpy as np
        import torch
        from torch.utils.data import get_worker_info

        return get_worker_info().id, torch.rand(()).item(), random.random(), float(np.random.rand()), float(self.rng.random())


@tables.numbers(epochs=(1, 20), workers=(1, 64))
def draws(worker_init_fn: Callable | None = None, epochs: int = 2, workers: int = 2) -> View:
    """The first number that each worker draws in each epoch, from four sources; numbers that come twice are marked."""
    import torch
    from torch.utils.data import DataLoader

    loader = DataLoader(Chances(2 * workers), batch_size=None, num_workers=workers, worker_init_fn=worker_init_fn,
                        generator=torch.Generator().manual_seed(1))
    first: dict[tuple[int, int], tuple] = {}
    for epoch in range(epochs):
        for worker, *numbers in loader:
            first.setdefault((epoch, worker), tuple(numbers))
    places = sorted(first)
    head = ["drawn from", *(f"epoch {epoch + 1}, worker {worker}" for epoch, worker in places), ""]
    cells = []
    for number, name in enumerate(SOURCES):
        values = [f"{first[place][number]:.4f}" for place in places]
        cells.append([name, *values, "" if len(set(values)) == len(values) else "the same again"])
    title = "What workers draw"
    colours = {"": [CARE] * len(cells)}
    return View(title, "\n".join([title, table(head, cells)]), headline(title) + table_html(head, cells, colours=colours))


# --- sequences -------------------------------------------------------------------------------------------------------------

PROSE = re.compile(r"\s*[A-Z](?!.*(::=|[|]|\+--)).*[.:]\s*", re.DOTALL)  # no code, no grammar, no table


def sentences() -> list[int]:
    """Lengths, in words, of the sentences in Python's own help texts."""
    from pydoc_data.topics import topics

    lengths = []
    for text in topics.values():
        for paragraph in re.split(r"\n\s*\n", text):
            if PROSE.fullmatch(paragraph):
                lengths += [len(sentence.split()) for sentence in re.split(r"(?<=[.!?:;])\s", paragraph) if sentence.strip()]
    return lengths


def by_chance(lengths: Sequence[int], batch_size: int, seed: int = 0) -> list[list[int]]:
    order = list(range(len(lengths)))
    random.Random(seed).shuffle(order)
    return [order[first : first + batch_size] for first in range(0, len(order), batch_size)]


def waste(lengths: Sequence[int], batches: Sequence[Sequence[int]], width: int = 0) -> float:
    """Which part of the padded batches is padding; ``width``: that of each batch (0: its longest)."""
    filled = sum((width or max(lengths[index] for index in batch)) * len(batch) for batch in batches)
    return 1 - sum(lengths[index] for batch in batches for index in batch) / filled


@tables.numbers(batch_size=(1, 1000), shown=(1, 100))
def padding(batch_size: int = 16, shown: int = 6) -> View:
    """Three ways to pad the sentences of Python's help: to the longest of all, to the longest of the batch, and in the batches
    that your loading.py makes."""
    lengths = sentences()
    chance, notes = by_chance(lengths, batch_size), []
    ways = [("to the longest of the set", chance, max(lengths)), ("to the longest of the batch", chance, 0)]
    try:
        ways.append(("in the batches of your loading.py", own_batches(lengths, batch_size), 0))
    except UsageError as error:
        notes.append(str(error))
    svg = Svg(900, len(ways) * 132 + 4, "batches of sequences and their padding")
    across = max(lengths) + 0.0
    lines = []
    for number, (name, batches, width) in enumerate(ways):
        y, share = 18 + number * 132, waste(lengths, batches, width)
        svg.text(2, y - 4, f"{name}: {share:.0%} padding", weight=600)
        slot = 900 / shown
        for place, batch in enumerate(batches[:shown]):
            wide = width or max(lengths[index] for index in batch)
            x, scale = place * slot, (slot - 12) / across
            svg.rect(x, y + 2, wide * scale, len(batch) * 6 + 1, GREY, f"padded to {wide} words", 0.6)
            for row, index in enumerate(batch):
                svg.rect(x, y + 3 + row * 6, lengths[index] * scale, 4.6, GREEN, f"{lengths[index]} words")
        lines.append(f"  {name}: {share:.1%} padding, {sum(lengths):,} words in "
                     f"{round(sum(lengths) / (1 - share)):,} places")
    middle = sorted(lengths)[len(lengths) // 2]
    about = (f"{len(lengths):,} sentences of Python's help, {batch_size} a batch; half of them have up to {middle} words, the "
             f"longest {max(lengths)}")
    page = headline("Padding", about) + str(svg) + charts.legend([("words", GREEN), ("padding", GREY)])
    return View("padding", "\n".join([f"Padding: {about}", *lines, *notes]), page + "".join(note(said, CARE) for said in notes))


def own_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """What ``buckets`` in the trainee's loading.py makes of these lengths. Raises UsageError where that cannot be."""
    import torch

    with _in_loading():
        batches = [list(map(int, batch)) for batch in mine("buckets")(lengths, batch_size, torch.Generator().manual_seed(0))]
        waste(lengths, batches)
        return batches


def mine(name: str) -> Callable:
    """A function of the trainee's own loading.py, as it is in the file now. Raises UsageError."""
    file = workspace.find() / LOADING
    with _in_loading():
        return getattr(paths.module(file), name)


@contextmanager
def _in_loading() -> Iterator[None]:
    """An exception out of the trainee's file becomes one line that says where."""
    try:
        yield
    except UsageError:
        raise
    except FileNotFoundError:
        raise UsageError(f"{LOADING} is not here: `dlojz workspace` brings it back") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = "".join(f", line {frame.lineno}" for frame in frames if os.path.basename(frame.filename) == LOADING)
        raise UsageError(f"{LOADING}{where}: {type(error).__name__}: {error}. Mend it, then check again") from None
