"""The room: what a workspace publishes, 100 that do so at once, and what is read where anybody may have written anything."""

import json
import os
import signal
import sys
import time

import pytest
from patience import LIMIT

from dlojz import cli, views
from dlojz.labs import catalogue, events, quiz, room, verbs
from dlojz.labs.outcome import Outcome
from dlojz.system.errors import UsageError
from dlojz.views.room import look

SECRET = "jean_dupont"


@pytest.fixture
def shared(here, monkeypatch):
    """A workspace whose site has a room."""
    folder = here.parent / "room"
    folder.mkdir()
    (here / "sites").mkdir()
    (here / "sites" / "mine.toml").write_text(f'room = "{folder}"\n')
    monkeypatch.setenv("DLOJZ_SITE", "mine")
    return folder


def checked(here, monkeypatch, state, message, lab="amp"):
    monkeypatch.setattr("dlojz.labs.checking.run_check", lambda *_: Outcome(lab, state, message))
    return verbs.check(lab)


def test_nothing_is_published_until_somebody_says_so(here, shared, monkeypatch, capsys):
    checked(here, monkeypatch, "WRONG", "no")
    asked = room.publish()
    assert "Nothing is published unless you say so" in asked.text and "not your name" in asked.text
    room.publish(False)
    assert "Nothing of this workspace is published" in room.publish().text, "asked once"
    events.add(here, "hint", "amp", step=1)
    assert not list(shared.iterdir())
    assert cli.main(["publish", "green otter"]) == 0 and "You publish as green otter" in capsys.readouterr().out
    assert len(list(shared.iterdir())) == 1
    assert cli.main(["publish", "--stop"]) == 0 and not list(shared.iterdir())


def test_where_the_site_has_no_room(here, capsys):
    assert "has no room" in room.publish("green otter").text and not (here / room.NAME).exists()
    assert cli.main(["room"]) == 2 and 'room = "FOLDER"' in capsys.readouterr().err


@pytest.mark.parametrize("name", ["<b>me</b>", "x", "a" * 25, "", "a\nb\x1b", 3, "\u202eevil"])
def test_what_is_no_pseudonym(here, shared, name):
    if name == "a\nb\x1b":
        name = "a\x1bb"
    with pytest.raises(UsageError, match="is no pseudonym"):
        room.publish(name)


def test_a_login_is_no_pseudonym(here, shared, monkeypatch):
    monkeypatch.setenv("LOGNAME", "marie")
    with pytest.raises(UsageError, match="has your login in it"):
        room.publish("Marie 2")


def test_what_is_published(here, shared, monkeypatch):
    """The kit's name of a mistake, predictions, feedback; nothing of the trainee's code, message or path."""
    answer = next(one for one in catalogue.answers(catalogue.lab("amp")) if one.name == "clipped_before_unscaling")
    monkeypatch.setattr(room, "mistake", lambda lab, message: answer.name if "clip" in message else "")
    room.publish("green otter")
    (here / "train.py").write_text((here / "train.py").read_text() + f"\n{SECRET} = 1\n")
    checked(here, monkeypatch, "WRONG", f"clip: NameError: name '{SECRET}' is not defined, {here}/train.py")
    checked(here, monkeypatch, "WRONG", f"another: {SECRET}")
    quiz.predict("amp", value=2.5)
    solved = checked(here, monkeypatch, "SOLVED", "")
    assert str(solved).endswith("4 hard, 5 too hard") and 'feedback("amp", 3), in a shell `dlojz feedback amp 3`' in str(solved)
    assert "feedback" not in solved._repr_html_(), "in a notebook it comes after the verdict"
    room.feedback("amp", 4)
    assert checked(here, monkeypatch, "SOLVED", "").asks is None, "asked once"
    text = next(shared.glob("*.json")).read_text()
    assert SECRET not in text and str(here) not in text and os.environ.get("USER", "nobody!") not in text
    (person,), others = room.read(shared)
    assert (person.name, person.at, person.solved, others) == ("green otter", "amp", 1, 0)
    entry = person.labs["amp"]
    assert (entry.mistakes, entry.predicted, entry.hard) == ({answer.name: 1, "": 1}, 2.5, 4)
    said = str(look(shared))
    assert answer.words in said and "something that the kit has no name for" in said and "2.50x" in said and "hard" in said
    assert "1 trainee, 1 active" in said


def test_the_message_of_each_wrong_answer_has_a_name():
    """What a check says of a mistake is found again by what the lab expects of it."""
    lab = catalogue.lab("gpu")
    for answer in catalogue.answers(lab):
        if answer.kind == "wrong" and answer.expect.isalnum():
            assert room.mistake(lab, f"…{answer.expect}…")
    assert room.mistake(lab, "nothing of that kind") == ""


def test_a_room_that_is_gone_harms_no_check(here, shared, monkeypatch):
    room.publish("green otter")
    shared.rename(shared.parent / "away")
    assert checked(here, monkeypatch, "WRONG", "no").state == "WRONG" and len(events.read(here)) == 1
    (here / room.NAME).write_text('{"publish": true, "name": "ab", "id": "0123456789ab", "spent": {"amp-001": 3}}')
    (here / "runs" / "amp-001").mkdir()
    assert checked(here, monkeypatch, "WRONG", "no").state == "WRONG" and len(events.read(here)) == 2


def test_gpu_time_and_energy_are_those_of_the_runs(here, shared):
    for number, (gpus, seconds) in enumerate(((1, 100), (4, 50)), 1):
        folder = here / "runs" / f"amp-00{number}"
        folder.mkdir()
        status = {"state": "COMPLETED", "reason": "", "exit_code": 0, "started": 1000.0, "ended": 1000.0 + seconds}
        asked = {"name": "amp", "command": ["train.py"], "site": "x", "gpus": gpus}
        (folder / "job.json").write_text(json.dumps({"id": "1", "launcher": "local", "request": asked, "status": status}))
        lines = [{"event": "start"}, {"event": "step", "step": 1, "seconds": 1.0, "images": 500},
                 {"event": "end", "joules_per_image": 2.0, "status": "completed"}]
        (folder / "record.jsonl").write_text("\n".join(map(json.dumps, lines)))
    room.publish("green otter")
    (person,), _ = room.read(shared)
    assert (person.gpu_seconds, person.joules) == (300, 2000)
    for file in (here / "runs").glob("*/record.jsonl"):
        file.unlink()  # ended runs are read once
    events.add(here, "hint", "amp", step=1)
    assert room.read(shared)[0][0].joules == 2000


def test_a_hundred_publish_at_once(here, shared):
    """Each in a process of its own, twice, some killed while they write: whoever reads meanwhile finds whole files only, and
    nothing is lost."""
    events.add(here, "hint", "amp", step=1)
    children = []
    for number in range(100):
        if not (child := os.fork()):
            mine = {"publish": True, "name": f"otter {number}", "id": f"{number:012x}", "spent": {}}
            for _ in range(2):
                room.put(here, mine, shared)
            if number % 10 == 0:  # and dies in the middle of the next
                os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
                room.put(here, mine, shared)
            os._exit(0)
        children.append(child)
    left, until = set(children), time.monotonic() + LIMIT
    while left and time.monotonic() < until:
        assert room.read(shared)[1] == 0
        left -= {child for child in left if os.waitpid(child, os.WNOHANG)[0]}
        time.sleep(0.01)
    assert not left
    people, others = room.read(shared)
    assert sorted(person.name for person in people) == sorted(f"otter {number}" for number in range(100)) and not others
    assert len([file for file in shared.iterdir() if file.name.startswith(".")]) == 10, "what the killed ones have left"
    for file in shared.glob(".*"):
        os.utime(file, (1, 1))
    room.put(here, {"name": "otter 0", "id": f"{0:012x}"}, shared)
    assert len(list(shared.glob(".*"))) == 9, "each clears its own away"


GOOD = {"name": "green otter", "time": 5, "labs": {"amp": {"state": "wrong", "time": 5, "tries": 2, "predicted": 3.0}}}
HOSTILE = {
    "no json": b"{", "deep": b"[" * 60_000, "large": b'{"name": "' + b"x" * 70_000 + b'"}',
    "a list": b"[]", "not text": b"\xff\xfe\x00",
    "a name in HTML": json.dumps({**GOOD, "name": "<script>alert(1)</script>"}).encode(), "no labs": b'{"name": "abc"}',
    "labs as text": json.dumps({**GOOD, "labs": "amp"}).encode(),
    "a name of 10 kB": json.dumps({**GOOD, "name": "a" * 10_000}).encode(),
    "a name that turns": json.dumps({**GOOD, "name": "ab\u202ecd"}).encode(),
}
ODD = [
    {"tries": 1e308}, {"tries": float("nan")}, {"tries": -3}, {"tries": "2"}, {"tries": True}, {"tries": 10**400}, {"hints": [1]},
    {"predicted": "<b>"}, {"predicted": float("inf")}, {"ratio": {}}, {"hard": 9}, {"hard": [3]}, {"hard": 3.0}, {"time": "now"},
    {"time": 1e300}, {"mistakes": ["<img src=x onerror=alert(1)>"]}, {"mistakes": {"<script>": 3}}, {"mistakes": {"x": "<b>"}},
    {"looked": "<b>"}, {"state": "<b>solved</b>"}, {"state": ["solved"]}, {"state": None}, {"more": "<script>"},
]


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_bad_file_spoils_nothing(shared, kind):
    (shared / "0123456789ab.json").write_bytes(json.dumps(GOOD).encode())
    (shared / "ffffffffffff.json").write_bytes(HOSTILE[kind])
    people, others = room.read(shared)
    assert [person.name for person in people] == ["green otter"] and others == 1
    view = look(shared)
    assert "<script" not in view.page and "1 file of" in str(view)


def test_odd_fields_are_left_out(shared):
    for number, odd in enumerate(ODD):
        labs = {"amp": {**GOOD["labs"]["amp"], **odd}, "<b>no lab": GOOD["labs"]["amp"], "gpu": "solved"}
        (shared / f"{number:012x}.json").write_text(json.dumps({**GOOD, "labs": labs, "gpu_seconds": odd.get("tries", "x")}))
    people, others = room.read(shared)
    assert len(people) == len(ODD) and not others and all(set(person.labs) <= {"amp"} for person in people)
    view = look(shared)
    assert not any(bad in view.page for bad in ("<script", "<img", "<b>", "nan", "inf "))


def test_what_is_no_file_of_a_trainee_is_not_opened(shared, here):
    (shared / "0123456789ab.json").symlink_to(here / "workspace.toml")
    os.mkfifo(shared / "1123456789ab.json")
    (shared / "2123456789ab.json").mkdir()
    (shared / "README <script>.txt").write_text("x")
    if hasattr(os, "getuid") and os.getuid():
        (shared / "3123456789ab.json").touch(0)
    people, others = room.read(shared)
    assert not people and others >= 4 and "<script" not in look(shared).page


@pytest.mark.parametrize("values, said", [([], ""), ([3.0], "3"), ([2.0, 2.0], "2"), ([1.0, 2.0, 4.0], "2 (1 to 4)")])
def test_a_spread_says_between_what_values_lie_where_they_differ(values, said):
    assert room.spread(values, lambda value: f"{value:g}") == said


def test_a_page_that_reloads_itself(shared, here, capsys):
    (shared / "0123456789ab.json").write_text(json.dumps(GOOD))
    assert cli.main(["room", str(shared), "--html", str(here / "room.html"), "--once"]) == 0
    assert "refresh" not in (here / "room.html").read_text()
    assert cli.main(["room", str(shared)]) == 0 and "green otter" in capsys.readouterr().out
    module = sys.modules["dlojz.views.room"]
    page = module.save(views.room(shared), str(here / "room.html")).read_text()
    assert page.count('<meta http-equiv="refresh" content="15">') == 1 and "green otter" in page
    assert cli.main(["room", "/nowhere at all"]) == 2 and "mkdir -m 1777" in capsys.readouterr().err


def test_a_page_outlives_a_shared_folder_that_is_gone_for_a_while(shared, here, capsys, monkeypatch):
    module, hidden, page = sys.modules["dlojz.views.room"], shared.with_name("hidden"), here / "room.html"
    turns = iter([lambda: shared.rename(hidden), lambda: hidden.rename(shared),
                  lambda: (shared / "0123456789ab.json").write_text(json.dumps(GOOD)), None])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: next(turns)())
    with pytest.raises(TypeError, match="NoneType"):  # the end of the turns
        cli.main(["room", str(shared), "--html", str(page)])
    assert "green otter" in page.read_text()
