"""What the verbs show can be read on light pages and on dark ones: words have the colour of the page, marks have their own."""

import html
import re

import pytest

from dlojz.labs import catalogue, progress, questions, quiz, verbs
from dlojz.labs.amp import figures
from dlojz.labs.outcome import COLOURS, STATES, Outcome
from dlojz.ui import messages

OWN = re.compile(r"[\s;\"']color:(?! ?(inherit|var))")
FILL = re.compile(r'<text[^>]* fill="(?!currentColor)')


def marked(page, colour):
    """The words after the dot of this colour."""
    return re.findall(rf'background: {colour}; margin-right: 5px"></span>([^<]*)', page)


@pytest.mark.parametrize("state", STATES)
def test_outcomes(state):
    page = Outcome("amp", state, "Seen: this.\nWhere to look: line 3 of train.py.", ("a",), ("b",))._repr_html_()
    assert not OWN.search(page) and marked(page, COLOURS[state]) == [Outcome("amp", state).title]


def test_progress(here):
    page = progress.progress()._repr_html_()
    assert not OWN.search(page) and "not checked" in marked(page, messages.QUIET)


def test_answers(here):
    asked = questions.read(catalogue.lab("amp"))[1]
    for tries, colour, words in (([2.0], messages.GOOD, "Right."), ([7.0], messages.BAD, "Not right."),
                                 ([7.0, 1.0], messages.BAD, "Not right. The answer: 2")):
        page = asked.verdict(tries)._repr_html_()
        assert not OWN.search(page) and [html.unescape(each) for each in marked(page, colour)] == [words]


def test_forms(here):
    forms = pytest.importorskip("dlojz.labs.widgets")
    assert not OWN.search(forms._complaint(ValueError("<no>"))) and "&lt;no&gt;" in forms._complaint(ValueError("<no>"))
    for shown in (quiz.quiz("gpu"), quiz.predict("gpu"), verbs.hint("gpu"), verbs.diff("gpu"), verbs.edit("gpu")):
        assert not OWN.search(shown._repr_html_())


def test_figures():
    page = figures.gradients(figures.Magnitudes({-30: 3, -20: 5}, 0, "three of eight")).page
    assert not FILL.search(page) and "becomes 0" in page
