"""What others wrote is cleaned where it leaves: in a terminal, a notebook, a page, a log."""

import ast
import html
import io
import subprocess
import sys
from pathlib import Path

import pytest

import dlojz
from dlojz.data import folders
from dlojz.doctor.report import BROKEN, Finding, Report
from dlojz.jobs import job as jobs_job
from dlojz.jobs import watch
from dlojz.jobs.job import Group, Job
from dlojz.labs.outcome import WRONG, Outcome
from dlojz.system import paths
from dlojz.system.arguments import Parser
from dlojz.system.errors import DataError, UsageError
from dlojz.system.shown import UNSEEN, apart, say, shown
from dlojz.traces.diagnosis import Diagnosis
from dlojz.training import failures
from dlojz.ui import messages, page
from dlojz.ui.charts import Bar, bars

# Clears the screen, sets the title of the window, turns what follows around, hides; a byte that is no UTF-8; half of a letter.
EVIL = "a\x1b[2J\x1b]0;x\x07\x9b31m\u202eb\u200bc\r\x00\udce9\ud800<b>"
PACKAGE = Path(dlojz.__file__).parent


def test_what_cannot_be_seen_is_escaped():
    assert shown(EVIL) == r"a\x1b[2J\x1b]0;x\x07\x9b31m\u202eb\u200bc\x0d\x00\xe9\ud800<b>"
    plain = "naïve 数 👩‍💻 می‌خواهم\n\tx y"  # letters of all kinds, with those that join some of them
    assert shown(plain) == plain


def a_job(tmp_path, **status):
    request = {"name": "amp", "command": ["train.py", EVIL], "site": EVIL}
    return Job(tmp_path / f"amp{EVIL.replace(chr(0), '')}-001", {"id": EVIL, "launcher": "local", "request": request, "status":
               {"state": "FAILED", "reason": EVIL + "\nb", "started": 1.0, "ended": 2.0} | status})


def a_diagnosis():
    return Diagnosis("arithmetic", EVIL, 0.5, [EVIL], [EVIL], [EVIL], [EVIL])


def a_report():
    return Report([Finding(level=BROKEN, topic=EVIL, name=EVIL, text=EVIL, advice=EVIL)], 1.0, "1")


SHOW = {
    "a job": lambda folder: repr(a_job(folder)),
    "a job's page": lambda folder: a_job(folder)._repr_html_(),
    "a sweep": lambda folder: repr(Group([a_job(folder)])),
    "a sweep's page": lambda folder: Group([a_job(folder)])._repr_html_(),
    "a watched job": lambda folder: watch.final_text([watch.Row(EVIL, EVIL, EVIL)]),
    "a watched job's page": lambda folder: watch.final_html([watch.Row(EVIL, EVIL, EVIL)], [EVIL]),
    "an outcome": lambda folder: repr(Outcome(EVIL, WRONG, EVIL, (EVIL,), (EVIL,))),
    "an outcome's page": lambda folder: Outcome(EVIL, WRONG, EVIL, (EVIL,), (EVIL,))._repr_html_(),
    "a view": lambda folder: repr(page.View(EVIL, EVIL, html.escape(EVIL))),
    "a view's page": lambda folder: page.View(EVIL, EVIL, lambda: html.escape(EVIL))._repr_html_(),
    "a saved view": lambda folder: page.View(EVIL, EVIL, html.escape(EVIL)).save(folder / "a.html").read_text(),
    "a message": lambda folder: repr(messages.Shown(EVIL)),
    "a message's page": lambda folder: messages.Shown(EVIL)._repr_html_(),
    "a diagnosis": lambda folder: str(a_diagnosis()),
    "a chart": lambda folder: repr(bars([Bar(EVIL, 1.0), Bar("b", 2.0)], unit="s", say=str)),
    "a chart's page": lambda folder: bars([Bar(EVIL, 1.0), Bar("b", 2.0)], unit="s", say=str)._repr_html_(),
    "the doctor": lambda folder: repr(a_report()),
    "the doctor's page": lambda folder: a_report()._repr_html_(),
    "an error": lambda folder: str(UsageError(EVIL)),
    "an error in a notebook": lambda folder: "".join(DataError(EVIL)._render_traceback_()).replace("\x1b[31m", "", 1)
    .replace("\x1b[0m", "", 1),
}


@pytest.mark.parametrize("what", SHOW)
def test_nothing_unseen_leaves(what, tmp_path):
    text = SHOW[what](tmp_path)
    assert r"\x1b[2J" in text and r"\xe9" in text
    assert not UNSEEN.search(text)
    if "page" in what:
        assert "<b>" not in text


def test_one_line_for_a_reason(tmp_path):
    assert len(repr(a_job(tmp_path)).splitlines()) == 5, "job, reason, command, share, folder"


@pytest.mark.parametrize("write", [say, failures.say, lambda *words: folders.say_skipped(*words, ValueError(EVIL))])
def test_nothing_unseen_is_printed(capsys, write):
    write(EVIL)
    out = "".join(capsys.readouterr())
    assert r"\x1b[2J" in out and out.endswith("\n") and not UNSEEN.search(out)


def test_arguments_are_refused_in_clean_words(capsys):
    with pytest.raises(SystemExit):
        Parser(prog="x").parse_args([EVIL])
    assert not UNSEEN.search(capsys.readouterr().err)


def test_letters_that_a_terminal_has_not():
    raw = io.BytesIO()
    terminal = io.TextIOWrapper(raw, "ascii", write_through=True)
    say("naïve", file=terminal)
    assert raw.getvalue() == b"na?ve\n"


OWN = ("reference", "benchmarks")  # what trainees edit; what authors run


def functions():
    for file in sorted(PACKAGE.rglob("*.py")):
        if not set(file.relative_to(PACKAGE).parts) & {*OWN, "wrong", "right"} and file.name != "answers.py":
            text = file.read_text(encoding="utf-8")
            yield file.relative_to(PACKAGE), text, ast.parse(text)


def test_one_place_prints():
    """Whatever prints calls `say`: this is where text of others is cleaned."""
    found = {(str(file), node.lineno) for file, _, tree in functions() for node in ast.walk(tree) if isinstance(node, ast.Call)
             and isinstance(node.func, ast.Name) and node.func.id == "print"}
    assert {file for file, _ in found} == {"system/shown.py"}, found


def test_names_that_look_the_same_are_told_apart():
    assert apart(["caf\u00e9", "cafe\u0301", "cat"]) == [r"caf\xe9", r"cafe\u0301", "cat"]
    assert apart(["café", "cat", "cat"]) == ["café", "cat", "cat"]


def test_classes_that_look_the_same(tmp_path):
    for split, name in (("train", "caf\u00e9"), ("val", "cafe\u0301")):
        (tmp_path / split / name).mkdir(parents=True)
    with pytest.raises(UsageError, match=r"\(cafe\\u0301 only in val/, caf\\xe9 only in train/\)"):
        folders.dataset(tmp_path, "train", 8)


@pytest.mark.parametrize("path", [5, None, 1.5, b"x", ["x"], "a\0b", "\ud800", "x" * 5000, "~nobody-is-called-so/x"])
def test_what_is_no_path(path):
    with pytest.raises(UsageError, match=r"is no path( \(.*\))?: give one such as 'runs/amp-001'"):
        paths.given(path)


def test_a_run_under_a_name_that_is_no_utf8(tmp_path):
    """A script's own last words, through the interpreter's own streams."""
    script = tmp_path / "train.py"
    script.write_text("import sys\nfrom dlojz import failures\nfrom dlojz.system.errors import UsageError\n"
                      "with failures.reported() as (procs, record):\n"
                      "    record.open(__import__('pathlib').Path(sys.argv[1]))\n"
                      "    record.write('start', args={'data': sys.argv[2]})\n"
                      "    raise UsageError(f'{sys.argv[2]} is not there')\n")
    done = subprocess.run([sys.executable, script, tmp_path, b"/data/caf\xe9"], capture_output=True, timeout=120, check=False)
    assert done.returncode == 2 and done.stderr == b"train.py: /data/caf\\xe9 is not there\n"
    read = dlojz.records.read(tmp_path)
    assert read.start["args"]["data"] == "/data/caf\udce9" and read.errors[0]["message"] == r"/data/caf\xe9 is not there"


def test_a_table_of_jobs_keeps_its_columns(tmp_path):
    lines = jobs_job.table([a_job(tmp_path)]).splitlines()
    assert len(lines) == 2 and "FAILED" in lines[1]
