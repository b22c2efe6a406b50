"""progress.jsonl under many writers and torn lines; the table made of it; goals from the records of runs."""

import json
import os
import subprocess
import sys
import time

import pytest

from dlojz import cli, progress
from dlojz.labs import catalogue, checking, events, fences, goals, questions, quiz, verbs
from dlojz.labs.catalogue import Goal
from dlojz.labs.outcome import Outcome
from dlojz.labs.progress import standing
from dlojz.system import paths
from dlojz.system.errors import UsageError
from dlojz.training import records

WRITER = """
import sys
from pathlib import Path
from dlojz.labs import events
for number in range(200):
    events.add(Path(sys.argv[1]), "quiz", "amp", question=sys.argv[2], answer="x" * (number * 7 % 900), number=number)
"""


def test_many_writers_lose_nothing_and_mix_nothing(here):
    env = {**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, here, str(who)], env=env) for who in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    found = events.read(here)
    assert len(found) == 800 == len((here / events.NAME).read_bytes().splitlines())
    for who in range(4):
        assert [event["number"] for event in found if event["question"] == str(who)] == list(range(200))


@pytest.mark.parametrize("cut", range(0, 200, 9))
def test_a_torn_line_costs_that_line_alone(here, cut):
    for step in (1, 2, 3):
        events.add(here, "hint", "amp", step=step)
    data = (here / events.NAME).read_bytes()
    (here / events.NAME).write_bytes(data[:cut])
    whole = data[:cut].count(b"\n") + (cut > 0 and data[cut:cut + 1] == b"\n")
    events.add(here, "hint", "gpu", step=1)
    found = events.read(here)
    assert [event["lab"] for event in found] == ["amp"] * whole + ["gpu"]


@pytest.mark.parametrize("junk", [
    b"\n\n", b"\x00\x00\x00\n", b"\xff\xfe\n", b"3\n", b'"text"\n', b"[]\n", b"{}\n", b'{"event": 3, "lab": "amp"}\n',
    b'{"event": "check"\n', b"[" * 99999 + b"\n",
    b'{"event": "check", "lab": null}\n', b'{"event": "hint", "lab": "amp", "step": "two", "time": "now"}\n',
    b'{"event": "quiz", "lab": "amp", "question": ["range"], "answer": {}}\n',
    b'{"event": "prediction", "lab": "amp", "value": "x"}\n',
    b'{"event": "check", "lab": "amp", "outcome": ["solved"]}\n',
    b'{"event": "check", "lab": "no such lab", "outcome": "solved"}\n',
    b'{"event": "quiz", "lab": "amp", "question": "range", "answer": ["bf17"], "right": true}\n', b"{" * 3000 + b"\n",
])
def test_junk_in_the_middle_is_left_out(here, junk):
    events.add(here, "check", "gpu", outcome="solved")
    with open(here / events.NAME, "ab") as file:
        file.write(junk)
    events.add(here, "hint", "gpu", step=1)
    rows = {row.lab.id: row for row in progress().rows}
    assert rows["gpu"].state == "solved" and rows["gpu"].hints == 1 and rows["amp"].state == "not checked"
    repr(quiz.quiz("amp"))
    repr(quiz.predict("amp"))


def test_a_file_that_cannot_be_written_is_one_line(here):
    (here / events.NAME).mkdir()
    for read_or_write in (lambda: events.add(here, "hint", "amp", step=1), lambda: events.read(here)):
        with pytest.raises(UsageError, match=r"cannot (read|write) .*progress.jsonl"):
            read_or_write()


# --- the table -----------------------------------------------------------------------------------------------------------


def happened(*said):
    return [{"time": float(number), "lab": "amp", **event} for number, event in enumerate(said)]


def check(outcome):
    return {"event": "check", "outcome": outcome}


@pytest.mark.parametrize("outcomes, state, tries", [
    ([], "not checked", 0),
    (["not_attempted"], "not attempted", 0),
    (["not_attempted", "wrong", "wrong"], "wrong", 2),
    (["wrong", "solved"], "solved", 2),
    (["wrong", "solved", "solved", "wrong"], "wrong", 2),
    (["wrong", "cannot_check"], "wrong", 1),
    (["cannot_check"], "can't be checked", 0),
])
def test_states_and_tries(here, outcomes, state, tries):
    found = standing(catalogue.lab("amp"), happened(*map(check, outcomes)), here)
    assert (found.state, found.tries) == (state, tries)


def state(lab="amp"):
    return {row.lab.id: row for row in progress().rows}[lab].state


@pytest.fixture
def verdict_of_check(monkeypatch):
    """``verdict_of_check("WRONG")``: checks say so, without running anything."""
    def says(outcome):
        monkeypatch.setattr(checking, "run_check", lambda lab, folder: Outcome(lab, outcome))

    return says


def write(here, name, body):
    path = here / "train.py"
    path.write_text(fences.replace(path.read_text(), {name: body}))


def test_after_catch_up_the_labs_before_are_solved(here):
    assert verbs.check("gpu").state == "NOT_ATTEMPTED" and state("gpu") == "not attempted"
    verbs.catch_up("channels_last")
    assert [state(lab) for lab in ("gpu", "amp", "channels_last")] == ["solved", "solved", "not checked"]
    assert "solved, solution seen" in repr(progress())


def test_the_state_is_that_of_what_stands_in_the_file(here, verdict_of_check):
    write(here, "amp.forward", "outputs = 1\n")
    assert state() == "not checked"
    verdict_of_check("WRONG")
    verbs.check("amp")
    assert state() == "wrong"
    write(here, "amp.forward", "outputs = 2\n")
    assert state() == "wrong, changed since"
    verdict_of_check("SOLVED")
    verbs.check("amp")
    assert state() == "solved"
    write(here, "amp.forward", "outputs = 1\n")
    assert state() == "wrong", "the check has seen this one"
    write(here, "amp.forward", catalogue.lab("amp").stubs["amp.forward"])
    assert state() == "not attempted"


def test_a_file_that_is_back_can_be_checked(here, verdict_of_check):
    write(here, "amp.forward", "outputs = 1\n")
    os.rename(here / "train.py", here / "other.py")
    verbs.check("amp")
    assert state() == "can't be checked"
    os.rename(here / "other.py", here / "train.py")
    assert state() == "not checked"
    verdict_of_check("CANNOT_CHECK")
    verbs.check("amp")
    assert state() == "can't be checked"


def test_what_the_check_could_not_check_is_not_solved(here, verdict_of_check):
    """Also where the fences hold the kit's own code: what surrounds them may be broken."""
    verbs.solve("amp", yes=True)
    assert state() == "solved"
    verdict_of_check("CANNOT_CHECK")
    verbs.check("amp")
    assert state() == "can't be checked"
    verdict_of_check("SOLVED")
    verbs.check("amp")
    assert state() == "solved"


def test_a_reset_begins_anew(here):
    found = standing(catalogue.lab("amp"), happened(check("solved"), {"event": "reset"}), here)
    assert found.state == "not checked"


def test_a_solution_that_was_seen_is_remembered_unless_the_lab_was_solved_before(here):
    looked = {"event": "looked", "by": "solve"}
    assert standing(catalogue.lab("amp"), happened(check("wrong"), looked, check("solved")), here).looked
    assert not standing(catalogue.lab("amp"), happened(check("wrong"), check("solved"), looked), here).looked


def test_the_first_answer_to_a_question_counts(here):
    amp = quiz.quiz("amp")
    amp.answer("scale", 3)
    amp.answer("scale", 2)
    amp.answer("range", "bf16", "tf32")
    found = {row.lab.id: row for row in progress().rows}["amp"]
    assert (found.answered, found.right, found.asked) == (2, 1, len(questions.read(catalogue.lab("amp"))))


def test_the_table_in_a_shell_and_in_a_notebook(here, capsys):
    events.add(here, "check", "gpu", outcome="solved")
    events.add(here, "hint", "gpu", step=2)
    quiz.predict("amp", value=2.5)
    assert cli.main(["progress"]) == 0
    said = capsys.readouterr().out
    lines = {line.split()[0]: line.split() for line in said.splitlines() if line}
    assert lines["gpu"] == ["gpu", "solved", "1", "2", "of", "3"] and lines["amp"][-3:] == ["2.50x", "not", "measured"]
    assert f"1 of {len(catalogue.labs())} labs solved, 0 goals reached" in said
    page = progress()._repr_html_()
    assert "<table>" in page and "2 of 3" in page and "solved" in page


# --- goals ---------------------------------------------------------------------------------------------------------------


def run(here, name, seconds, began=None, status="completed", scale="gpu", todo=None, **start):
    """The folder of a run that trained 10 images a step, each in so many seconds."""
    folder = records.new_folder(here / "runs", name)
    if scale:
        (folder / "job.json").write_text(json.dumps({"scale": scale, "request": {}}))
    began = time.time() if began is None else began
    writer = records.Writer(folder / records.NAME, clock=lambda: began)
    start = {"image_size": 224, "batch_size": 64, "world_size": 1, "switches": {"amp": "bf16"} if name == "amp" else {}} | start
    writer.write("start", machine={"device": "cuda", "gpu": "H100"}, model="resnet50", **start)
    if todo:
        writer.write("todo", lab=todo)
    for step in range(1, 5):
        writer.write("step", step=step, images=10, seconds=seconds)
    if status:
        writer.write("end", flush=True, status=status)
    writer.flush()
    return folder


def verdict(here, lab="amp"):
    return goals.judge(catalogue.lab(lab), here)


def test_no_run_yet(here):
    assert verdict(here).text == "not measured yet: no run amp and gpu has completed"
    run(here, "gpu", 1.0)
    assert verdict(here).state == "not measured" and "no run amp has" in verdict(here).text
    assert verdict(here, "gpu").state == "no goal"


@pytest.mark.parametrize("seconds, state, ratio", [
    (0.5, "reached", 2.0), (1 / 1.05, "reached", 1.05), (1 / 1.04, "not reached", 1.04)])
def test_a_goal_is_relative_to_ones_own_baseline(here, seconds, state, ratio):
    run(here, "gpu", 1.0)
    run(here, "amp", seconds)
    found = verdict(here)
    assert found.state == state and found.ratio == pytest.approx(ratio) and found.limit == 1.05
    assert found.text == f"{ratio:.2f}x the images/s of gpu-001, goal >= 1.05x"


def test_the_latest_run_that_completed_counts(here):
    run(here, "gpu", 1.0)
    run(here, "amp", 1.0)
    run(here, "amp", 0.5)
    for status in (None, "failed", "stopped"):
        run(here, "amp", 0.1, status=status)
    (here / "runs" / "amp-099").mkdir()
    found = verdict(here)
    assert found.state == "reached" and found.run.run == "amp-002"


def test_other_names_that_begin_alike_do_not_count(here):
    run(here, "gpu", 1.0)
    run(here, "amp-fp16", 0.5)
    assert verdict(here).state == "not measured"


def test_a_run_that_met_unwritten_fences_reaches_nothing(here):
    run(here, "gpu", 1.0)
    run(here, "amp", 0.1, todo="amp")
    assert verdict(here).state == "not reached" and "ran without amp: not written yet" in verdict(here).text


@pytest.mark.parametrize("other, said", [
    ({"model": "resnet18"}, "model resnet50 and resnet18"), ({"batch_size": 8}, "batch size 64 and 8"),
    ({"world_size": 4}, "processes 1 and 4"),
    ({"machine": {"device": "cpu", "cpu": "EPYC"}}, "device H100 and EPYC")])
def test_what_cannot_be_compared_is_not(here, other, said):
    folder = run(here, "gpu", 1.0)
    lines = [json.loads(line) for line in (folder / records.NAME).read_text().splitlines()]
    lines[0] |= other
    (folder / records.NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(here, "amp", 0.1)
    assert verdict(here).state == "not comparable" and said in verdict(here).text


@pytest.mark.parametrize("scale, state, limit", [
    ("gpu", "reached", 1.05), ("cluster", "reached", 1.05), ("laptop", "no goal", None), ("ci", "no goal", None),
    (None, "reached", 1.05)])
def test_the_scale_of_the_run_says_which_limit(here, scale, state, limit):
    run(here, "gpu", 1.0, scale=scale)
    run(here, "amp", 0.5, scale=scale)
    assert (verdict(here).state, verdict(here).limit) == (state, limit) and verdict(here).ratio == pytest.approx(2)


def test_a_scale_without_a_goal_says_why(here):
    for name, seconds in (("gpu", 1.0), ("amp", 0.8)):
        run(here, name, seconds, scale="laptop")
    why = "1.25x the images/s of gpu-001 (no goal here: a CPU gains only where it multiplies bfloat16 in hardware)"
    assert verdict(here).text == why
    assert f"amp: {why}" in repr(progress()) and "no goal here" in progress()._repr_html_()


def test_a_run_without_the_technique_reaches_nothing(here):
    run(here, "gpu", 1.0)
    run(here, "amp", 0.1, switches={"data": "random"})
    assert verdict(here).state == "not measured" and verdict(here).ratio is None
    assert verdict(here).text == "10.00x the images/s of gpu-001, but amp-001 ran without --amp"


def test_a_goal_may_be_an_upper_limit(here):
    goal = Goal(run="amp", against="gpu", measure="step_seconds", at_most={"gpu": 0.6})
    base, half, same = (goals.measured(run(here, "x", seconds), "step_seconds") for seconds in (1.0, 0.5, 0.9))
    assert goals.compare(goal, half, base).state == "reached" and goals.compare(goal, same, base).state == "not reached"
    assert goals.compare(goal, half, base).text == "0.50x the time per step of x-001, goal <= 0.6x"


def test_a_prediction_stands_beside_what_was_measured(here):
    quiz.predict("amp", value=3)
    now = time.time()
    run(here, "gpu", 1.0, began=now + 10)
    run(here, "amp", 0.5, began=now + 10)
    row = {row.lab.id: row for row in progress().rows}["amp"]
    assert row.prediction == 3 and not row.late
    assert row.cells()[-3:] == ["3.00x", "2.00x gpu", "reached (1.05x)"]
    assert "you expect 3.00x; measured: 2.00x the images/s of gpu-001" in repr(quiz.predict("amp"))


def test_a_prediction_after_the_run_is_marked(here):
    run(here, "gpu", 1.0, began=1.0)
    run(here, "amp", 0.5, began=1.0)
    quiz.predict("amp", value=2)
    row = {row.lab.id: row for row in progress().rows}["amp"]
    assert row.late and row.cells()[-3] == "2.00x (afterwards)"


def test_one_that_is_changed_after_the_run_does_not_count(here, monkeypatch):
    quiz.predict("amp", value=3)
    later = time.time() + 10
    run(here, "gpu", 1.0, began=later)
    run(here, "amp", 0.5, began=later)
    monkeypatch.setattr(time, "time", lambda: later + 10)
    assert repr(quiz.predict("amp", value=2)).endswith("What you expected before that counts: 3.00x")
    row = {row.lab.id: row for row in progress().rows}["amp"]
    assert row.prediction == 3 and not row.late


def test_a_prediction_of_memory_has_memory_beside_it(here):
    quiz.predict("gpu", value=0.5)
    quiz.predict("gpu", "How many times faster?", 7)
    folder = run(here, "gpu", 1.0, began=time.time() + 10, status=None)
    records.Writer(folder / records.NAME).write("end", flush=True, status="completed", memory_allocated=29_200_000_000)
    row = {row.lab.id: row for row in progress().rows}["gpu"]
    assert row.cells()[-3:] == ["0.5 GB", "29.2 GB", ""] and not row.late
    assert "How many GB will the run take at its peak? (gpu) you expect 0.5 GB; measured: 29.2 GB at its peak (gpu-001)" \
        in repr(quiz.predict("gpu"))
    assert "you expect 7" in repr(quiz.predict("gpu", "How many times faster?")) and "GB" not in repr(
        quiz.predict("gpu", "How many times faster?"))
