"""What the figures of several labs are made of: a table with bars, bars of what memory is made of, the numbers that they take."""

from __future__ import annotations

import functools
import html
import inspect
from collections.abc import Callable, Sequence
from numbers import Integral, Real

from ..system.errors import UsageError
from . import charts
from .page import View, headline, quiet, table

CELL = "text-align: left; padding: 3px 14px 3px 0; vertical-align: top"


def numbers(**bounds: tuple[float, float]) -> Callable:
    """Decorates a figure whose numbers people change: each has a least and a largest value, and is whole where both of these are.

    Of a sequence each element is meant. The figure raises UsageError.
    """
    def decorated(figure: Callable) -> Callable:
        signature = inspect.signature(figure)

        @functools.wraps(figure)
        def checked(*args, **kwargs):
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if name in bounds:
                    _refuse(name, value, *bounds[name])
            return figure(*args, **kwargs)

        return checked

    return decorated


def _refuse(name: str, value, least: float, most: float) -> None:
    whole = isinstance(least, int) and isinstance(most, int)
    several = isinstance(value, Sequence) and not isinstance(value, str)
    for each in value if several else [value]:
        fits = isinstance(each, Integral if whole else Real) and not isinstance(each, bool)
        if not fits or not least <= each <= most:
            what = f"a {'whole ' * whole}number from {_plain(least)} to {_plain(most)}"
            raise UsageError(f"{name}={value!r} can't be drawn: {'each is' if several else 'give'} {what}")


def _plain(bound: float) -> str:
    return str(bound) if bound < 1e6 else f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def bars(
    title: str,
    head: Sequence[str],
    rows: Sequence[tuple[str, str, Sequence[float | None]]],
    colour: str,
    notes: Sequence[str] = (),
) -> View:
    """A table whose numbers carry bars, each as long as it is beside the largest of its row. A row: name, unit, values."""
    cells = [[f"{name}{f' ({unit})' if unit else ''}", *(_number(value) for value in values)] for name, unit, values in rows]
    out = ["".join(f'<th style="{CELL}">{html.escape(word)}</th>' for word in head)]
    for (name, unit, values), row in zip(rows, cells):
        largest = max(value for value in values if value is not None)
        across = min(130, 480 // len(values))
        line = [f'<td style="{CELL}">{html.escape(name)} <span style="opacity: .7">{html.escape(unit)}</span></td>']
        for value, said in zip(values, row[1:]):
            long = across * (value or 0) / largest
            bar = f'<div style="height: 5px; border-radius: 2px; background: {colour}; width: {long:.0f}px"></div>'
            line.append(f'<td style="{CELL}; min-width: {across + 10}px">{said}{bar}</td>')
        out.append("".join(line))
    page = (
        headline(title)
        + f'<table style="border-collapse: collapse; font-size: 13px">{"".join(f"<tr>{row}</tr>" for row in out)}</table>'
    )
    return View(title, "\n".join([title, table(head, cells), *notes]), page + "".join(map(quiet, notes)))


def stacked(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], say, notes: Sequence[str] = ()) -> View:
    """A bar per row, made of parts of a run's memory; ``say`` puts a value into words."""
    chart = charts.stacked(rows, say=say)
    text = "\n".join([title, chart.text(), *notes])
    return View(title, text, lambda: headline(title) + chart.html() + "".join(map(quiet, notes)))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
