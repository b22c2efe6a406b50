"""Both ends of a process, and where its files are: signals that come while Python closes, supervisors, links, folders."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from patience import LIMIT

from dlojz.jobs import jobs, submit
from dlojz.jobs.queue import Entry, Queue, default_folder
from dlojz.system import paths, processes

CLOSES_SLOWLY = """
import sys, time
from dlojz.training import failures
class Slow:
    def __del__(self, sleep=time.sleep):
        print("closing", flush=True)
        sleep(1)
slow = Slow()
with failures.reported() as (procs, record):
    failures.catch_signals()
    {end}
"""


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
@pytest.mark.parametrize("end, code", [("sys.exit(0)", 0), ("sys.exit(failures.RESUME)", 75), ("pass", 0)])
def test_a_signal_while_python_closes_changes_no_exit_code(tmp_path, end, code, number):
    child = subprocess.Popen([sys.executable, "-c", CLOSES_SLOWLY.format(end=end)], cwd=tmp_path, text=True,
                             stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(paths.PACKAGE.parent),
                                                          "DLOJZ_RUN": str(tmp_path)})
    try:
        assert child.stdout.readline() == "closing\n"
        child.send_signal(number)
        assert child.wait(LIMIT) == code
    finally:
        child.kill()
        child.communicate()


def test_one_client_that_asks_and_asks_starts_one_supervisor(ws, monkeypatch):
    started, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: (started.append(words), run(*words, **options))[1])
    job = submit("slow.py", name="a")
    for _ in range(30):
        job.refresh()
    assert len([words for words in started if "dlojz.jobs.supervisor" in str(words)]) == 1
    job.cancel()
    job.wait(LIMIT)


def test_a_stopped_supervisor_is_noticed_and_goes_on_when_it_is_let(ws, wait_until, capsys):
    submit("slow.py", name="a")
    job = submit("quick.py", name="b")
    pid = json.loads(wait_until(lambda: (ws.queue_folder / "supervisor").read_bytes()))["pid"]
    try:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: processes.stopped(pid))
        assert job.reason == (f"the queue's supervisor, process {pid}, is stopped: let it continue (kill -CONT {pid}) or kill it "
                              f"(kill -9 {pid}), then another takes over")
        with pytest.raises(TimeoutError, match=r"still running after 0\.5 s"):
            job.wait(0.5)  # as in a terminal
        assert capsys.readouterr().err == f"dlojz: b-001 is PENDING: {job.reason}\n"
    finally:
        os.kill(pid, signal.SIGCONT)
    assert job.reason in ("waiting for its turn", "next to run", "")
    jobs["a"].cancel()
    assert job.wait(LIMIT).state == "COMPLETED"


ORPHANS = """
import os, subprocess, sys
quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(["setsid", "sleep", "600"], env={}, **quiet).pid, flush=True)
if not os.fork():  # a daemon: its parents end, and it has a session of its own
    os.setsid()
    if not os.fork():
        print(os.getpid(), flush=True)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    os._exit(0)
if sys.argv[1:]:
    import signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a system call of Linux")
@pytest.mark.parametrize("cancelled", [False, True])
def test_what_a_job_leaves_behind_without_its_environment_is_ended(ws, wait_until, cancelled):
    ws.script("orphans.py", ORPHANS)
    job = submit(f"orphans.py{' stay' * cancelled}", name="a")
    log = job.folder / "out.log"
    wait_until(lambda: log.exists() and log.read_text().count("\n") == 2)
    pids = log.read_text().split()
    if cancelled:
        assert all(os.path.exists(f"/proc/{pid}") for pid in pids)
        job.cancel()
    job.wait(LIMIT)
    assert job.state == ("CANCELLED" if cancelled else "COMPLETED")
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))  # neither a zombie is left


def test_no_environment_of_a_job_is_left_behind(ws):
    queue = Queue(ws.queue_folder)
    queue.make()
    queue.environment_file("7").write_text("{}")  # whoever added it was killed before the job itself was written
    (queue.jobs / ".8.json.123.456").write_text("{")
    with queue.locked():
        queue.add([Entry("", str(ws.folder), 0.0, 60)], {})
        assert sorted(os.listdir(queue.jobs)) == ["1.env", "1.json"]
        queue.remove("1")
    assert os.listdir(queue.jobs) == []


def test_runs_may_be_a_link_to_another_disk(ws, tmp_path):
    (ws.folder / "runs").symlink_to(tmp_path / "scratch" / "mine" / "runs")
    ws.script("writes.py", "import os; print(os.getcwd()); open('here.txt', 'w').close()")
    job = submit("writes.py", name="a").wait(LIMIT)
    assert (job.state, job.log) == ("COMPLETED", f"{ws.folder}\n")
    assert (ws.folder / "here.txt").exists() and (tmp_path / "scratch" / "mine" / "runs" / "a-001" / "job.json").exists()
    assert submit("writes.py", name="a").found and jobs["a"].rerun().wait(LIMIT).state == "COMPLETED"


@pytest.mark.parametrize("value", ["relative", "", "./x", "../y"])
def test_a_relative_folder_of_xdg_is_ignored(tmp_path, monkeypatch, value):
    for name in ("DLOJZ_QUEUE", "DLOJZ_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", value)
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert default_folder("host") == tmp_path / ".local" / "state" / "dlojz" / "queue" / "host"
    assert paths.cache() == tmp_path / ".cache" / "dlojz"
    monkeypatch.setenv("HOME", "")
    assert default_folder("host").is_absolute() and paths.cache().is_absolute()
    monkeypatch.setenv("DLOJZ_CACHE", "mine")
    assert paths.cache().is_absolute()


def test_a_supervisor_that_has_hung_is_named(ws):
    queue = Queue(ws.queue_folder)
    queue.make()
    (queue.folder / "supervisor").write_text(json.dumps(processes.identity(os.getpid())))
    assert queue.trouble() == ""
    long_ago = time.time() - 3600
    os.utime(queue.folder / "supervisor", (long_ago, long_ago))
    assert f"process {os.getpid()}, has done nothing for 60 minutes" in queue.trouble()
    (queue.folder / "supervisor").write_text("[]")
    assert queue.trouble() == ""
