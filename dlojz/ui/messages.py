"""What the verbs return: text for a terminal, HTML for a notebook, the same words in both."""

from __future__ import annotations

import difflib
import html
import re
import shutil
import textwrap
from urllib.parse import quote

from ..system.shown import shown
from .page import dot

# Of marks beside words and lines along them. Words themselves have the notebook's colour, which can be read on any page.
GOOD, BAD, CARE, QUIET = "#2f9e5f", "#d93a3f", "#c98500", "#8a8a8a"
CODE = ("margin: 0; padding: 6px 8px; font-size: 12px; line-height: 1.4; white-space: pre-wrap; overflow-wrap: anywhere; "
        "background: rgba(128, 128, 128, .12)")
CELL = ("text-align: left; vertical-align: top; padding: 0 8px; width: 50%; font-family: monospace; font-size: 12px; "
        "white-space: pre-wrap; overflow-wrap: anywhere")
BOX = "max-width: 75em; color: var(--jp-content-font-color1, inherit)"


class Shown:
    """A text, and how a notebook shows it."""

    def __init__(self, text: str, page: str | None = None):
        self.text = shown(text)
        self.page = shown(page) if page is not None else lines(*self.text.split("\n"))

    def also(self, line: str) -> Shown:
        """The same with one more line, if there is one."""
        return Shown(f"{self.text}\n{line}", self.page + lines(line)) if line else self

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<div style="{BOX}">{self.page}</div>'


def headline(words: str, colour: str = "") -> str:
    """``colour``: of a dot before the words."""
    return f'<div style="font-weight: 600; margin: 4px 0">{dot(colour) if colour else ""}{html.escape(words)}</div>'


def fill(text: str) -> str:
    """A paragraph in lines that a terminal shows whole."""
    return textwrap.fill(" ".join(text.split()), 110)


def lines(*each: str) -> str:
    return "".join(f'<div style="margin: 2px 0">{html.escape(line)}</div>' for line in each)


def link(file: str, line: int, words: str) -> str:
    """A link that opens a file in JupyterLab's editor at a line; an old JupyterLab just opens the file."""
    # The fragment counts lines from 0, after RFC 5147: line=0 stands before the first line.
    return f'<a href="{html.escape(quote(file))}#line={line - 1}">{html.escape(words)}</a>'


def linked(text: str) -> str:
    """A line of text as HTML: what is between ` is code, and each place, such as line 12 of train.py, is a link."""
    out, end = [], 0
    for place in re.finditer(r"line (\d+) of ((?:\w+/)?\w+\.py)", text):
        out += [html.escape(text[end : place.start()]), link(place[2], int(place[1]), place[0])]
        end = place.end()
    return re.sub("`([^`]+)`", r"<code>\1</code>", "".join([*out, html.escape(text[end:])]))


def code(text: str) -> str:
    return f'<pre style="{CODE}">{html.escape(text.rstrip())}</pre>'


# --- markdown ------------------------------------------------------------------------------------------------------------


def markdown(text: str) -> str:
    """HTML for the little Markdown that hints are written in: paragraphs, indented code, lists, `code`, **bold**, *italic*."""
    parts = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        rows = block.split("\n")
        if all(row.startswith("    ") or not row.strip() for row in rows):
            code = html.escape(textwrap.dedent(block))
            if parts and parts[-1].startswith("<pre"):  # a blank line inside of code
                parts[-1] = parts[-1].removesuffix("</pre>") + f"\n\n{code}</pre>"
            else:
                parts.append(f'<pre style="{CODE}">{code}</pre>')
        elif all(re.match(r"[-*] |  ", row) for row in rows):
            items = re.split(r"(?m)^[-*] ", block)[1:]
            parts.append("<ul>" + "".join(f"<li>{inline(item)}</li>" for item in items) + "</ul>")
        else:
            parts.append(f"<p>{inline(block)}</p>")
    return "".join(parts)


def inline(text: str) -> str:
    """One paragraph of Markdown, without its own <p>."""
    pieces = re.split(r"(`[^`]+`)", " ".join(text.split()))
    out = []
    for piece in pieces:
        if len(piece) > 2 and piece[0] == piece[-1] == "`":
            out.append(f"<code>{html.escape(piece[1:-1])}</code>")
        else:
            piece = html.escape(piece, quote=False)
            piece = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", piece)
            out.append(re.sub(r"(?<!\w)\*(\S(?:.*?\S)?)\*(?!\w)", r"<i>\1</i>", piece))
    return "".join(out)


# --- two texts side by side ----------------------------------------------------------------------------------------------


def aligned(left: str, right: str) -> list[tuple[str | None, str | None, bool]]:
    """Rows of two texts: a line of each (None where the other has one more), and whether they are the same."""
    ours, theirs = left.rstrip("\n").split("\n"), right.rstrip("\n").split("\n")
    rows: list[tuple[str | None, str | None, bool]] = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for i in range(max(b - a, d - c)):
            one = ours[a + i] if a + i < b else None
            other = theirs[c + i] if c + i < d else None
            rows.append((one, other, kind == "equal"))
    return rows


def side_by_side(left: str, right: str, titles: tuple[str, str], width: int | None = None) -> str:
    """Both texts in columns: ``|`` between lines that differ, ``<`` and ``>`` where only one side has a line."""
    width = width or shutil.get_terminal_size((120, 24)).columns
    column = (max(60, min(width, 240)) - 3) // 2
    out = [f"{titles[0]:<{column}}   {titles[1]}".rstrip(), f"{'-' * column}   {'-' * column}"]
    for one, other, equal in aligned(left, right):
        mark = " " if equal else "<" if other is None else ">" if one is None else "|"
        cells = [_wrapped(cell or "", column) for cell in (one, other)]
        for i in range(max(map(len, cells))):
            here = [cell[i] if i < len(cell) else "" for cell in cells]
            out.append(f"{here[0]:<{column}} {mark} {here[1]}".rstrip())
    return "\n".join(out)


def _wrapped(line: str, column: int) -> list[str]:
    line = line.expandtabs(4)
    indent = " " * min(len(line) - len(line.lstrip()) + 4, column // 2)
    return textwrap.wrap(line, column, subsequent_indent=indent, drop_whitespace=False, break_on_hyphens=False) or [""]


def side_by_side_html(left: str, right: str, titles: tuple[str, str]) -> str:
    heads = "".join(f'<th style="text-align: left">{html.escape(title)}</th>' for title in titles)
    rows = [f"<tr>{heads}</tr>"]
    for one, other, equal in aligned(left, right):
        cells = []
        for cell, colour in ((one, "217, 58, 63"), (other, "47, 158, 95")):
            shade = "" if equal or cell is None else f"background: rgba({colour}, .18); "
            cells.append(f'<td style="{shade}{CELL}">{html.escape(cell or "")}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f'<table style="width: 100%; table-layout: fixed; border-collapse: collapse">{"".join(rows)}</table>'


# --- tables --------------------------------------------------------------------------------------------------------------


def table(head: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in [head, *rows])


def rows_html(rows: list[list[str]]) -> str:
    """A table of cells that are HTML already."""
    style = "text-align: left; vertical-align: top; padding: 2px 14px 2px 0"
    cells = ("".join(f'<td style="{style}">{cell}</td>' for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def table_html(head: list[str], rows: list[list[str]], colours: list[str]) -> str:
    """``colours``: of a dot in each row's second cell."""
    cells = "".join(f'<th style="text-align: left">{html.escape(cell)}</th>' for cell in head)
    out = [f"<tr>{cells}</tr>"]
    for row, colour in zip(rows, colours):
        marks = ["", dot(colour)] + [""] * len(row)
        cells = "".join(f'<td style="text-align: left; vertical-align: top">{mark}{html.escape(cell)}</td>'
                        for cell, mark in zip(row, marks))
        out.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(out)}</table>"
