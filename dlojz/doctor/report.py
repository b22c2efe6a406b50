"""What the doctor found, as text, HTML and JSON."""

from __future__ import annotations

import html
import json
import re
import textwrap
from dataclasses import asdict, dataclass, field

from ..system.shown import shown

FINE, NOTE, BROKEN = "fine", "worth knowing", "broken"


@dataclass
class Finding:
    """One line: what was looked at, what it is, and for a line that isn't fine what to do. ``data`` holds the numbers."""

    level: str
    name: str
    text: str
    advice: str = ""
    data: dict = field(default_factory=dict)
    topic: str = ""


def fine(name: str, text: str, /, **data) -> Finding:
    return Finding(FINE, name, text, "", data)


def note(name: str, text: str, advice: str = "", /, **data) -> Finding:
    return Finding(NOTE, name, text, advice, data)


def broken(name: str, text: str, advice: str, /, **data) -> Finding:
    return Finding(BROKEN, name, text, advice, data)


class Report:
    """All ``findings`` of one visit, of them ``broken`` and ``notes``; the ``seconds`` it took. Shows as text or HTML."""

    def __init__(self, findings: list[Finding], seconds: float, version: str):
        self.findings = findings
        self.seconds = seconds
        self.version = version

    @property
    def broken(self) -> list[Finding]:
        return [f for f in self.findings if f.level == BROKEN]

    @property
    def notes(self) -> list[Finding]:
        return [f for f in self.findings if f.level == NOTE]

    @property
    def verdict(self) -> str:
        bad, known = len(self.broken), len(self.notes)
        first = "Nothing is broken" if not bad else "1 thing is broken" if bad == 1 else f"{bad} things are broken"
        second = {0: "", 1: ", 1 line is worth knowing"}.get(known, f", {known} lines are worth knowing")
        return first + second + "."

    def _topics(self):
        topics: dict[str, list[Finding]] = {}
        for finding in self.findings:
            topics.setdefault(finding.topic, []).append(finding)
        return topics.items()

    def text(self, width: int = 110) -> str:
        names = max((len(f.name) for f in self.findings), default=0)
        left = 2 + 7 + names + 2
        lines = []
        for topic, findings in self._topics():
            lines += ["", topic] if lines else [topic]
            for finding in findings:
                mark = {FINE: "ok", NOTE: "note", BROKEN: "BROKEN"}[finding.level]
                body = _wrap(finding.text, width - left)
                if finding.advice:
                    body += [
                        ("-> " if not i else "   ") + line for i, line in enumerate(_wrap(finding.advice, width - left - 3))
                    ]
                lines.append(f"  {mark:<7}{finding.name:<{names}}  {body[0]}")
                lines += [" " * left + line for line in body[1:]]
        return shown("\n".join([*lines, "", f"{self.verdict} ({self.seconds:.1f} s)"]))

    __repr__ = text

    def json(self) -> str:
        return json.dumps(
            {
                "dlojz": self.version,
                "seconds": round(self.seconds, 2),
                "verdict": self.verdict,
                "broken": len(self.broken),
                "findings": [asdict(f) for f in self.findings],
            },
            indent=2,
            default=str,
        )

    def _repr_html_(self) -> str:
        rows = []
        for topic, findings in self._topics():
            rows.append(f'<tr><th colspan="3">{html.escape(topic)}</th></tr>')
            for f in findings:
                mark, kind = {FINE: ("✓", "fine"), NOTE: ("note", "note"), BROKEN: ("broken", "broken")}[f.level]
                advice = f'<div class="do">→ {_html(f.advice)}</div>' if f.advice else ""
                rows.append(
                    f'<tr class="{kind}"><td class="mark"><span title="{f.level}">{mark}</span></td>'
                    f'<td class="name">{html.escape(f.name)}</td><td>{_html(f.text)}{advice}</td></tr>'
                )
        kind = "broken" if self.broken else "fine"
        verdict = f'<p class="{kind}">{html.escape(self.verdict)} <small>({self.seconds:.1f} s)</small></p>'
        table = f'<table class="findings">{"".join(rows)}</table>'
        return f'<style>{CSS}</style><div class="dlojz-doctor">{verdict}{shown(table)}</div>'


def _html(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 30), break_long_words=False, break_on_hyphens=False) or [""]


# Text takes the notebook's own colour; the marks are mid-tones that read on white and on black. The selectors are longer than
# need be because JupyterLab's own (right-aligned cells, striped rows) must lose.
CSS = """
.dlojz-doctor { color: var(--jp-content-font-color1, inherit); font-size: 13px; line-height: 1.45; max-width: 62em }
.dlojz-doctor p { font-weight: 600; font-size: 15px; margin: 4px 0 6px }
.dlojz-doctor p small { font-weight: 400; opacity: .65 }
.dlojz-doctor p.broken { color: #e5484d }
.dlojz-doctor .findings { border-collapse: collapse; border: 0; margin: 0; width: 100%; table-layout: auto; font-size: inherit }
.dlojz-doctor .findings tr:nth-child(n) { background: none }
.dlojz-doctor .findings tr th, .dlojz-doctor .findings tr td { text-align: left; vertical-align: top; border: 0 }
.dlojz-doctor .findings tr th { padding: 12px 8px 3px 0; border-bottom: 1px solid rgba(128, 128, 128, .5); font-weight: 600 }
.dlojz-doctor .findings tr td { padding: 3px 10px 3px 0; white-space: normal; max-width: none; overflow-wrap: anywhere }
.dlojz-doctor .findings tr td.mark { width: 4.2em; white-space: nowrap; padding-left: 2px }
.dlojz-doctor .findings tr td.name { width: 9.5em; opacity: .75; white-space: nowrap }
.dlojz-doctor .mark span { font-size: 11px; font-weight: 600; border-radius: 3px; padding: 1px 5px }
.dlojz-doctor .fine .mark span { color: #2f9e5f; font-size: 13px }
.dlojz-doctor .note .mark span { background: #e0a100; color: #1b1b1b }
.dlojz-doctor .broken .mark span { background: #d93a3f; color: #fff }
.dlojz-doctor .do { font-style: italic }
"""
