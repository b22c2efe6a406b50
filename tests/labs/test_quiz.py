"""The quiz and predictions: as forms, as text, restored from the file; nothing waits for anybody."""

import dataclasses
import html
import json
import re
import threading
import time

import pytest

from dlojz import cli
from dlojz.labs import catalogue, events, questions, quiz, room, verbs
from dlojz.labs.questions import Question
from dlojz.system import paths
from dlojz.system.errors import UsageError

ONE = Question(id="q", kind="one", text="?", options=("x", "y"), answer="y", explanation="why")
SEVERAL = Question(id="q", kind="several", text="?", options=("x", "y", "z"), answer=("z", "x"), explanation="why")
ALL = len(questions.read(catalogue.lab("amp")))
NUMBER = Question(id="q", kind="number", text="?", answer=102.4, tolerance=2.0, unit="MB", explanation="why")


@pytest.mark.parametrize("question, said, right", [
    (ONE, "y", True), (ONE, "x", False), (ONE, "B", True), (ONE, ["y"], True),
    (SEVERAL, ["x", "z"], True), (SEVERAL, ["c", "a"], True), (SEVERAL, ["x"], False), (SEVERAL, ["x", "y", "z"], False),
    (SEVERAL, "a,c", True), (SEVERAL, "a c", True), (SEVERAL, "A; C", True), (SEVERAL, "a, b", False), (ONE, " b ", True),
    (NUMBER, 102.4, True), (NUMBER, "100.4", True), (NUMBER, "100.4 MB", True), (NUMBER, "104,4mb ", True),
    (NUMBER, "104,4", True), (NUMBER, 104.5, False), (NUMBER, "1e2", False),
])
def test_answers_are_judged(question, said, right):
    assert question.right(question.given(said)) is right


@pytest.mark.parametrize("question, said", [
    (ONE, None), (ONE, []), (ONE, "q"), (ONE, ["x", "y"]), (ONE, 3), (SEVERAL, []), (SEVERAL, "w"), (SEVERAL, [3]),
    (NUMBER, ""), (NUMBER, "many"), (NUMBER, None), (NUMBER, "nan"), (NUMBER, "inf"), (NUMBER, []),
    (NUMBER, True), (NUMBER, "100.4 GB"), (NUMBER, "MB"), (ONE, "a, b"), (ONE, "a q"), (SEVERAL, "a, q"), (SEVERAL, ","),
])
def test_what_is_no_answer_is_refused_in_one_line(question, said):
    named = dataclasses.replace(question, id="internal")
    with pytest.raises(UsageError) as raised:
        named.given(said)
    assert "\n" not in str(raised.value) and "internal" not in str(raised.value)
    assert re.search("choose|such as 12.5|say a letter", str(raised.value)), "what to do"


def test_an_exact_number_is_exact():
    exact = Question(id="q", kind="number", text="?", answer=2, explanation="why")
    assert exact.right(2.0) and not exact.right(2.001)


def test_every_question_of_the_kit_has_a_right_answer_and_a_wrong_one():
    for lab in catalogue.labs().values():
        for question in questions.read(lab):
            assert question.right(question.given(list(question.answer) if question.kind == "several" else question.answer))
            answers = [question.answer] if question.kind == "one" else question.answer
            wrong = question.answer + 2 * question.tolerance + 1 if question.kind == "number" else \
                next(option for option in question.options if option not in answers)
            assert not question.right(question.given(wrong))


# --- as text -------------------------------------------------------------------------------------------------------------


def test_the_plain_quiz_shows_how_to_answer_and_explains_afterwards(here):
    before = repr(quiz.quiz("amp"))
    explanation = questions.read(catalogue.lab("amp"))[0].explanation[:40]
    assert 'quiz("amp").answer("range", "a", "b")' in before and explanation not in before and f"0 of {ALL} answered" in before
    said = repr(quiz.quiz("amp").answer("range", "b", "c"))
    assert "Right." in said and explanation in said
    assert "Not right. 7 is too large. You have a second try." in repr(quiz.quiz("amp").answer("scale", 7))
    assert "Not right. The answer: 2. 1 is too small. " in repr(quiz.quiz("amp").answer("scale", 1))
    again = repr(quiz.quiz("amp"))
    assert f"2 of {ALL} answered, 1 right" in again and explanation in again
    assert [(event["question"], event["right"]) for event in events.read(here)] == \
        [("range", True), ("scale", False), ("scale", False)]


def test_plain_output_has_no_widget(here):
    for shown in (quiz.quiz("amp"), quiz.predict("amp"), verbs.solve("amp")):
        assert list(shown._repr_mimebundle_()) == ["text/plain"] and shown._repr_html_().startswith("<div")


def test_a_page_without_widgets_says_the_call_as_text_does(here):
    for shown, call in ((quiz.quiz("amp"), 'quiz("amp").answer("range", "a", "b")'),
                        (quiz.predict("amp"), f'predict("amp", value={catalogue.lab("amp").prediction.example:g})'),
                        (quiz.predict("amp", "How much?"), 'predict("amp", "How much?", 2.5)')):
        assert f"`{call}`" in repr(shown) and f"<code>{html.escape(call)}</code>" in shown._repr_html_()
    quiz.predict("amp", "How much?", 2.5)
    assert "predict(" not in quiz.predict("amp", "How much?")._repr_html_()


def test_one_question_of_a_quiz(here):
    assert repr(quiz.quiz("amp", "clip")).count("[") == 1
    with pytest.raises(UsageError, match=r"the quiz of amp has no question 'nothing': Choose from range, scale"):
        quiz.quiz("amp", "nothing")


def test_a_quiz_that_has_changed_drops_answers_that_are_none_any_more(here):
    events.add(here, "quiz", "amp", question="range", answer=["fp8"], right=False)
    events.add(here, "quiz", "amp", question="gone", answer="x", right=True)
    assert f"0 of {ALL} answered" in repr(quiz.quiz("amp"))


def test_predictions_are_kept_by_question(here):
    assert "no prediction yet" in repr(quiz.predict("amp"))
    assert "you expect 2.50x" in repr(quiz.predict("amp", value="2,5"))
    quiz.predict("amp", "How much memory?", 7)
    assert quiz.predict("amp").value == 2.5 and quiz.predict("amp", "How  much\nmemory?").value == 7
    for value in ("lots", float("nan"), [2]):
        with pytest.raises(UsageError):
            quiz.predict("amp", value=value)
    with pytest.raises(UsageError, match="needs a question"):
        quiz.predict("amp", "  ")


@pytest.mark.parametrize("value", [-3, 0, "0", True])
def test_what_cannot_be_measured_is_no_prediction(here, value):
    with pytest.raises(UsageError, match="number"):
        quiz.predict("amp", value=value)
    assert events.read(here) == []


def test_a_number_in_the_place_of_the_question_says_how(here):
    with pytest.raises(UsageError, match=re.escape('write predict("amp", value=2.5), or give the question first')):
        quiz.predict("amp", 2.5)


def test_a_prediction_may_have_its_unit(here):
    assert quiz.predict("gpu", value="22.3 GB").value == 22.3 and quiz.predict("amp", value="2.5x").value == 2.5
    assert quiz.predict("profiler", value="60%").value == 60
    assert repr(quiz.predict("gpu")).startswith("How many GB will the run take at its peak? (gpu) you expect 22.3 GB")


@pytest.mark.parametrize("lab, most, example", [("profiler", "100", "40"), ("dataloader", "1", "0.4")])
def test_a_part_is_not_larger_than_the_whole(here, lab, most, example):
    for value in (most + ".1", "250"):
        with pytest.raises(UsageError, match=rf"can't be measured: a part is asked for, so predict {most} at most"):
            quiz.predict(lab, value=value)
    assert events.read(here) == [] and f"`dlojz predict {lab} {example}`" in repr(quiz.predict(lab))
    assert quiz.predict(lab, value=most).value == float(most)
    assert quiz.predict(lab, "How many times?", 250).value == 250, "another question is not about a part"


REASONED = dataclasses.replace(ONE, options=("x", "y", "z"), why=("x is bad.", "z is worse."))
SEVERAL_REASONED = dataclasses.replace(SEVERAL, options=("x", "v", "y", "z"), why=("v is bad.", "y is worse."))


@pytest.mark.parametrize("question, tries, reasons, shown", [
    (REASONED, ["x"], ["x is bad."], False), (REASONED, ["x", "x"], ["x is bad."], False),
    (REASONED, ["x", "z"], ["z is worse."], True), (REASONED, ["x", "y"], [], True), (REASONED, ["y", "x"], ["x is bad."], True),
    (SEVERAL_REASONED, [("x", "y")], ["y: y is worse.", "A right option is missing."], False),
    (SEVERAL_REASONED, [("x", "v", "y", "z")], ["v: v is bad.", "y: y is worse."], False),
    (SEVERAL_REASONED, [("x",)], ["A right option is missing."], False),
    (SEVERAL_REASONED, [("x",), ("z",)], ["A right option is missing."], True),
    (NUMBER, [90.0], ["90 MB is too small."], False), (NUMBER, [90.0, 200.0], ["200 MB is too large."], True),
])
def test_a_wrong_answer_gets_its_reason_and_a_second_try(question, tries, reasons, shown):
    said = dataclasses.replace(question, explanation="EXPLAINED").verdict(tries)
    right = question.right(tries[-1])
    for words in (said.text, re.sub("<[^>]*>", " ", said.page)):
        assert [each for each in ("x is bad.", "z is worse.", "v: v is bad.", "y: y is worse.", "A right option is missing.",
                                  "90 MB is too small.", "200 MB is too large.") if each in words] == reasons
        assert ("EXPLAINED" in words) is shown and ("You have a second try" in words) is not shown
        assert ("The answer: " in words) is (shown and not right) and ("Not right" in words) is not right


def test_a_reason_is_about_its_own_option_in_every_quiz_of_the_kit():
    """As many reasons as wrong options, each different, none with the explanation's first words."""
    for lab in catalogue.labs().values():
        for question in questions.read(lab):
            assert len(set(question.why)) == len(question.wrong), (lab.id, question.id)
            assert not any(why in question.explanation for why in question.why), (lab.id, question.id)


def test_the_second_try_is_there_after_a_restart(here):
    quiz.quiz("amp").answer("clip", "a")
    again = " ".join(repr(quiz.quiz("amp", "clip")).split())
    assert "no gradients of this step" in again and "You have a second try" in again and "too late" not in again
    assert "The answer: Between" in repr(quiz.quiz("amp").answer("clip", "c")) and "too late" in repr(quiz.quiz("amp", "clip"))


# --- in a shell ----------------------------------------------------------------------------------------------------------


def test_the_quiz_in_a_shell(here, capsys):
    assert cli.main(["quiz", "amp"]) == 0
    said = capsys.readouterr().out
    assert f"0 of {ALL} answered" in said
    command = re.search("`dlojz (quiz amp range .*)`", said)[1]
    assert command == "quiz amp range a b"
    assert cli.main(command.split()) == 0 and "Not right" in capsys.readouterr().out
    assert cli.main(["quiz", "amp", "range", "b", "c"]) == 0 and "Right." in capsys.readouterr().out
    assert cli.main(["quiz", "amp", "scale", "2"]) == 0
    assert [(event["question"], event["right"]) for event in events.read(here)] == \
        [("range", False), ("range", True), ("scale", True)]
    capsys.readouterr()
    assert cli.main(["quiz", "amp", "scale", "lots"]) == 2 and "'lots' is not a number" in capsys.readouterr().err
    assert cli.main(["quiz", "amp", "nothing", "a"]) == 2 and "Choose from range, scale" in capsys.readouterr().err


def test_a_prediction_in_a_shell(here, capsys):
    assert cli.main(["predict", "gpu"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("How many GB will the run take at its peak? (gpu) no prediction yet")
    assert cli.main(re.search("`dlojz (predict gpu 2.5)`", said)[1].split()) == 0
    assert "you expect 2.5 GB" in capsys.readouterr().out and events.read(here)[-1]["value"] == 2.5
    assert cli.main(["predict", "amp", "fast"]) == 2 and "is not a number" in capsys.readouterr().err
    assert cli.main(["predict", "amp", "0"]) == 2 and "larger than 0" in capsys.readouterr().err


def test_every_verb_of_the_first_notebook_is_one_of_the_shell(here, capsys):
    """Its table says so; names with _ are taken as with -."""
    cells = json.loads((paths.share("notebooks") / "day0_start.ipynb").read_text())["cells"]
    table = next("".join(cell["source"]) for cell in cells if "| verb | what it does |" in "".join(cell["source"]))
    verbs_there = re.findall(r"(?m)^\| `(\w+)\(", table)
    assert {"quiz", "predict", "catch_up"} <= set(verbs_there)
    for verb in verbs_there:
        words = [verb] if verb == "progress" else [verb, "gpu"]
        assert cli.main(words) in ((2,) if verb == "solve" else (3,) if verb == "check" else (0,)), verb


# --- as forms ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def widgets(here, monkeypatch):
    """A notebook that somebody looks at."""
    monkeypatch.setenv("DLOJZ_PLAIN", "0")
    return pytest.importorskip("ipywidgets")


def inside(widget, kind):
    return [each for child in getattr(widget, "children", ())
            for each in ([child] if isinstance(child, kind) else inside(child, kind))]


def form(shown):
    from dlojz.labs import widgets

    return {quiz.Quiz: widgets.quiz_form, quiz.Prediction: widgets.prediction_form}[type(shown)](shown)


def texts(widget, widgets):
    return " ".join(each.value for each in inside(widget, widgets.HTML))


def test_a_notebook_gets_a_form_and_the_same_words_as_text(widgets):
    for shown in (quiz.quiz("amp"), quiz.predict("amp"), verbs.solve("amp")):
        bundle = shown._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in bundle and bundle["text/plain"] == repr(shown)


def enter(field):
    """What the browser sends when Enter is pressed in a field."""
    field._handle_custom_msg({"event": "submit"}, [])


def test_enter_answers(here, widgets):
    box = form(quiz.quiz("amp"))
    number = box.children[3]
    field = inside(number, widgets.Text)[0]
    enter(field)
    assert "is not a number" in texts(number, widgets) and events.read(here) == []
    field.value = "3"
    enter(field)
    assert "Not right" in texts(number, widgets) and [event["answer"] for event in events.read(here)] == [3.0]


@pytest.mark.parametrize("how", ["button", "enter"])
def test_a_value_that_comes_after_the_press_is_what_was_meant(here, widgets, how):
    """A browser tells of Enter before the value, and of a button before a second change while the kernel is busy."""
    number = form(quiz.quiz("amp")).children[3]
    field, button = inside(number, widgets.Text)[0], inside(number, widgets.Button)[0]
    assert not field.continuous_update, "or half of a number is told, and the rest when the kernel has time"
    for typed in ("3", "4"):
        button.click() if how == "button" else enter(field)
        field.value = typed
        assert events.read(here)[-1]["answer"] == float(typed)
    answered = len(events.read(here))
    time.sleep(1.1)
    field.value = "5"  # left without a press
    assert len(events.read(here)) == answered


def test_each_question_says_how_many_to_tick(widgets):
    for lab in ("gpu", "amp"):
        box = form(quiz.quiz(lab))
        for question, shown in zip(quiz.quiz(lab).questions, box.children[2:]):
            asked = {"one": "Choose one:", "several": "Tick all that are right:", "number": ""}[question.kind]
            assert re.findall("(?:Choose|Tick)[^<]*", texts(shown, widgets)) == ([asked] if asked else [])


def test_answers_in_the_form_are_kept_explained_and_restored(here, widgets):
    box = form(quiz.quiz("amp"))
    several, number, one = box.children[2], box.children[3], box.children[4]
    explained = questions.read(catalogue.lab("amp"))[0].explanation[:30]
    assert explained not in texts(box, widgets)
    for check in inside(several, widgets.Checkbox):
        check.value = check.description != "fp16"
    inside(several, widgets.Button)[0].click()
    assert explained in texts(several, widgets) and "Right." in texts(several, widgets)
    inside(number, widgets.Text)[0].value = "3"
    inside(number, widgets.Button)[0].click()
    assert "Not right" in texts(number, widgets)
    inside(one, widgets.RadioButtons)[0].value = True
    inside(one, widgets.RadioButtons)[1].value = True
    assert [radio.value for radio in inside(one, widgets.RadioButtons)] == [None, True, None], "one of them only"
    inside(one, widgets.Button)[0].click()
    assert f"3 of {ALL} answered, 2 right" in texts(box, widgets)
    assert [event["right"] for event in events.read(here)] == [True, False, True]

    again = form(quiz.quiz("amp"))
    assert f"3 of {ALL} answered, 2 right" in texts(again, widgets) and explained in texts(again, widgets)
    assert [check.value for check in inside(again.children[2], widgets.Checkbox)] == [False, True, True]
    assert inside(again.children[3], widgets.Text)[0].value == "3"
    assert [radio.value for radio in inside(again.children[4], widgets.RadioButtons)] == [None, True, None]


def test_an_empty_form_complains_and_keeps_nothing(here, widgets):
    box = form(quiz.quiz("amp"))
    for question in box.children[2:]:
        inside(question, widgets.Button)[0].click()
        assert re.search("choose|is not a number", texts(question, widgets))
    assert events.read(here) == []


def test_nothing_is_chosen_beforehand(widgets):
    box = form(quiz.quiz("gpu"))
    assert not any(field.value for kind in (widgets.Checkbox, widgets.RadioButtons) for field in inside(box, kind))


def test_answers_from_many_threads_are_all_kept(here, widgets):
    box = form(quiz.quiz("amp"))
    inside(box.children[4], widgets.RadioButtons)[0].value = True
    button = inside(box.children[4], widgets.Button)[0]
    threads = [threading.Thread(target=button.click) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(events.read(here)) == 20


def test_a_full_disk_is_said_in_the_form(here, widgets):
    box = form(quiz.quiz("amp"))
    (here / events.NAME).mkdir()
    inside(box.children[4], widgets.RadioButtons)[0].value = True
    inside(box.children[4], widgets.Button)[0].click()
    assert "cannot write" in texts(box.children[4], widgets)


def test_a_prediction_in_the_form(here, widgets):
    box = form(quiz.predict("amp", "How much memory?"))
    field, button = inside(box, widgets.Text)[0], inside(box, widgets.Button)[0]
    field.value = "fast"
    button.click()
    assert "is not a number" in texts(box, widgets) and events.read(here) == []
    field.value = "2.5"
    button.click()
    assert "you expect 2.5" in texts(box, widgets)
    field.value = "3"
    enter(field)
    assert "you expect 3" in texts(box, widgets)
    assert inside(form(quiz.predict("amp", "How much memory?")), widgets.Text)[0].value == "3"


def test_solve_in_a_notebook_does_it_when_its_button_is_pressed_once(here, widgets):
    from dlojz.labs.widgets import question_form

    asked = verbs.solve("gpu")
    box = question_form(asked.words, asked.acts)
    button = inside(box, widgets.Button)[0]
    assert "yes=True" not in texts(box, widgets) and 'todo("gpu")' in (here / "train.py").read_text()
    button.click()
    button.click()
    assert "net = net.to(device)" in texts(box, widgets) and 'todo("gpu")' not in (here / "train.py").read_text()
    assert button.disabled and len(events.read(here)) == 1


def test_how_hard_a_lab_was_is_answered_with_one_of_five_buttons(here, widgets, monkeypatch):
    from dlojz.labs.widgets import question_form

    monkeypatch.setattr(room, "_mine", lambda _: {"publish": True})
    asked = room.asks(here, "gpu")
    box = question_form(asked.words, asked.acts)
    buttons = inside(box, widgets.Button)
    assert [button.description for button in buttons] == [*room.HARD.values()]
    buttons[3].click()
    buttons[0].click()
    assert [event["value"] for event in events.read(here)] == [4] and "gpu was hard for you" in texts(box, widgets)
    assert all(button.disabled for button in buttons) and room.asks(here, "gpu") is None, "asked once"


# --- executed by a program -----------------------------------------------------------------------------------------------

CELLS = """
from dlojz import catch_up, check, diff, hint, predict, progress, quiz, reset, solve
quiz("amp")
predict("amp", "How many times faster?")
solve("amp")
hint("amp")
diff("amp.forward")
catch_up("amp")
reset("gpu")
progress()
outcome = check("amp"); assert outcome.state == "NOT_ATTEMPTED"; outcome
check("amd")
"""


def test_a_notebook_that_nobody_looks_at_waits_for_nobody(here, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.delenv("DLOJZ_PLAIN")
    monkeypatch.setenv("PYTHONPATH", str(paths.PACKAGE.parent))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(line) for line in CELLS.strip().split("\n")])
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(here)}}, allow_errors=True)
    client.execute()
    *cells, last = notebook.cells
    for cell in cells[1:]:
        data = cell.outputs[0]["data"]
        assert "application/vnd.jupyter.widget-view+json" not in data and data["text/html"].startswith("<div"), cell.source
    assert "Nothing was changed" in cells[3].outputs[0]["data"]["text/plain"]
    assert [(output["ename"], len(output["traceback"])) for output in last.outputs] == [("UsageError", 1)]
    assert "did you mean 'amp'" in last.outputs[0]["traceback"][0]


def test_a_question_may_be_named_by_its_number(here):
    known = questions.read(catalogue.lab("amp"))
    for number, question in enumerate(known, 1):
        assert [each.id for each in quiz.quiz("amp", str(number)).questions] == [question.id]
    asked = known[-1]
    answer = asked.answer if asked.kind != "several" else asked.answer[0]
    quiz.quiz("amp", str(len(known))).answer(str(len(known)), str(answer))
    assert events.read(here)[-1]["question"] == asked.id
    for wrong in ("0", str(len(known) + 1), "-1"):
        with pytest.raises(UsageError, match="has no question"):
            quiz.quiz("amp", wrong)


def test_units_are_put_into_brackets_once():
    assert not [each.id for lab in catalogue.labs().values() for each in questions.read(lab) if "(" in each.unit]
