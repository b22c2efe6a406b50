"""`quiz` and `predict`: what a trainee answers while a job waits or runs, kept in progress.jsonl.

What is shown is a form of ipywidgets where somebody can see it (`dlojz.labs.widgets`), and text anywhere else; answers given
earlier are shown in both, from the file.
"""

from __future__ import annotations

import html
import textwrap
from pathlib import Path
from types import SimpleNamespace

from ..system import suggest, workspace
from ..system.errors import UsageError
from ..system.shown import shown
from ..ui import messages
from ..ui.notebook import plain_wanted
from . import catalogue, events, goals, predictions, questions
from .catalogue import Lab
from .questions import Answer, Question

CLUSTER = SimpleNamespace(id="cluster", folder=catalogue.FOLDER / "cluster")  # questions that belong to no lab


class Quiz:
    """The questions of a lab with the answers given so far. ``answer("range", "bf16", "tf32")`` answers without a form."""

    def __init__(self, lab: Lab, here: Path, only: str = ""):
        self.lab, self.here = lab, here
        self.questions = questions.read(lab)
        if not self.questions:
            raise UsageError(f"the lab {lab.id} has no quiz")
        if only:
            named = self._id(only)
            self.questions = tuple(question for question in self.questions if question.id == named)
            if not self.questions:
                known = [question.id for question in questions.read(lab)]
                raise UsageError(f"the quiz of {lab.id} has no question {only!r}: {suggest.hint(only, known)}"
                                 f"Choose from {', '.join(known)}")
        self.tries: dict[str, tuple[Answer, ...]] = questions.answers(events.read(here), lab, self.questions)

    def answer(self, question: str, *answer) -> messages.Shown:
        """Answer a question: with an option or its letter, several of them, or a number. Raises UsageError.

        After a wrong one there is a second try; what is right is said after that.
        """
        named = self._id(question)
        asked = next((each for each in self.questions if each.id == named), None)
        if asked is None:
            known = [each.id for each in self.questions]
            raise UsageError(f"there is no question {question!r}: {suggest.hint(question, known)}Choose from {', '.join(known)}")
        given = asked.given(answer[0] if len(answer) == 1 else list(answer))
        right = asked.right(given)
        lost = events.note(self.here, "quiz", self.lab.id, question=asked.id, answer=given, right=right)
        self.tries[asked.id] = (*self.tries.get(asked.id, ()), given)
        return asked.verdict(self.tries[asked.id]).also(lost)

    def _id(self, name: str) -> str:
        """The id of a question that is named by it or by its number, as it is shown."""
        ids = [question.id for question in questions.read(self.lab)]
        number = int(name) if str(name).isdecimal() else 0
        return ids[number - 1] if name not in ids and 0 < number <= len(ids) else name

    @property
    def score(self) -> str:
        right = sum(question.right(self.tries[question.id][-1]) for question in self.questions if question.id in self.tries)
        return f"{len(self.tries)} of {len(self.questions)} answered, {right} right"

    def __repr__(self) -> str:
        parts = [f"Quiz {self.lab.id}: {self.score}"]
        for number, question in enumerate(self.questions, 1):
            several = " (one or more)" if question.kind == "several" else ""
            parts.append(f"{number}. {messages.fill(question.text)}{several}   [{question.id}]")
            for letter, option in zip("abcdefghijklmnopqrstuvwxyz", question.options):
                parts.append(textwrap.fill(option, 110, initial_indent=f"   {letter}  ", subsequent_indent="      "))
            if question.id in self.tries:
                parts.append(textwrap.indent(question.verdict(self.tries[question.id]).text, "   "))
        return "\n".join([*parts, *self._how()])

    def _how(self) -> list[str]:
        """How the first question that is left is answered without a form."""
        left = next((question for question in self.questions if question.id not in self.tries), None)
        if left is None:
            return []
        example = {"one": '"a"', "several": '"a", "b"', "number": "12.5"}[left.kind]
        words = example.replace('"', "").replace(",", "")
        return [f'Answer with `quiz("{self.lab.id}").answer("{left.id}", {example})`, '
                f"in a shell `dlojz quiz {self.lab.id} {left.id} {words}`"]

    def _repr_html_(self) -> str:
        rows = [messages.headline(f"Quiz {self.lab.id}: {self.score}")]
        for number, question in enumerate(self.questions, 1):
            options = "".join(f"<li>{messages.inline(option)}</li>" for option in question.options)
            rows.append(f"<p>{number}. {messages.inline(question.text)}</p>")
            rows.append(f'<ol style="list-style-type: lower-alpha">{options}</ol>' if options else "")
            if question.id in self.tries:
                rows.append(question.verdict(self.tries[question.id]).page)
        rows += [f"<p>{messages.inline(line)}</p>" for line in self._how()]
        return f'<div style="{messages.BOX}">{"".join(rows)}</div>'

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if plain_wanted():
            return {"text/plain": repr(self)}
        from .widgets import quiz_form

        return quiz_form(self)._repr_mimebundle_() | {"text/plain": repr(self)}


def quiz(lab: str, question: str = "") -> Quiz:
    """The quiz of a lab, or one question of it; "cluster" is the quiz of day 0. Raises UsageError."""
    return Quiz(CLUSTER if lab == CLUSTER.id else catalogue.lab(lab), workspace.find(), question)


class Prediction:
    """What a trainee expects a run to bring; the dashboard and `progress` show it beside what was measured."""

    def __init__(self, lab: Lab, here: Path, question: str):
        self.lab, self.here, self.question = lab, here, " ".join(question.split())
        if not self.question:
            raise UsageError(f'predict("{lab.id}", …) needs a question, such as "How many times faster?"')
        self.own = self.question == lab.prediction.question

    @property
    def value(self) -> float | None:
        return latest(events.read(self.here), self.lab.id, self.question)

    def store(self, value) -> None:
        """Keep a prediction. Raises UsageError where it is no number that could be measured."""
        unit = {"ratio": "x", "memory": "GB"}.get(self.lab.prediction.measure, self.lab.prediction.unit) if self.own else ""
        question = Question(id="prediction", kind="number", text=self.question, answer=0.0, unit=unit, explanation="-")
        number = question.given(value)
        if number <= 0:
            raise UsageError(f"{number:g} can't be measured: predict a number larger than 0")
        most = self.lab.prediction.at_most if self.own else None
        if most is not None and number > most:
            raise UsageError(f"{number:g} can't be measured: a part is asked for, so predict {most:g} at most")
        events.add(self.here, "prediction", self.lab.id, question=self.question, value=number)

    @property
    def status(self) -> str:
        if self.value is None:
            return "no prediction yet"
        if not self.own:
            return f"you expect {self.value:g}"
        return f"you expect {predictions.said(self.lab.prediction, self.value)}" + self._measured()

    def _measured(self) -> str:
        if self.lab.prediction.measure == "memory":
            run = predictions.latest_peak(self.lab, self.here)
            text = run and f"{run.text} at its peak ({run.run})"
        else:
            verdict = goals.judge(self.lab, self.here)
            run = verdict.run if verdict.ratio is not None and self.lab.prediction.measure == "ratio" else None
            text = verdict.text
        if not run:
            return ""
        counts, late = predictions.latest(events.read(self.here), self.lab, run.began)
        if late or counts == self.value:
            return f"; measured: {text}"
        return f"; measured: {text}. What you expected before that counts: {predictions.said(self.lab.prediction, counts)}"

    def _how(self) -> str:
        """How one is kept without a form."""
        if self.value is not None:
            return ""
        example = f"{self.lab.prediction.example if self.own else 2.5:g}"
        asked = f"value={example}" if self.own else f'"{self.question}", {example}'
        return f'. Keep one with `predict("{self.lab.id}", {asked})`' + (
            f", in a shell `dlojz predict {self.lab.id} {example}`" if self.own else "")

    def __repr__(self) -> str:
        return shown(f"{self.question} ({self.lab.id}) {self.status}{self._how()}")

    def _repr_html_(self) -> str:
        said = html.escape(self.status) + messages.inline(self._how())
        return f'<div style="{messages.BOX}">{shown(messages.headline(self.question))}{said}</div>'

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        if plain_wanted():
            return {"text/plain": repr(self)}
        from .widgets import prediction_form

        return prediction_form(self)._repr_mimebundle_() | {"text/plain": repr(self)}


def latest(said: list[dict], lab: str, question: str) -> float | None:
    """The last prediction in these events."""
    found = None
    for event in said:
        if event["event"] == "prediction" and event["lab"] == lab and event.get("question") == question \
                and isinstance(event.get("value"), (int, float)):
            found = float(event["value"])
    return found


def predict(lab: str, question: str = "", value: float | str | None = None) -> Prediction:
    """Ask what the trainee expects, before it is measured: a box for a number; ``value`` stores one without. Never waits.

    ``question``: left out, the lab's own, beside whose answer the dashboard shows what was measured. Raises UsageError.
    """
    if not isinstance(question, str):
        example = f'predict("{lab}", value={question!r})'
        raise UsageError(f"{question!r} is in the place of the question: write {example}, or give the question first")
    known = catalogue.lab(lab)
    prediction = Prediction(known, workspace.find(), question or known.prediction.question)
    if value is not None:
        prediction.store(value)
    return prediction
