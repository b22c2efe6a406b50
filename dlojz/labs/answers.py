"""What may stand in a lab's fences: its stubs, in stub.py, and the answers that prove its check, in answers.py.

Both files hold fences between their two comments, without indentation. In answers.py each answer begins with its own line and
replaces the fences below it; the others hold the kit's solution:

    # right: by hand
    # >>> amp.update
    …
    # <<< amp.update

    # wrong: clipped before unscaling · expect: clipped while .* multiplied by the scale
    # >>> amp.update
    …
    # <<< amp.update

Everything here is text in, objects and problems out; `dlojz.labs.catalogue` reads the files.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from ..system.errors import UsageError
from ..system.textfile import lines
from . import fences

HEAD = re.compile(r"#[ \t]*(?P<kind>right|wrong):[ \t]*(?P<words>.*?)[ \t]*(?:·[ \t]*expect:[ \t]*(?P<expect>.*))?$")


@dataclass(frozen=True)
class Answer:
    """``kind`` is right or wrong; ``name`` is made of its ``words`` and unique in its lab. ``expect``: the regular expression
    that the check's message must match, empty for a right answer. ``fences``: body by id; ``line``: where the answer begins."""

    kind: str
    name: str
    words: str
    expect: str
    fences: dict[str, str]
    line: int


def read_stubs(text: str, name: str, own: Collection[str]) -> tuple[dict[str, str], list[UsageError]]:
    """The stubs in the text of a stub.py, in order, and what is wrong with it. ``own``: the lab's fences; ``name``: the file."""
    found, problems = _fenced(text, name, 1, own, "is not a fence of this lab")
    for fence in own:
        if fence not in found and f">>> {fence}" not in text:
            why = f"the fence {fence} has no stub: add one between `# >>> {fence}` and `# <<< {fence}`"
            problems.append(UsageError(f"{name}: {why}"))
    return {fence: found[fence] for fence in own if fence in found}, problems


def read_answers(text: str, name: str, known: Collection[str]) -> tuple[list[Answer], list[UsageError]]:
    """The answers of an answers.py, in order, and what is wrong with it. ``known``: the ids that a fence may have."""
    parts: list[tuple[int, str]] = [(1, "")]
    inside = False
    for number, line in enumerate(lines(text), 1):
        mark = fences.MARK.match(line.rstrip("\r\n"))
        inside = mark["kind"] == ">>>" if mark else inside
        if not inside and HEAD.match(line.rstrip("\r\n")):
            parts.append((number, ""))
        parts[-1] = (parts[-1][0], parts[-1][1] + line)
    found, problems = [], _fenced(parts[0][1], name, 1, (), "stands before the first answer: begin one with `# right: …`")[1]
    for first, part in parts[1:]:
        head = HEAD.match(lines(part)[0].rstrip("\r\n"))
        rest = part[len(lines(part)[0]):]
        bodies, wrong = _fenced(rest, name, first + 1, known, "is in no file of the reference")
        answer = Answer(head["kind"], re.sub(r"\W+", "_", head["words"].lower()).strip("_"), head["words"], head["expect"] or "",
                        bodies, first)
        twin = next((other for other in found if other.name == answer.name), None)
        said = _head_problem(answer, twin) or ("" if bodies or wrong else "this answer has no fence: put its lines in one")
        problems += [UsageError(f"{name}, line {first}: {said}")] if said else []
        problems += wrong
        found.append(answer)
    return found, problems


def _head_problem(answer: Answer, twin: Answer | None) -> str:
    if not answer.name:
        return f"an answer needs a name: `# {answer.kind}: what it does`"
    if twin:
        return f"there is an answer `{twin.words}` already, in line {twin.line}: rename one"
    if answer.kind == "right":
        return "a right answer has no message to expect: remove `· expect: …`" if answer.expect else ""
    if not answer.expect:
        return f"say what the message of the check must match: `# wrong: {answer.words} · expect: REGEX`"
    try:
        re.compile(answer.expect)
    except re.error as error:
        return f"`{answer.expect}` is not a regular expression: {error}"
    return ""


def _fenced(text: str, name: str, first: int, known: Collection[str], unknown: str) -> tuple[dict[str, str], list[UsageError]]:
    """The bodies of the fences of a part that begins in line ``first``, and what is wrong with them."""
    found = fences.find("\n" * (first - 1) + text, name)
    problems: list[tuple[int, UsageError]] = [(problem.line, problem) for problem in found.problems.values()]
    covered = {number for fence in found.fences.values() for number in range(fence.first, fence.last + 1)}
    for fence in found.fences.values():
        if fence.id not in known:
            problems.append((fence.first, UsageError(f"{name}, line {fence.first}: the fence {fence.id} {unknown}")))
    if not found.problems:  # else too much would seem to be outside
        for number, line in enumerate(lines(text), first):
            if number not in covered and line.strip():
                said = f"`{line.strip()[:40]}` is outside of all fences: put it between `# >>> ID` and `# <<< ID`"
                problems.append((number, UsageError(f"{name}, line {number}: {said}")))
                break  # the lines after it are likely to be of the same piece
    bodies = {fence.id: fence.body for fence in found.fences.values() if fence.id in known}
    return bodies, [problem for _, problem in sorted(problems, key=lambda each: each[0])]
