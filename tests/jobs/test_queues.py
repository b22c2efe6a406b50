"""A job is judged only by the queue that it was given to, whatever the settings of whoever looks."""

import contextlib
import dataclasses
import os
import subprocess
import sys
import time

import pytest
from patience import LIMIT

from dlojz import jobs, submit
from dlojz.jobs.queue import Entry, Queue, default_folder, lock
from dlojz.jobs.states import Request, Status, judged, read_json, write_json
from dlojz.jobs.supervisor import Supervisor
from dlojz.system import processes
from dlojz.system.errors import UsageError


@pytest.fixture
def given(ws, tmp_path):
    """Makes a run and, with ``state``, its entry in the queue in ``queue``; a lock says that the queue's supervisor lives."""
    with contextlib.ExitStack() as stack:

        def make(name: str = "a-001", state: str = "", queue: str = "given", noted: bool = True, number: str = "1", **entry):
            there, folder = Queue(tmp_path / queue), ws.folder / "runs" / name
            folder.mkdir(parents=True)
            content = {"id": number, "launcher": "local", "submitted": time.time(), "host": default_folder().name,
                       "request": dataclasses.asdict(Request(name[:-4], ("quick.py",), "laptop"))}
            write_json(folder / "job.json", content | ({"queue": str(there.folder)} if noted else {}))
            if state:
                there.make()
                there.write(Entry(number, str(folder), time.time(), 60, state=state, **entry))
                handle = os.open(there.folder / "supervisor", os.O_RDWR | os.O_CREAT, 0o600)
                stack.callback(os.close, handle)
                assert lock(handle)
            return folder

        yield make


@pytest.fixture(params=["DLOJZ_QUEUE", "XDG_STATE_HOME", "HOME"])
def other_setting(request, monkeypatch, tmp_path):
    for name in ("DLOJZ_QUEUE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(request.param, str(tmp_path / "other"))


def seen(name: str) -> tuple[str, str]:
    job = jobs[name]
    return job.status.state, job.status.reason


def test_a_live_job_looked_at_with_another_setting(ws, wait_until, monkeypatch, tmp_path):
    running, waiting = submit("slow.py", name="a"), submit("quick.py", name="b")
    assert read_json(running.folder)["queue"] == str(ws.queue_folder)
    wait_until(lambda: running.state == "RUNNING")
    with monkeypatch.context() as there:
        there.setenv("DLOJZ_QUEUE", str(tmp_path / "other"))
        assert [job.state for job in jobs] == ["RUNNING", "PENDING"] and jobs["b"].status.position == 1
        assert not (tmp_path / "other").exists() and "status" not in read_json(running.folder)
        assert ws.shell("cancel", "a").stdout == "a-001: is being cancelled\n"
    assert (running.wait(LIMIT).state, waiting.wait(LIMIT).state) == ("CANCELLED", "COMPLETED")


def test_each_state_is_the_given_queues(given, other_setting):
    given("a-001", "RUNNING", started=5.0, process=processes.identity(os.getpid()))
    given("b-001", "PENDING", queue="second")
    given("c-001", "ENDED", queue="third", status=dataclasses.asdict(Status("TIMEOUT", "time limit", 143)))
    assert [job.state for job in jobs] == ["RUNNING", "PENDING", "TIMEOUT"], "all have the number 1, each in its own queue"
    assert jobs["b"].status.position == 1 and jobs["a"].status.started == 5.0
    jobs["b"].cancel()
    queue = [Queue(jobs[name].folder.parents[2] / place) for name, place in (("a", "given"), ("b", "second"))]
    assert [there.read("1").cancelled for there in queue] == [False, True]


def test_a_queue_that_is_not_here(given, other_setting, tmp_path):
    folder = given()
    before = (folder / "job.json").read_bytes()
    job = jobs["a"]
    reason = f"unknown here: it was given to the queue in {tmp_path / 'given'} (No such file or directory)"
    assert [seen("a"), seen("a")] == [("UNKNOWN", reason)] * 2
    with pytest.raises(UsageError, match=r"a-001 cannot be cancelled, unknown here: .*given.*Cancel it where you submitted it"):
        job.cancel()
    assert (folder / "job.json").read_bytes() == before and not (tmp_path / "other").exists()
    there = Queue(tmp_path / "given")
    there.make()
    there.write(Entry("1", str(folder), 0.0, 60, state="ENDED", status=dataclasses.asdict(Status("COMPLETED", "", 0))))
    handle = os.open(there.folder / "supervisor", os.O_RDWR | os.O_CREAT)
    assert lock(handle)
    assert job.state == "COMPLETED", "the same handle asks again"
    os.close(handle)


def test_another_users_queue(given, other_setting, monkeypatch):
    folder = given(state="PENDING")
    before, mine = (folder / "job.json").read_bytes(), os.geteuid()
    with monkeypatch.context() as there:
        there.setattr(os, "geteuid", lambda: mine + 1)
        state, reason = seen("a")
        assert state == "UNKNOWN" and reason.startswith("unknown here: ") and reason.endswith("(it belongs to another user)")
    assert (folder / "job.json").read_bytes() == before and seen("a")[0] == "PENDING"


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("code, state", [("0\n", "COMPLETED"), ("3\n", "FAILED"), ("", "UNKNOWN")])
def test_without_its_queue_an_exit_code_tells_and_its_absence_does_not(given, noted, code, state):
    folder = given(noted=noted)
    (folder / "exit_code").write_text(code)
    assert seen("a")[0] == state
    assert read_json(folder).get("status", {}).get("exit_code") == (int(code) if code else None)
    assert ("status" in read_json(folder)) == bool(code)


@pytest.mark.parametrize("noted", [True, False])
def test_without_its_queue_a_job_whose_process_lives_runs(given, noted):
    folder = given(noted=noted)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                               env={**os.environ, "DLOJZ_RUN": str(folder)})
    try:
        assert seen("a")[0] == "RUNNING" and "status" not in read_json(folder)
        with pytest.raises(UsageError, match="cannot be cancelled"):
            jobs["a"].cancel()
    finally:
        process.communicate(b"\n", timeout=LIMIT)
    assert seen("a")[0] == "UNKNOWN"


def test_the_job_of_an_earlier_version_in_todays_queue(ws, given):
    folder = given(queue=f"queue/{ws.queue_folder.name}", state="PENDING", noted=False)
    assert seen("a") == ("PENDING", "next to run")
    ws.queue.remove("1")
    assert seen("a") == ("UNKNOWN", f"unknown here: it is not in the queue in {ws.queue_folder}, and its job.json, written by "
                                    "an earlier version of dlojz, names no other")
    assert "status" not in read_json(folder)


def test_a_job_that_its_queue_has_lost_is_still_known_to_be_dead(given):
    given("b-001", "PENDING", number="2")
    folder = given("a-001")
    assert seen("a")[0] == "FAILED" == read_json(folder)["status"]["state"]


@pytest.mark.parametrize("status, left, state, code", [
    (judged(None, 5.0), "0\n", "COMPLETED", 0), (judged(None), "3\n", "FAILED", 3), (judged(None), "", "FAILED", None),
    (Status("FAILED", "exit code 3", 3), "0\n", "FAILED", 3), (Status("CANCELLED", "cancelled"), "0\n", "CANCELLED", None),
])
def test_who_was_taken_for_dead_and_left_an_exit_code_is_judged_by_it(given, status, left, state, code):
    folder = given()
    write_json(folder / "job.json", read_json(folder) | {"status": dataclasses.asdict(status)})
    (folder / "exit_code").write_text(left)
    job = jobs["a"]
    assert (job.state, job.exit_code, job.status.started) == (state, code, status.started)


def test_an_interrupted_submission_is_looked_for_in_the_queue_it_was_meant_for(given, other_setting):
    folder = given(state="PENDING", number="7")
    write_json(folder / "job.json", read_json(folder) | {"id": ""})
    assert (jobs["a"].id, seen("a")[0]) == ("7", "PENDING")


@pytest.mark.parametrize("own, limit, threads", [({}, 1, "1"), ({"OMP_NUM_THREADS": "2"}, 1, "2"), ({}, None, None)])
def test_a_job_under_a_limit_of_cores_has_no_more_threads(own, limit, threads, tmp_path, monkeypatch):
    """As under a hub's limit of one core: torch would start a thread for each of the machine's, and they wait for each other."""
    queue, seen = Queue(tmp_path / "queue"), {}
    queue.make()
    entry = Entry("", str(tmp_path), time.time(), 60)
    queue.add([entry], {"PATH": os.environ["PATH"], **own})

    def start(words, env, **rest):
        seen.update(env)
        raise OSError("enough")

    supervisor = Supervisor(queue, say=lambda *words: None, limit=lambda: limit)
    monkeypatch.setattr(supervisor, "_finish", lambda *ended: None)
    monkeypatch.setattr(subprocess, "Popen", start)
    supervisor._start(entry, [])
    assert seen["DLOJZ_RUN"] == str(tmp_path) and seen.get("OMP_NUM_THREADS") == threads
