"""What a view is: a title, a text for a terminal and HTML without JavaScript or network, with the same numbers."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..system import paths
from ..system.errors import UsageError
from ..system.shown import shown

# A page takes the colours of the notebook it stands in: text has the inherited colour, quiet text is the same but paler.
BOX = ("max-width: 960px; margin: 6px 0; color: var(--jp-content-font-color1, inherit); line-height: 1.35; font-size: 14px; "
       "font-family: var(--jp-ui-font-family, system-ui, sans-serif); text-align: left; overflow-wrap: break-word")
QUIET = "opacity: .72"
HEADING = 'role="heading" aria-level="2"'  # for screen readers: an <h2> would have the notebook's style
LONG = ("switches", "how", "measured with", "when")  # columns whose cells may take several lines
BAR = "rgba(26, 127, 212, .3)"
LINE = "rgba(128, 128, 128, .35)"
DRAWING = threading.RLock()  # views fill themselves in threads, and matplotlib keeps fonts and layouts for all of them

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ background: light-dark(#fff, #15181c); color: light-dark(#1c1f23, #e8eaed); margin: 24px auto; max-width: 960px;
  padding: 0 20px; font-family: system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif }}
section {{ margin: 0 0 44px }}
@media print {{ section {{ break-inside: avoid }} }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


class View:
    """A view of runs: `print` gives the text, a notebook shows the page, `save` writes it as one HTML file.

    ``page``: HTML, or what makes it once it is looked at: who prints the text does not wait for matplotlib.
    ``following``: where its runs have not ended, what shows it in a notebook and fills it when they have.
    """

    following = None

    def __init__(self, title: str, text: str, page: str | Callable[[], str]):
        self.title, self.text, self._made = title, shown(text), page

    @property
    def page(self) -> str:
        if not isinstance(self._made, str):
            with DRAWING:
                self._made = self._made()
        return self._made

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<div style="{BOX}">{shown(self.page)}</div>'

    def _ipython_display_(self) -> None:
        if self.following is None:
            raise NotImplementedError  # IPython's word for: show it as _repr_html_ says
        self.following.show(self)

    def save(self, file: str | Path) -> Path:
        """Write the view as one HTML file that opens anywhere, without a network. Raises UsageError."""
        return write(file, [self], self.title)


def write(file: str | Path, views: Sequence[View], title: str) -> Path:
    """Several views as one HTML file. Raises UsageError where it can't be written."""
    body = "\n".join(f"<section>{view._repr_html_()}</section>" for view in views)
    return write_text(file, PAGE.format(title=html.escape(shown(title)), body=body), 'save("report.html")')


def write_text(file: str | Path, text: str, example: str) -> Path:
    """Raises UsageError where it can't be written; ``example``: how to say where to."""
    try:
        path = paths.given(file, "report.html") if isinstance(file, str) else Path(file).expanduser()
    except TypeError:
        raise UsageError(f"{type(file).__name__} is not a file name: say where to write it, such as {example}") from None
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}. Name a file in a folder that is there and yours") from None
    return path


def headline(words: str, aside: str = "") -> str:
    style = f"{QUIET}; font-weight: 400; font-size: 13px; margin-left: 10px"
    more = f'<span style="{style}">{html.escape(aside)}</span>' if aside else ""
    return f'<div {HEADING} style="font-size: 17px; font-weight: 600; margin: 0 0 4px">{html.escape(words)}{more}</div>'


def quiet(words: str) -> str:
    return f'<div style="{QUIET}; font-size: 13px">{html.escape(words)}</div>'


def dot(colour: str) -> str:
    """A patch of colour before a word: words themselves have the colour of the text, which can be read on any page."""
    return (f'<span style="display: inline-block; width: 9px; height: 9px; border-radius: 50%; background: {colour}; '
            'margin-right: 5px"></span>')


def note(words: str, colour: str, more: str = "") -> str:
    """A line that must not be overlooked, with a second one in plain type."""
    rest = f'<div style="margin-top: 2px">{html.escape(more)}</div>' if more else ""
    style = f"border-left: 4px solid {colour}; background: rgba(128, 128, 128, .1); padding: 6px 12px; margin: 8px 0"
    return (f'<div style="{style}"><div style="font-weight: 600; overflow-wrap: anywhere">{html.escape(words)}</div>{rest}</div>')


def rows(rows_: Sequence[tuple[str, str]]) -> str:
    """Rows of a name and what there is to say."""
    breaks = "overflow-wrap: anywhere"
    cells = "".join(f'<div style="{QUIET}">{html.escape(name)}</div><div style="{breaks}">{html.escape(words)}</div>'
                    for name, words in rows_)
    return f'<div style="display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; font-size: 13px">{cells}</div>'


def table_html(head: Sequence[str], cells: Sequence[Sequence[str]], bars: Mapping[str, Sequence[float]] | None = None,
               colours: Mapping[str, Sequence[str]] | None = None) -> str:
    """Columns; ``bars``: by heading, how far each cell is filled (0 to 1); ``colours``: by heading, of a dot in each cell."""
    right = _right(head, cells)
    align = ["right" if is_right else "left" for is_right in right]
    of_head = f"padding: 3px 8px; border-bottom: 1px solid {LINE}; vertical-align: bottom"
    top = "".join(f'<th scope="col" style="text-align: {side}; {of_head}">{html.escape(name)}</th>'
                  for name, side in zip(head, align))
    out = [f"<tr>{top}</tr>"]
    for number, row in enumerate(cells):
        line = []
        for name, cell, side in zip(head, row, align):
            style = f"text-align: {side}; padding: 3px 8px; " + ("min-width: 130px" if name in LONG else "white-space: nowrap")
            if bars and name in bars:
                filled = bars[name][number]
                style += f"; background: linear-gradient(90deg, {BAR} {filled:.1%}, transparent {filled:.1%}); min-width: 90px"
            mark = ""
            if colours and name in colours and cell:
                style += "; font-weight: 600"
                mark = dot(colours[name][number])
            line.append(f'<td style="{style}">{mark}{html.escape(cell)}</td>')
        out.append(f"<tr>{''.join(line)}</tr>")
    table_ = f'<table style="border-collapse: collapse; font-size: 13px; margin: 6px 0; color: inherit">{"".join(out)}</table>'
    return f'<div style="overflow-x: auto">{table_}</div>'


def listed(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """Text: a title, and rows of a name and what there is to say."""
    width = max((len(name) for name, _ in rows), default=0)
    lines = [f"  {name:<{width}}  {words}".rstrip() for name, words in rows]
    return "\n".join([title, *lines])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text: columns; the first is set to the left, figures to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    right = _right(head, rows)
    lines = [[cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in zip(row, widths, right)]
             for row in [head, *rows]]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _right(head: Sequence[str], rows_: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns hold figures: they are set to the right."""
    return [i > 0 and all(row[i][:1].isdigit() or row[i] in ("", "-") for row in rows_) for i in range(len(head))]
