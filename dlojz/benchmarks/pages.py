"""Tables of docs/*.md made of what is kept in docs/results/: a page has them between ``<!-- results: NAME -->`` and its end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

MARK = re.compile(r"(?s)(<!-- results: (\w+) -->\n).*?(<!-- end of results -->)")


def rebuilt(text: str, folder: Path, tables: dict[str, tuple[str, Callable[[dict], str]]]) -> str:
    """The page with these tables made anew; others stay. ``tables``: by name, the start of the kept files' names, and what makes
    Markdown of such a file's content."""
    def made(match: re.Match) -> str:
        if match[2] not in tables:
            return match[0]
        start, table = tables[match[2]]
        files = sorted(folder.glob(f"{start}-*.json"))
        found = "\n".join(table(json.loads(file.read_text(encoding="utf-8"))) for file in files)
        return match[1] + (found or "Not measured yet.\n") + match[3]

    return MARK.sub(made, text)


def table(found: dict, head: list[str], rows: list, said: str = "", triton: bool = False) -> str:
    """A kept part as Markdown, with the machine above it, and what is ``said`` of it. The first column is words."""
    hardware, versions = found["machine"], found["versions"]
    with_triton = f", Triton {versions.get('triton')}" if triton else ""
    above = f"{hardware.get('gpu') or hardware.get('cpu')}, torch {versions.get('torch')}{with_triton}, {found['date']}"
    lines = [f"{above}: {said}." if said else f"{above}.", "", f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
