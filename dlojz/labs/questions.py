"""quiz.toml of a lab: its questions, and whether an answer is right.

    [[question]]
    id = "range"
    kind = "several"                   # one (of the options), several (of them), number
    text = "Which formats …?"
    options = ["fp16", "bf16", "tf32"]
    answer = ["bf16", "tf32"]          # one: one of the options; number: a number, with tolerance = and unit =
    why = ["Its exponent has 5 bits."] # for each wrong option, in their order: why it is wrong; said to those who choose it
    explanation = "Shown after the right answer, or after the second wrong one."
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..system import toml
from ..system.errors import UsageError
from ..ui import messages
from .catalogue import Lab

Answer = str | float | tuple[str, ...]
TRIES = 2  # different answers, before the right one is shown


def _is_answer(value) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, str) for each in value)
    return (isinstance(value, str) and bool(value)) or (type(value) in (int, float) and math.isfinite(value))


def _frozen(answer):
    return tuple(answer) if isinstance(answer, list) else answer


@dataclass(frozen=True, kw_only=True)
class Question:
    id: str = toml.key("a name: small letters, digits and _",
                         lambda value: isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_]*", value) is not None)
    kind: str = toml.choice("one", "several", "number")
    text: str = toml.text()
    answer: Answer = toml.key("an option, a list of options, or a number", _is_answer, convert=_frozen)  # noqa: RUF009
    options: tuple[str, ...] = toml.words("a list of texts, one for each option", ())
    tolerance: float = toml.number(default=0.0)
    unit: str = toml.text("a unit, such as \"MB\"", "")
    why: tuple[str, ...] = toml.words("a list of texts, one for each wrong option", ())
    explanation: str = toml.text()

    def problem(self):
        """What the keys can't say one by one."""
        if self.kind == "number":
            if type(self.answer) not in (int, float):
                return "answer", "answer must be a number where kind is \"number\""
            extra = next((key for key in ("options", "why") if getattr(self, key)), None)
            return (extra, f"a number has no {extra}") if extra else None
        if len(set(self.options)) < 2 or len(set(self.options)) < len(self.options):
            return "options", "options must be two or more different texts"
        if isinstance(self.answer, tuple) != (self.kind == "several") or type(self.answer) in (int, float):
            return "answer", f"answer must be {'a list of options' if self.kind == 'several' else 'one of the options'}"
        strange = [each for each in (self.answer if self.kind == "several" else (self.answer,)) if each not in self.options]
        if strange:
            return "answer", f"{strange[0]!r} is not one of the options"
        if self.why and len(self.why) != len(self.wrong):
            return "why", f"why needs one text for each wrong option, in their order: {len(self.wrong)}, not {len(self.why)}"
        return None

    @property
    def wrong(self) -> tuple[str, ...]:
        """The options that are wrong."""
        right = self.answer if isinstance(self.answer, tuple) else (self.answer,)
        return tuple(option for option in self.options if option not in right)

    def given(self, answer) -> Answer:
        """An answer as it is kept. Raises UsageError where it is none to this question."""
        if self.kind == "number":
            return self._number(answer)
        chosen = list(answer or ()) if isinstance(answer, (list, tuple)) or answer is None else [answer]
        if len(chosen) == 1 and isinstance(chosen[0], str) and chosen[0] not in self.options:
            letters = chosen[0].strip()
            chosen = re.findall(r"\w", letters) if re.fullmatch(r"\w([,;\s]+\w)*", letters) else chosen
        chosen = [self._option(each) for each in chosen]
        if self.kind == "one" and len(chosen) != 1:
            raise UsageError(f"choose one of the {len(self.options)} options")
        if not chosen:
            raise UsageError(f"choose at least one of the {len(self.options)} options: several are asked for")
        return chosen[0] if self.kind == "one" else tuple(option for option in self.options if option in chosen)

    def _number(self, said) -> float:
        """A number by itself or as text, with a decimal point or comma, with its unit or without."""
        text = said.strip() if isinstance(said, str) else said
        if isinstance(text, str) and self.unit and text.lower().endswith(self.unit.lower()):
            text = text[: -len(self.unit)].rstrip()
        try:
            value = float(text.replace(",", ".") if isinstance(text, str) else text)
        except (TypeError, ValueError, AttributeError):
            value = None
        except OverflowError:
            value = math.inf
        if value is None or isinstance(said, bool):
            unit = self.unit if self.unit == "x" else f" {self.unit}" if self.unit else ""
            raise UsageError(f"{said!r} is not a number: answer with one, such as 12.5{unit}")
        if not math.isfinite(value):
            raise UsageError(f"{value} can't be an answer: give a number, such as 12.5")
        return value

    def _option(self, said) -> str:
        """An option by its text, or by its letter in the plain form."""
        if said in self.options:
            return said
        letters = "abcdefghijklmnopqrstuvwxyz"[: len(self.options)]
        if isinstance(said, str) and len(said) == 1 and said.lower() in letters:
            return self.options[letters.index(said.lower())]
        raise UsageError(f"{said!r} is none of the options: say a letter, {letters[0]} to {letters[-1]}")

    def right(self, given: Answer) -> bool:
        if self.kind == "number":
            return abs(given - self.answer) <= self.tolerance + 1e-9 * max(1.0, abs(self.answer))
        return set(given) == set(self.answer) if self.kind == "several" else given == self.answer

    def say(self, answer: Answer) -> str:
        """An answer in words."""
        if self.kind == "number":
            return f"{answer:g}{f' {self.unit}' if self.unit else ''}"
        return "; ".join(answer) if isinstance(answer, tuple) else answer

    def closed(self, tries: Sequence[Answer]) -> bool:
        """Whether the right answer may be shown: it was given, or `TRIES` different ones were. The same one again is no try."""
        return any(self.right(given) for given in tries) or len(set(tries)) >= TRIES

    def reasons(self, given: Answer) -> list[str]:
        """What is wrong in a wrong answer, without giving the right one away."""
        if self.kind == "number":
            return [f"{self.say(given)} is too {'small' if given < self.answer else 'large'}."]
        if self.kind == "one":
            return [self.why[self.wrong.index(given)]] if self.why else []
        said = [f"{option}: {why}" for option, why in zip(self.wrong, self.why) if option in given]
        return said + (["A right option is missing."] if set(self.answer) - set(given) else [])

    def verdict(self, tries: Sequence[Answer]) -> messages.Shown:
        """What is said after the last of these answers: right or not, why not; and once the question is closed, what is right."""
        given = tries[-1]
        right, answer = self.right(given), self.say(self.answer)
        if right:
            head, said = "Right.", [self.explanation]
        elif self.closed(tries):
            head, said = f"Not right. The answer: {answer}", [*self.reasons(given), self.explanation]
        else:
            head, said = "Not right.", [*self.reasons(given), "You have a second try. After it you see the right answer."]
        stop = "" if head.endswith(".") else "."
        colour = messages.GOOD if right else messages.BAD
        page = messages.headline(head.replace("`", ""), colour) + "".join(messages.markdown(each) for each in said)
        return messages.Shown(messages.fill(f"Yours: {self.say(given)}. {head}{stop} {' '.join(said)}"),
                              f'<div style="border-left: 3px solid {colour}; padding-left: 8px">{page}</div>')


@dataclass(frozen=True)
class Sheet:
    question: tuple[Question, ...] = toml.tables(Question)


def read(lab: Lab) -> tuple[Question, ...]:
    """The questions of a lab; none where it has no quiz.toml. Raises UsageError with the line."""
    file = lab.folder / "quiz.toml"
    if not file.exists():
        return ()
    found = toml.load(Sheet, file).question
    twice = [one.id for i, one in enumerate(found) if one.id in [other.id for other in found[:i]]]
    if twice:
        index = max(i for i, one in enumerate(found) if one.id == twice[0])
        content = file.read_text(encoding="utf-8")
        raise toml.wrong(file, content, ("question", index, "id"), f"the id {twice[0]!r} is there twice")
    return found


def answers(events: list[dict], lab: Lab, questions: tuple[Question, ...]) -> dict[str, tuple[Answer, ...]]:
    """The answers to each question, in their order, from progress.jsonl. One that no longer is an answer (the quiz has changed)
    is left out, with those before it."""
    found: dict[str, tuple[Answer, ...]] = {}
    by_id = {question.id: question for question in questions}
    for event in events:
        if event["event"] == "quiz" and event["lab"] == lab.id and (question := by_id.get(event.get("question"))):
            try:
                found[question.id] = (*found.get(question.id, ()), question.given(event.get("answer")))
            except UsageError:
                found.pop(question.id, None)
    return found
