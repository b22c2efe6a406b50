"""A view of a run that goes on: what there is at once, the rest when it has ended; and it waits where no page looks."""

import json
import threading
import time
from types import SimpleNamespace

import pytest
import runs_by_hand as by_hand
from patience import LIMIT

from dlojz import views
from dlojz.jobs import job as job_module
from dlojz.jobs.states import Status
from dlojz.views import filling

pytest.importorskip("IPython")


@pytest.fixture
def going(tmp_path, monkeypatch):
    """A job with 3 steps so far: ``going.job``; ``going.ends()`` does the others."""
    said = {"status": Status("RUNNING", started=1.0)}
    queue = SimpleNamespace(poll=lambda jobs: {job.id: said["status"] for job in jobs})
    monkeypatch.setattr(job_module, "launcher", lambda name: queue)
    job = by_hand.job(tmp_path / "runs" / "amp-001", [by_hand.start(), *by_hand.steps(last=3)], "RUNNING")

    def ends():
        with open(job.folder / "record.jsonl", "a") as record:
            record.writelines(json.dumps(event) + "\n" for event in [*by_hand.steps(first=4), by_hand.end()])
        said["status"] = Status("COMPLETED", "", 0, 1.0, 6.0)

    return SimpleNamespace(job=job, ends=ends)


@pytest.fixture
def shown(monkeypatch):
    """What is displayed, and what takes its place."""
    found = []

    def display(thing, display_id=None):
        found.append(thing)
        return SimpleNamespace(update=found.append)

    monkeypatch.setattr("IPython.display.display", display)
    return found


@pytest.fixture
def page(monkeypatch, shown):
    monkeypatch.setattr(filling, "plain_wanted", lambda: False)
    monkeypatch.setattr(filling, "EVERY", 0.02)
    return shown


def start(page, view):
    """Show it and return what is shown of it: the widgets' box, and its thread."""
    before = set(threading.enumerate())
    view._ipython_display_()
    return page[0], *(set(threading.enumerate()) - before)


@pytest.mark.parametrize("verb, begun, done", [
    (views.dashboard, "3 of 10 steps", "10 of 10 steps"), (views.timeline, "running: 3 of 10 steps", ">10 steps in"),
    (views.curves, "3 of 10 steps", ">10<"), (views.compare, "running", "comparison of 1 run"),
    (views.report, "3 of 10 steps", "10 of 10 steps")])
def test_a_view_fills_itself_without_blocking(going, page, verb, begun, done):
    view = verb(going.job)
    box, thread = start(page, view)
    line, body = box.children
    assert "amp-001" in line.value and "3 of 10 steps" in line.value and filling.FILLS in line.value
    assert begun in body.value
    going.ends()
    thread.join(LIMIT)
    assert line.value == "" and done.lower() in body.value.lower() and "running" not in body.value
    assert page[-1]._repr_html_() == body.value and page[-1].following is None


def test_what_there_is_so_far_is_drawn_again(going, page, monkeypatch):
    monkeypatch.setattr(filling, "PAUSE", 0.0)
    monkeypatch.setattr(filling, "SPARING", 0)
    box, thread = start(page, views.dashboard(going.job))
    with open(going.job.folder / "record.jsonl", "a") as record:
        record.writelines(json.dumps(event) + "\n" for event in by_hand.steps(first=4, last=5))
    end = time.monotonic() + LIMIT
    while "5 of 10 steps" not in box.children[1].value and time.monotonic() < end:
        time.sleep(0.01)
    assert "5 of 10 steps" in box.children[1].value
    going.ends()
    thread.join(LIMIT)


def test_the_run_that_it_is_compared_with_counts_too(going, page, tmp_path):
    ended = by_hand.job(tmp_path / "runs" / "new-001", by_hand.whole_steps(), "COMPLETED")
    assert views.dashboard(ended).following is None
    assert views.dashboard(ended, against=going.job).following.going == [going.job]
    assert views.dashboard(ended, going.job.folder).following.going[0].run == "amp-001"


def test_a_sorted_comparison_fills_itself_sorted(going, page, tmp_path):
    ended = by_hand.job(tmp_path / "runs" / "new-001", by_hand.whole_steps(), "COMPLETED")
    _, thread = start(page, views.compare(going.job, ended).sort("run", descending=True))
    going.ends()
    thread.join(LIMIT)
    assert [row["run"] for row in page[-1].rows] == ["new-001", "amp-001"]


def test_a_view_that_fails_at_the_end_says_so(going, page, monkeypatch):
    view = views.dashboard(going.job)
    monkeypatch.setattr(view, "following", filling.Following(view.following.going, lambda: 1 / 0))
    box, thread = start(page, view)
    going.ends()
    thread.join(LIMIT)
    assert "ZeroDivisionError" in box.children[0].value and "Run the cell again" in box.children[0].value


def test_where_no_page_looks_it_waits_and_shows_the_end(going, shown, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: going.ends())
    view = views.dashboard(going.job)
    assert "running: 3 of 10 steps" in repr(view)
    view._ipython_display_()
    assert len(shown) == 1 and "completed: 10 of 10 steps" in repr(shown[0])


def test_a_view_of_runs_that_have_ended_is_shown_as_ever(tmp_path):
    from IPython.core.formatters import DisplayFormatter

    ended = by_hand.job(tmp_path / "runs" / "new-001", by_hand.whole_steps(), "COMPLETED")
    bundle, _ = DisplayFormatter().format(views.dashboard(ended))
    assert "new-001" in bundle["text/html"] and "completed" in bundle["text/plain"]
