"""The forms of `quiz`, `predict` and `solve`, made of ipywidgets: imported only where somebody can see them.

JupyterLab runs callbacks in threads beside the notebook's cells: they set values of widgets under a lock and print nothing.
"""

from __future__ import annotations

import html
import threading
import time
from collections.abc import Callable

import ipywidgets

from ..system.errors import UsageError
from ..ui import messages
from .questions import Question

# Options are sentences: let them wrap, and show where the keyboard is. Each radio button is a widget by itself, which Tab and
# Space reach: JupyterLab takes the arrow keys, which move between those of one widget, to move between cells.
STYLE = """<style>
.dlojz-form .widget-checkbox, .dlojz-form .widget-radio, .dlojz-form .widget-radio-box { height: auto; margin: 0 }
.dlojz-form .widget-radio-box label { height: auto; width: auto; white-space: normal; line-height: 1.5; margin: 2px 0;
  display: flex; flex-direction: row-reverse; justify-content: flex-end; align-items: flex-start }
.dlojz-form .widget-radio-box input { flex: none; height: 1.5em }
.dlojz-form .widget-html-content p { line-height: 1.5 }
.dlojz-form .widget-radio-box { max-width: none; width: 100%; padding: 0 }
.dlojz-form label.widget-label-basic { height: auto; width: auto; max-width: none; white-space: normal; line-height: 1.5 }
.dlojz-form :focus-visible { outline: 2px solid #1a7fd4; outline-offset: 1px }
</style>"""
ASKED = {"one": "Choose one:", "several": "Tick all that are right:", "number": ""}
WIDE = {"width": "100%", "max_width": "60em"}
LATE = 1.0  # seconds by which a field's value may come after the press that it was meant for


class QuestionForm:
    """One question: its text, the way to answer it, a button, and what is said after the answer."""

    def __init__(self, quiz, question: Question, number: int, lock: threading.RLock, answered: Callable[[], None]):
        self.quiz, self.question, self.lock, self.answered = quiz, question, lock, answered
        self.fields = self._fields()
        self.button = ipywidgets.Button(description="Answer", tooltip=f"keep this answer to question {number}")
        self.said = ipywidgets.HTML()
        if question.kind == "number":
            decides(self.fields[0], self.button, self._pressed)
        else:
            self.button.on_click(self._pressed)
        text = ipywidgets.HTML(f"<p><b>{number}.</b> {messages.inline(question.text)} <i>{ASKED[question.kind]}</i></p>")
        self.box = ipywidgets.VBox([text, *self.fields, self.button, self.said], layout={"margin": "0 0 12px"})
        if question.id in quiz.tries:
            self._restore(quiz.tries[question.id])

    def _fields(self) -> list:
        question = self.question
        if question.kind != "number":
            labels = [option.replace("`", "") for option in question.options]
            if question.kind == "several":
                return [ipywidgets.Checkbox(description=label, indent=False, layout=WIDE) for label in labels]
            radios = [ipywidgets.RadioButtons(options=[(label, True)], value=None, layout=WIDE) for label in labels]
            for radio in radios:
                radio.observe(self._chosen, "value")
            return radios
        unit = f" ({question.unit})" if question.unit else ""
        return [ipywidgets.Text(placeholder=f"a number{unit}", layout={"width": "14em"}, continuous_update=False)]

    def _restore(self, tries) -> None:
        given = tries[-1]
        if self.question.kind == "number":
            self.fields[0].value = f"{given:g}"
        else:
            chosen = given if self.question.kind == "several" else (given,)
            for field, option in zip(self.fields, self.question.options):
                field.value = True if option in chosen else self._off
        self._say(self.question.verdict(tries))

    @property
    def _off(self) -> bool | None:
        """The value of a field that is not chosen."""
        return None if self.question.kind == "one" else False

    def _chosen(self, change) -> None:
        """Of several options one only."""
        with self.lock:
            for field in self.fields if change["new"] else ():
                field.value = True if field is change["owner"] else None

    def _say(self, verdict: messages.Shown) -> None:
        self.said.value = verdict.page
        closed = self.question.closed(self.quiz.tries[self.question.id])
        self.button.description = "Answer again" if closed else "Second try"

    def _pressed(self, _button) -> None:
        with self.lock:
            if self.question.kind == "number":
                said = self.fields[0].value
            else:
                said = [option for field, option in zip(self.fields, self.question.options) if field.value]
            try:
                verdict = self.quiz.answer(self.question.id, said)
            except UsageError as error:
                self.said.value = _complaint(error)
                return
            self._say(verdict)
            self.answered()


def quiz_form(quiz) -> ipywidgets.Widget:
    """The form of a `dlojz.labs.quiz.Quiz`."""
    lock = threading.RLock()
    head = ipywidgets.HTML()

    def answered() -> None:
        head.value = messages.headline(f"Quiz {quiz.lab.id}: {quiz.score}")

    answered()
    forms = [QuestionForm(quiz, question, number, lock, answered) for number, question in enumerate(quiz.questions, 1)]
    return _form(head, *(form.box for form in forms))


def prediction_form(prediction) -> ipywidgets.Widget:
    """The form of a `dlojz.labs.quiz.Prediction`: a box for a number, and a button."""
    lock = threading.RLock()
    value = prediction.value
    box = ipywidgets.Text("" if value is None else f"{value:g}", placeholder="a number", layout={"width": "10em"},
                          continuous_update=False)
    button = ipywidgets.Button(description="Keep", tooltip="keep this prediction")
    said = ipywidgets.HTML(html.escape(prediction.status))

    def pressed(_button) -> None:
        with lock:
            try:
                prediction.store(box.value)
                said.value = html.escape(prediction.status)
            except UsageError as error:
                said.value = _complaint(error)

    decides(box, button, pressed)
    return _form(ipywidgets.HTML(messages.headline(prediction.question)), ipywidgets.HBox([box, button]), said)


def question_form(words: str, acts: dict[str, Callable[[], messages.Shown]]) -> ipywidgets.Widget:
    """A button that does something only when it is pressed, or several of which one can be, and shows what that returns."""
    lock = threading.RLock()
    style = "warning" if len(acts) == 1 else ""
    buttons = [ipywidgets.Button(description=yes, button_style=style, layout={"width": "max-content"}) for yes in acts]
    said = ipywidgets.HTML()

    def pressed(button) -> None:
        with lock:
            if button.disabled:
                return
            for each in buttons:
                each.disabled = True
            try:
                said.value = acts[button.description]()._repr_html_()
            except UsageError as error:
                said.value = _complaint(error)
                for each in buttons:
                    each.disabled = False

    for button in buttons:
        button.on_click(pressed)
    row = ipywidgets.HBox(buttons, layout={"flex_flow": "row wrap"})
    return _form(ipywidgets.HTML(messages.lines(words)), row, said)


def decides(field: ipywidgets.Text, button: ipywidgets.Button, act: Callable[[object], None]) -> None:
    """The button, and Enter in the field, do ``act``, with what stands in the field then.

    A press is told at once, but what stands in the field only when the kernel has dealt with what was told of it before, which
    takes a while when a cell runs; and Enter is told before the value. So a value that comes right after a press was meant by it.
    To act on every value that comes would be to act on leaving the field, too.
    """
    last, until = field.value, 0.0

    def take() -> None:
        nonlocal last
        last = field.value
        act(button)

    def pressed(_button) -> None:
        nonlocal until
        until = time.monotonic() + LATE
        take()

    def told(_field, content, _buffers) -> None:
        nonlocal until
        if content.get("event") == "submit":
            until = time.monotonic() + LATE
            if field.value != last or not last:  # else the value is still to come, or known
                take()

    def changed(_change) -> None:
        if time.monotonic() < until:
            take()

    button.on_click(pressed)
    field.on_msg(told)
    field.observe(changed, "value")


def _complaint(error: UsageError) -> str:
    return f"<span>{messages.dot(messages.BAD)}{html.escape(str(error))}</span>"


def _form(*parts: ipywidgets.Widget) -> ipywidgets.Widget:
    style = ipywidgets.HTML(STYLE, layout={"display": "none"})
    box = ipywidgets.VBox([style, *parts], layout={"max_width": "75em", "overflow": "visible"})
    box.add_class("dlojz-form")
    return box
