"""An audit as text, and as a page: a row per finding, with links to the line, to the lab and to PyTorch's documentation."""

from __future__ import annotations

import html
from pathlib import Path

from ...ui import messages, page
from ...ui.page import View
from .. import catalogue, notebooks
from .seen import NO_GPU, NOT_APPLICABLE, VERDICTS, Finding

WIDE = 100  # characters of a line that are shown


def view(title: str, said: list[str], findings: list[Finding]) -> View:
    shown = [one for one in findings if one.verdict != NOT_APPLICABLE]
    rest = ", ".join(one.technique for one in findings if one.verdict == NOT_APPLICABLE)
    rest = [f"Not applicable: {rest}"] if rest else []
    text = [title, *said]
    for verdict in VERDICTS[:-1]:
        several = [one for one in shown if one.verdict == verdict and one.evidence != NO_GPU]
        text += ["", verdict.capitalize()] if several else []
        for one in several:
            text += [f"  {one.technique}" + (f"  ({one.place}: {source(one)})" if one.place else ""), f"    {one.evidence}"]
            text += [f"    {brought(one)}{to_read(one)}"]
    if hidden := [one for one in shown if one.evidence == NO_GPU]:
        text += ["", NO_GPU] + [f"  {one.technique}{f'  ({one.place})' if one.place else ''}: {brought(one)}{to_read(one)}"
                                for one in hidden]
    parts = [page.headline(title), *map(page.quiet, said), table(shown) if shown else "", *map(page.quiet, rest)]
    return View(title, "\n".join([*text, *[f"\n{line}" for line in rest]]), "".join(parts))


def source(one: Finding) -> str:
    return one.source if len(one.source) <= WIDE else f"{one.source[: WIDE - 2].rstrip()} …"


def to_read(one: Finding) -> str:
    return f"Lab: {one.lab}. {one.docs}"


def brought(one: Finding) -> str:
    return f"Where we measured it, it brought {one.brings}. " if one.brings else ""


def table(findings: list[Finding]) -> str:
    style = f"padding: 5px 10px 5px 0; border-bottom: 1px solid {page.LINE}; vertical-align: top; text-align: left"
    labs, rows = catalogue.labs(), []
    for one in findings:
        where = to_line(one) if one.line else ""
        where += f"<br><code>{html.escape(source(one))}</code>" if one.source else ""
        lab = link(notebooks.name_of(labs[one.lab]), f"lab {one.lab}") if one.lab in labs else one.lab
        cells = [f"<b>{html.escape(one.technique)}</b><br>{html.escape(one.verdict)}",
                 html.escape(f"{one.evidence} {brought(one)}") + (f"<br>{where}" if where else ""),
                 f"{lab}<br>{link(one.docs, 'PyTorch')}"]
        rows.append("".join(f'<td style="{style}">{cell}</td>' for cell in cells))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table style="border-collapse: collapse; font-size: 13px; margin: 8px 0; color: inherit">{body}</table>'


def to_line(one: Finding) -> str:
    """Below this folder as JupyterLab opens it, from a notebook or a page here; elsewhere as a file."""
    file = Path(one.file).resolve()
    if file.is_relative_to(Path.cwd()):
        return messages.link(file.relative_to(Path.cwd()).as_posix(), one.line, one.place)
    return link(file.as_uri(), one.place)


def link(address: str, words: str) -> str:
    return f'<a href="{html.escape(address)}" style="color: inherit">{html.escape(words)}</a>'
