"""Fences: the parts of a file that a lab asks for, each between two comments that carry its id.

    # >>> amp.forward: half precision where it is safe
    outputs = model(images)
    # <<< amp.forward

Everything here is text in, text out. Bodies are kept without the indentation of their fence and with ``\\n`` line ends; put
into a file, they take its indentation, its tabs and its line ends, and nothing outside the fence changes.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..system.errors import UsageError
from ..system.textfile import line_end, lines

ID = r"[A-Za-z_]\w*(?:\.\w+)*"
MARK = re.compile(rf"^(?P<indent>[ \t\f]*)#[ \t]*(?P<kind>>>>|<<<)[ \t]*(?P<id>{ID})[ \t]*(?::[ \t]*(?P<title>.*?))?[ \t]*$")


class FenceError(UsageError):
    """A fence that can't be used as it stands; ``fence`` is its id, ``line`` where to look (None where nothing is left of it)."""

    def __init__(self, name: str, fence: str, line: int | None, message: str):
        super().__init__(f"{name}{f', line {line}' if line else ''}: {message}")
        self.fence, self.line = fence, line


@dataclass(frozen=True)
class Fence:
    """``first`` and ``last`` are the lines of its two comments, counted from 1; ``raw`` is what stands between, untouched."""

    id: str
    title: str
    first: int
    last: int
    indent: str
    raw: str

    @property
    def body(self) -> str:
        return "".join(_without(line, self.indent) for line in lines(self.raw))

    @property
    def opening(self) -> str:
        return f"# >>> {self.id}: {self.title}" if self.title else f"# >>> {self.id}"


@dataclass(frozen=True)
class Fenced:
    """The fences of a text in order, and what is wrong with those that can't be used."""

    name: str
    fences: dict[str, Fence]
    problems: dict[str, FenceError]

    def __getitem__(self, fence: str) -> Fence:
        """Raises FenceError where the fence is gone or damaged."""
        if fence in self.problems:
            raise self.problems[fence]
        if fence not in self.fences:
            gone = f"the fence {fence} is gone: both its lines, `# >>> {fence}: …` and `# <<< {fence}`"
            raise FenceError(self.name, fence, None, gone)
        return self.fences[fence]


def find(text: str, name: str = "train.py", known: Collection[str] | None = None) -> Fenced:
    """The fences of a text; of ``known`` ids only, where given: a comment may look like a fence. ``name`` is for messages."""
    marks: dict[str, list[tuple[int, re.Match]]] = {}
    text_lines = lines(text)
    for number, line in enumerate(text_lines, 1):
        mark = MARK.match(line.rstrip("\r\n"))
        if mark and (known is None or mark["id"] in known):
            marks.setdefault(mark["id"], []).append((number, mark))
    fences, problems = {}, {}
    for fence, found in marks.items():
        problem = _unpaired(fence, found)
        if problem:
            problems[fence] = FenceError(name, fence, *problem)
            continue
        (first, opening), (last, _) = found
        raw = "".join(text_lines[first : last - 1])
        fences[fence] = Fence(fence, opening["title"] or "", first, last, opening["indent"], raw)
    for fence in list(fences.values()):
        inside = [(number, other) for other, found in marks.items() if other != fence.id
                  for number, _ in found if fence.first < number < fence.last]
        if inside:
            number, other = min(inside)
            whole = other in fences and fences[other].first > fence.first and fences[other].last < fence.last
            how = "stands inside" if whole else "crosses"
            problems[fence.id] = FenceError(name, fence.id, number, f"the fence {other} {how} the fence {fence.id} "
                                            f"(lines {fence.first} to {fence.last}): one must end before the other begins")
    for fence in problems:
        fences.pop(fence, None)
    return Fenced(name, dict(sorted(fences.items(), key=lambda item: item[1].first)), problems)


def _unpaired(fence: str, found: list[tuple[int, re.Match]]) -> tuple[int, str] | None:
    """The line and what is wrong, where the comments of one id are no pair."""
    for kind, word in ((">>>", "begins"), ("<<<", "ends")):
        at = [number for number, mark in found if mark["kind"] == kind]
        if len(at) > 1:
            return at[1], f"`# {kind} {fence}` is there twice, here and in line {at[0]}: keep one of them"
        if not at:
            other = found[0][0]
            missing = f"`# {kind} {fence}{': …' if kind == '>>>' else ''}`"
            where = "ends here and begins nowhere" if kind == ">>>" else "begins here and ends nowhere"
            return other, f"the fence {fence} {where}: put the line {missing} back where it {word}"
    (first, opening), (last, _) = found
    if opening["kind"] == "<<<":
        return first, f"the fence {fence} ends here, before it begins in line {last}: put its two comments in order"
    return None


def all_of(text: str, name: str) -> dict[str, Fence]:
    """The fences of one of the kit's own files, in which none may be wrong. Raises FenceError for the first that is."""
    found = find(text, name)
    if found.problems:
        raise min(found.problems.values(), key=lambda problem: problem.line)
    return found.fences


def replace(text: str, bodies: Mapping[str, str | Fence], name: str = "train.py", known: Collection[str] | None = None) -> str:
    """The text with other bodies in these fences. A `Fence` of another text keeps its very characters where the indentation
    is the same. Raises FenceError where a fence is gone or damaged; nothing outside them changes."""
    found = find(text, name, known)
    text_lines = lines(text)
    for fence in sorted((found[each] for each in bodies), key=lambda each: each.first, reverse=True):
        body = bodies[fence.id]
        if isinstance(body, Fence) and body.indent == fence.indent:
            new = body.raw
        else:
            body = body.body if isinstance(body, Fence) else body
            new = indented(body, fence.indent, line_end(text_lines[fence.first - 1]))
        text_lines[fence.first : fence.last - 1] = [new]
    return "".join(text_lines)


def between(fence: str, body: str) -> str:
    """A body between its two comments, as stub.py and answers.py hold it."""
    return f"# >>> {fence}\n{body.rstrip()}\n# <<< {fence}\n"


def indented(body: str, indent: str, end: str = "\n") -> str:
    """A body as it stands in a file: with this indentation, tabs where that has tabs, and these line ends."""
    out = []
    for line in lines(body):
        line = line.rstrip("\r\n")
        if "\t" in indent:
            blanks = len(line) - len(line.lstrip(" "))
            line = "\t" * (blanks // 4) + " " * (blanks % 4) + line.lstrip(" ")
        out.append((indent + line if line.strip() else "") + end)
    return "".join(out)


def _without(line: str, indent: str) -> str:
    content = line.rstrip("\r\n")
    if not content.strip():
        return "\n"
    if content.startswith(indent):
        return content[len(indent):] + "\n"
    return content.lstrip(" \t") + "\n"  # less indented than its fence


def skeleton(text: str) -> str:
    """A file without its fences' bodies, line ends and blanks at ends of lines: the same where only fences were changed."""
    return "\n".join(line for _, line in _outside(text)).rstrip()


def first_change(text: str, other: str) -> int | None:
    """The first line of ``text`` that is not in ``other``, or is elsewhere there, fences' bodies left out; None where there is
    none. Where lines are missing, the line that took their place."""
    mine, theirs = _outside(text), _outside(other)
    for (number, line), (_, kits) in zip(mine, theirs):
        if line != kits:
            return number
    return mine[min(len(theirs), len(mine) - 1)][0] if skeleton(text) != skeleton(other) else None


def _outside(text: str) -> list[tuple[int, str]]:
    """The lines outside of fences' bodies, with their numbers."""
    inside = {number for fence in find(text).fences.values() for number in range(fence.first + 1, fence.last)}
    return [(number, line.rstrip()) for number, line in enumerate(lines(text), 1) if number not in inside]


def same(one: str, other: str) -> bool:
    """Whether two bodies are the same program: blanks, comments and line ends don't count."""
    words = [_tokens(body) for body in (one, other)]
    if None in words:  # not (yet) Python: what can be told without parsing
        words = [_plain(body) for body in (one, other)]
    return words[0] == words[1]


def _tokens(body: str) -> list | None:
    text = "".join(line.rstrip("\r\n") + "\n" for line in lines(body))
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return None
    layout = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return [(token.type, "" if token.type in layout else token.string) for token in tokens
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER)]


def _plain(body: str) -> list[str]:
    stripped = [" ".join(line.split()) for line in lines(body)]
    return [line for line in stripped if line and not line.startswith("#")]
