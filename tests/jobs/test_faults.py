"""What may go wrong on one machine, one test each. Nothing is lost, nothing runs twice, every state is the right one."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from patience import LIMIT, patient

from dlojz import jobs, submit
from dlojz.jobs import job as job_module
from dlojz.jobs import local, queue, states, submission
from dlojz.jobs.queue import Entry
from dlojz.jobs.states import read_json, write_json
from dlojz.jobs.supervisor import Supervisor
from dlojz.system import locks, processes
from dlojz.system.errors import UsageError


def pid_of(job, name: str = "pid") -> int:
    """The pid that a job's script wrote down."""
    file = job.folder / name
    end = time.monotonic() + LIMIT
    while True:
        with contextlib.suppress(OSError, ValueError):
            return int(file.read_text())
        assert time.monotonic() < end
        time.sleep(0.02)


def gone(pid: int) -> bool:
    return processes.identity(pid) is None


@pytest.fixture
def sleeper(ws):
    """A script that says its pid and waits for a file ``go``."""
    return ws.script("sleeper.py", """
        import os, sys, time
        run = os.environ["DLOJZ_RUN"]
        with open(run + "/starts", "a") as file: file.write("x")
        with open(run + "/.pid", "w") as file: file.write(str(os.getpid()))
        os.rename(run + "/.pid", run + "/pid")
        while not os.path.exists("go"): time.sleep(0.02)
        sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
        """)


# --- the notebook's kernel is killed -------------------------------------------------------------------------------------


def test_kernel_killed_while_its_job_runs(ws, sleeper, wait_until):
    kernel = ws.python("""
        import time
        from dlojz import submit
        submit("sleeper.py", name="s")
        print("ok", flush=True)
        time.sleep(60)
        """)
    assert kernel.stdout.readline() == "ok\n"
    pid_of(jobs["s"])
    kernel.kill()
    kernel.wait()
    assert jobs["s"].state == "RUNNING"
    (ws.folder / "go").touch()
    assert jobs["s"].wait(LIMIT).state == "COMPLETED"


@pytest.mark.parametrize("moment, how", [
    ("after mkdir", "s._text_facts = lambda *a, **k: os.kill(os.getpid(), 9)"),
    ("after job.json", "local.submit = lambda *a: os.kill(os.getpid(), 9)"),
])
def test_kernel_killed_before_the_job_reached_the_queue(ws, moment, how):
    kernel = ws.python(f"""
        import os
        from dlojz import submit
        from dlojz.jobs import local, submission as s
        {how}
        submit("quick.py", name="q")
        """)
    assert kernel.wait(LIMIT) == -signal.SIGKILL
    assert (ws.folder / "runs/q-001").is_dir()
    if moment == "after job.json":
        assert (jobs["q"].state, jobs["q"].reason) == ("CANCELLED", job_module.NEVER_QUEUED)
    else:
        assert len(jobs) == 0
    job = submit("quick.py", name="q")  # the same again: it has never run, so it runs now
    assert (job.found, job.run) == (False, "q-002")
    assert job.wait(LIMIT).state == "COMPLETED"


def test_kernel_killed_before_it_noted_the_jobs_id(ws):
    kernel = ws.python("""
        import os
        from dlojz import submit
        from dlojz.jobs import submission
        submission.update = lambda *a, **k: os.kill(os.getpid(), 9)
        submit("slow.py", name="q")
        """)
    assert kernel.wait(LIMIT) == -signal.SIGKILL
    again = submit("slow.py", name="q")
    assert (again.found, again.run, again.id) == (True, "q-001", "1")
    assert read_json(again.folder)["id"] == "1"
    assert ws.queue.ids() == ["1"]


# --- the supervisor is killed --------------------------------------------------------------------------------------------


def test_supervisor_killed_while_a_job_runs(ws, sleeper, wait_until):
    job = submit("sleeper.py")
    pid_of(job)
    ws.kill_supervisor()
    assert job.state == "RUNNING"  # whoever looks starts another one
    wait_until(ws.queue.supervised)
    (ws.folder / "go").touch()
    job.wait(LIMIT)
    assert (job.state, job.exit_code, (job.folder / "starts").read_text()) == ("COMPLETED", 0, "x")


@pytest.mark.parametrize("code, state", [(0, "COMPLETED"), (7, "FAILED")])
def test_supervisor_killed_and_the_job_ends_unseen(ws, sleeper, wait_until, code, state):
    job = submit(f"sleeper.py {code}")
    pid_of(job)
    ws.kill_supervisor()
    (ws.folder / "go").touch()
    wait_until(lambda: (job.folder / "exit_code").exists())
    wait_until(lambda: not ws.mine())
    time.sleep(0.3)
    job.refresh()
    assert (job.status.state, job.status.exit_code) == (state, code)  # at the first look
    assert time.time() - job.status.ended < 10 and job.status.ended < time.time() - 0.2  # when it ended, not when we looked


def test_supervisor_killed_and_then_the_job(ws, sleeper, wait_until):
    job = submit("sleeper.py")
    pid_of(job)
    ws.kill_supervisor()
    processes.send(ws.mine(), signal.SIGKILL)
    wait_until(lambda: not ws.mine())
    assert job.state == "FAILED"
    assert "no exit code" in job.reason and job.exit_code is None


def test_supervisor_killed_with_jobs_waiting(ws, sleeper):
    running, waiting = submit("sleeper.py", name="a"), submit("quick.py", name="b")
    pid_of(running)
    ws.kill_supervisor()
    assert (running.state, waiting.state) == ("RUNNING", "PENDING")
    (ws.folder / "go").touch()
    assert waiting.wait(LIMIT).state == "COMPLETED" and running.state == "COMPLETED"
    assert (running.folder / "starts").read_text() == "x"


def test_supervisor_killed_again_and_again(ws, wait_until):
    ws.script("adds.py", "import sys; open('ran', 'a').write(sys.argv[1] + ' ')")
    group = submit([f"adds.py {number}" for number in range(12)], name="many")
    for _ in range(6):
        processes.send(ws.supervisors(), signal.SIGKILL)
        time.sleep(0.15)
        group.states  # noqa: B018 - looking is what brings the next supervisor
    group.wait(LIMIT)
    assert sorted(int(number) for number in (ws.folder / "ran").read_text().split()) == list(range(12))
    assert [job.exit_code for job in group] == [0] * 12


def halted(ws, job, **changes) -> Entry:
    """The queue as a killed supervisor left it: its file of this job, changed."""
    ws.kill_supervisor()
    entry = dataclasses.replace(ws.queue.read(job.id), **changes)
    ws.queue.write(entry)
    return entry


def test_supervisor_killed_right_after_it_started_a_job(ws, sleeper):
    job = submit("sleeper.py")
    pid_of(job)
    halted(ws, job, state="STARTING", process=None)
    assert job.state == "RUNNING"
    (ws.folder / "go").touch()
    assert job.wait(LIMIT).state == "COMPLETED"
    assert (job.folder / "starts").read_text() == "x"  # not started twice


def test_supervisor_killed_right_before_it_started_a_job(ws, sleeper):
    blocker, job = submit("sleeper.py", name="a"), submit("sleeper.py 4", name="b")
    pid_of(blocker)
    halted(ws, job, state="STARTING", began=1.0, started=1.0)
    (ws.folder / "go").touch()
    job.wait(LIMIT)
    assert (job.state, job.exit_code, (job.folder / "starts").read_text()) == ("FAILED", 4, "x")


def test_supervisor_killed_and_the_time_limit_passes(ws, sleeper, wait_until):
    job = submit("sleeper.py", time="0:02")
    pid = pid_of(job)
    ws.kill_supervisor()
    time.sleep(2.1)
    assert not gone(pid)
    job.wait(LIMIT)
    assert job.state == "TIMEOUT" and gone(pid)


def test_two_supervisors(ws, sleeper):
    job = submit("sleeper.py")
    pid_of(job)
    others = [subprocess.Popen([sys.executable, "-m", "dlojz.jobs.supervisor", str(ws.queue_folder)]) for _ in range(3)]
    assert [other.wait(LIMIT) for other in others] == [0, 0, 0]  # they see that there is one, and go
    assert len(ws.supervisors()) == 1 and (job.folder / "starts").read_text() == "x"


def test_the_supervisor_goes_when_nothing_is_left(ws, wait_until):
    submit("quick.py").wait(LIMIT)
    wait_until(lambda: not ws.supervisors(), timeout=LIMIT)
    assert not ws.queue.supervised() and ws.queue.ids() == []


# --- the job is killed, or will not end ----------------------------------------------------------------------------------


def test_job_killed(ws, sleeper):
    job = submit("sleeper.py")
    os.kill(pid_of(job), signal.SIGKILL)
    job.wait(LIMIT)
    assert (job.state, job.exit_code) == ("FAILED", 137)
    assert "SIGKILL" in job.reason or "Killed" in job.reason


def test_job_script_killed_and_the_program_lives_on(ws, sleeper):
    job = submit("sleeper.py")
    pid = pid_of(job)
    os.kill(local.Queue().read(job.id).process["pid"], signal.SIGKILL)
    job.wait(LIMIT)
    assert (job.state, job.exit_code) == ("FAILED", 137)
    assert gone(pid)  # no process of an ended job is left


def test_a_job_that_ignores_sigterm(ws, sleeper):
    ws.script("deaf.py", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); exec(open('sleeper.py').read())")
    job = submit("deaf.py")
    pid = pid_of(job)
    before = time.monotonic()
    job.cancel()
    job.wait(LIMIT)
    assert (job.state, gone(pid)) == ("CANCELLED", True)
    assert 0.8 < time.monotonic() - before < patient(6)  # it had its second to save (DLOJZ_GRACE)


FLEES = """
    import os, signal, subprocess, sys, time
    code = '''
    import os, signal, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork(): os._exit(0)
    os.setsid()
    if os.fork(): os._exit(0)
    run = os.environ["DLOJZ_RUN"]
    with open(run + "/.child", "w") as file: file.write(str(os.getpid()))
    os.rename(run + "/.child", run + "/child")
    time.sleep(100)
    '''
    subprocess.Popen([sys.executable, "-c", code.replace("\\n    ", "\\n")])
    while not os.path.exists(os.environ["DLOJZ_RUN"] + "/child"): time.sleep(0.02)
    """


def test_cancel_reaches_processes_that_left_session_and_parents(ws):
    ws.script("flees.py", FLEES + "time.sleep(100)")
    job = submit("flees.py")
    child = pid_of(job, "child")
    job.cancel()
    job.wait(LIMIT)
    assert job.state == "CANCELLED" and gone(child)


def test_what_an_ended_job_left_running_is_ended(ws):
    ws.script("flees.py", FLEES)
    job = submit("flees.py").wait(LIMIT)
    assert job.state == "COMPLETED" and gone(pid_of(job, "child"))


def test_the_warning_before_the_time_limit_kills_nobody(ws, sleeper):
    """USR1 ends a program that does not know it; job.sh starts programs that are deaf to it until they say otherwise."""
    ws.script("knows.py", """
        import os, signal, sys
        def save(number, frame):
            print("saved", flush=True)
            sys.exit(75)
        signal.signal(signal.SIGUSR1, save)
        exec(open("sleeper.py").read())
        """)
    knows, ignorant = submit("knows.py", time=5), None
    pid_of(knows)
    ws.kill_supervisor()
    moments = Supervisor(ws.queue, clock=lambda: time.monotonic() + 5 * 60 - 30)
    moments.settle_all()
    knows.wait(LIMIT)
    assert (knows.exit_code, knows.log, knows.state) == (75, "saved\n", "FAILED")
    assert "saving a checkpoint" in knows.reason
    ignorant = submit("sleeper.py", time=5)
    pid_of(ignorant)
    ws.kill_supervisor()
    Supervisor(ws.queue, clock=moments.clock).settle_all()
    time.sleep(0.3)
    assert ignorant.state == "RUNNING"


# --- the machine -----------------------------------------------------------------------------------------------------------


def innocent() -> subprocess.Popen:
    return subprocess.Popen(["sleep", "60"])


def test_the_pid_belongs_to_somebody_else_by_now(ws, sleeper, wait_until):
    job = submit("sleeper.py")
    pid_of(job)
    other = innocent()
    try:
        process = {**ws.queue.read(job.id).process, "pid": other.pid}
        halted(ws, job, process=process)
        assert job.state == "FAILED"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_machine_restarted(ws, sleeper):
    job, waiting = submit("sleeper.py", name="a"), submit("quick.py", name="b")
    pid_of(job)
    other = innocent()
    try:
        # after a restart the pid is somebody else's, and even the start time may agree
        process = {**processes.identity(other.pid), "boot": "the one before"}
        entry = halted(ws, job, process=process)
        processes.send(processes.marked(f"{queue.MARK}={entry.mark}"), signal.SIGKILL)
        job.refresh()
        assert (job.status.state, job.status.reason) == ("NODE_FAIL", "the machine was restarted while the job ran")
        assert other.poll() is None
        assert waiting.wait(LIMIT).state == "COMPLETED"  # what had waited goes on waiting, and then runs
    finally:
        other.kill()
        other.wait()


def test_a_job_of_another_host_that_shares_the_home(ws, sleeper, monkeypatch):
    job = submit("sleeper.py")
    pid = pid_of(job)
    assert job.state == "RUNNING"
    with monkeypatch.context() as there:
        there.setattr(socket, "gethostname", lambda: "another-host")
        assert (job.state, job.reason) == ("RUNNING", f"on {ws.queue_folder.name}")
        with pytest.raises(UsageError, match="cancel it there"):
            job.cancel()
        mine = submit("quick.py").wait(LIMIT)  # this host has a queue of its own, with the same numbers
        assert (mine.state, mine.id, job.id) == ("COMPLETED", "1", "1")
        assert job.state == "RUNNING" and not gone(pid)
        ws.kill_supervisor()
        long_ago = time.time() - 3600
        os.utime(ws.queue_folder / "supervisor", (long_ago, long_ago))
        assert job.state == "NODE_FAIL" and "not responded for 60 minutes" in job.reason


def test_clock_set_back(ws, sleeper, monkeypatch):
    job = submit("sleeper.py", time="0:02")
    pid_of(job)
    halted(ws, job, started=time.time() + 3600)  # it seems to have started in the future
    assert job.elapsed == 0 and "0:00:00" in repr(job)
    job.wait(LIMIT)
    assert job.state == "TIMEOUT"  # two seconds are two seconds
    assert 1.9 < job.elapsed < patient(6)


# --- files -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", "{", '{"id": "1"', "[]", "null", '{"request": {"nonsense": 1}}', "\0" * 100])
def test_job_json_damaged(ws, content):
    job = submit("quick.py", name="a").wait(LIMIT)
    (job.folder / "job.json").write_text(content)
    other = submit("quick.py --other", name="b").wait(LIMIT)
    assert {each.run: each.state for each in jobs} == {"a-001": "UNKNOWN", "b-001": "COMPLETED"}
    assert "damaged" in jobs["a-001"].reason and "UNKNOWN" in repr(jobs) and jobs["a-001"].log == "hello\n"
    assert other.state == "COMPLETED"
    assert submit("quick.py", name="a").run == "a-002"


def test_run_folder_deleted_while_it_runs(ws, sleeper, wait_until):
    job = submit("sleeper.py")
    pid = pid_of(job)
    shutil.rmtree(job.folder)
    assert (job.state, job.reason) == ("UNKNOWN", "its folder was deleted")
    wait_until(lambda: gone(pid))  # nobody could see or cancel it any more
    assert len(jobs) == 0 and submit("quick.py").wait(LIMIT).state == "COMPLETED"


def test_run_folder_deleted_while_it_waits(ws, sleeper, wait_until):
    running, waiting = submit("sleeper.py", name="a"), submit("sleeper.py", name="b")
    pid_of(running)
    shutil.rmtree(waiting.folder)
    (ws.folder / "go").touch()
    running.wait(LIMIT)
    wait_until(lambda: ws.queue.ids() == [])
    assert not waiting.folder.exists() and waiting.state == "UNKNOWN"


def test_runs_deleted(ws):
    submit("quick.py").wait(LIMIT)
    shutil.rmtree(ws.folder / "runs")
    assert len(jobs) == 0 and repr(jobs).startswith("no jobs")
    assert submit("quick.py").wait(LIMIT).run == "quick-001"


def test_workspace_moved_while_a_job_runs(ws, sleeper, monkeypatch):
    job = submit("sleeper.py", name="m")
    pid = pid_of(job)
    moved = ws.folder.with_name("moved")
    ws.folder.rename(moved)
    monkeypatch.chdir(moved)
    time.sleep(0.3)
    assert jobs["m"].state == "RUNNING" and not gone(pid)
    (moved / "go").touch()
    jobs["m"].wait(LIMIT)
    assert (jobs["m"].state, jobs["m"].exit_code) in [("COMPLETED", 0), ("FAILED", None)]


def deleted(folder: Path) -> bool:
    """Not at once where the supervisor is just writing to it."""
    with contextlib.suppress(OSError):
        shutil.rmtree(folder)
        return True
    return False


def test_queue_deleted_while_a_job_runs(ws, sleeper, wait_until):
    job = submit("sleeper.py")
    pid = pid_of(job)
    wait_until(lambda: deleted(ws.queue_folder))
    assert job.state == "RUNNING"
    (ws.folder / "go").touch()
    job.wait(LIMIT)
    assert (job.state, job.exit_code) == ("COMPLETED", 0) and gone(pid)


@pytest.mark.parametrize("place", ["a-file", "a-file/below"])
def test_queue_folder_cannot_be_made(ws, tmp_path, monkeypatch, place):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("DLOJZ_QUEUE", str(tmp_path / place))
    with pytest.raises(UsageError, match=r"queue.*DLOJZ_QUEUE"):
        submit("quick.py")
    assert not list((ws.folder / "runs").iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_queue_folder_read_only(ws):
    ws.queue_folder.mkdir(parents=True)
    ws.queue_folder.chmod(0o500)
    with pytest.raises(UsageError, match="queue"):
        submit("quick.py")


def test_queue_file_damaged(ws, sleeper):
    job, other = submit("sleeper.py", name="a"), submit("quick.py", name="b")
    pid_of(job)
    ws.queue.file(other.id).write_text("{")
    (ws.folder / "go").touch()
    assert job.wait(LIMIT).state == "COMPLETED"
    other.refresh()
    assert other.status.state == "FAILED" and "no exit code" in other.status.reason
    ws.queue.file(other.id).unlink()


def test_job_script_deleted_before_it_ran(ws, sleeper):
    running, job = submit("sleeper.py", name="a"), submit("quick.py", name="b")
    pid_of(running)
    (job.folder / "job.sh").unlink()
    (ws.folder / "go").touch()
    job.wait(LIMIT)
    assert (job.state, job.exit_code) == ("FAILED", 127) and "job.sh" in job.reason


def test_environment_file_lost(ws, sleeper):
    running, job = submit("sleeper.py", name="a"), submit("quick.py", name="b")
    pid_of(running)
    ws.queue.environment_file(job.id).unlink()
    (ws.folder / "go").touch()
    job.wait(LIMIT)
    assert job.state == "FAILED" and "cannot start" in job.reason


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 kB that can be filled: a tmpfs, which only root can mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs root and the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    file = folder / "fill"
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as full:
        while True:
            full.write(bytes(4096))
    return file


def on_disk(ws, disk: Path, monkeypatch) -> Path:
    folder = disk / "ws"
    shutil.copytree(ws.folder, folder)
    monkeypatch.chdir(folder)
    return folder


def test_disk_full_when_submitting(ws, small_disk, monkeypatch):
    folder = on_disk(ws, small_disk, monkeypatch)
    filled = fill(small_disk)
    with pytest.raises(UsageError, match="No space left"):
        submit("quick.py")
    assert not list(folder.glob("runs/*")) and ws.queue.ids() == []
    filled.unlink()
    assert submit("quick.py").wait(LIMIT).state == "COMPLETED"


def test_disk_full_while_a_job_runs(ws, small_disk, sleeper, monkeypatch, wait_until):
    folder = on_disk(ws, small_disk, monkeypatch)
    job = submit("sleeper.py 5", name="full")
    pid_of(job)
    filled = fill(small_disk)
    with contextlib.suppress(OSError):
        os.close(os.open(folder / "go", os.O_CREAT))
    wait_until(lambda: gone(pid_of(job)))
    wait_until(lambda: not job.status.active if job.refresh() else None)
    assert (job.state, job.exit_code) == ("FAILED", 5)  # right even now, when it cannot be written down
    assert read_json(job.folder).get("status") is None
    filled.unlink()
    wait_until(lambda: (read_json(job.folder) or {}).get("status"))
    assert read_json(job.folder)["status"]["exit_code"] == 5
    wait_until(lambda: ws.queue.ids() == [])


def test_disk_of_the_queue_full(ws, small_disk, monkeypatch):
    monkeypatch.setenv("DLOJZ_QUEUE", str(small_disk / "queue"))
    local.Queue().make()
    filled = fill(small_disk)
    with pytest.raises(UsageError, match=r"queue.*No space left"):
        submit("quick.py")
    assert not list((ws.folder / "runs").iterdir())
    filled.unlink()
    assert submit("quick.py").wait(LIMIT).state == "COMPLETED"


# --- at the same moment ----------------------------------------------------------------------------------------------------


def test_two_notebooks_submit_the_same(ws, tmp_path):
    code = f"""
        import os, time
        from dlojz import submit
        import dlojz.jobs.local
        open({str(tmp_path)!r} + f"/ready-{{os.getpid()}}", "w")
        while not os.path.exists({str(tmp_path / 'start')!r}): pass
        job = submit("quick.py", name="same")
        job.wait(240)
        print(job.run, job.id, job.state)
        """
    kernels = [ws.python(code) for _ in range(4)]
    while len(list(tmp_path.glob("ready-*"))) < 4:
        time.sleep(0.02)
    (tmp_path / "start").touch()
    said = [kernel.communicate(timeout=LIMIT) for kernel in kernels]
    assert {out.splitlines()[-1] for out, _ in said} == {"same-001 1 COMPLETED"}, said
    assert [folder.name for folder in (ws.folder / "runs").iterdir()] == ["same-001"]


def test_a_hundred_submissions_from_eight_processes(ws, eight_gpus):
    ws.script("adds.py", "import sys; open('ran', 'a').write(sys.argv[1] + ' ')")
    code = """
        import sys
        from dlojz import submit
        first = int(sys.argv[1])
        for number in range(first, 100, 8):
            print(submit(f"adds.py {number}", name="hundred", gpus=1).run)
        """
    kernels = [subprocess.Popen([sys.executable, "-c", "\n".join(line.strip() if "print" not in line else "    " + line.strip()
                                                                 for line in code.splitlines()), str(number)],
                                cwd=ws.folder, stdout=subprocess.PIPE, text=True) for number in range(8)]
    runs = [run for kernel in kernels for run in kernel.communicate(timeout=LIMIT)[0].split()]
    assert len(runs) == len(set(runs)) == 100
    everything = list(jobs)
    job_module.wait(everything, 120)
    assert sorted(int(number) for number in (ws.folder / "ran").read_text().split()) == list(range(100))
    assert len({job.id for job in everything}) == 100 and {job.state for job in everything} == {"COMPLETED"}


def test_final_states_are_written_by_two_at_once(ws):
    """The id, which the submitter writes, and the final state, which the supervisor writes, never overwrite each other."""
    folder = ws.folder / "runs" / "x-001"
    folder.mkdir(parents=True)
    write_json(folder / "job.json", {"id": "", "request": {}})
    code = "import sys; from pathlib import Path; from dlojz.jobs.states import update\n" \
           "for n in range(150): update(Path(sys.argv[1]), **{sys.argv[2]: n})"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(folder), field]) for field in ("one", "two")]
    while any(writer.poll() is None for writer in writers):
        assert isinstance(json.loads((folder / "job.json").read_text()), dict)
    assert (read_json(folder)["one"], read_json(folder)["two"]) == (149, 149)
    assert [file.name for file in folder.iterdir()] == ["job.json"]


# --- a lock that somebody keeps ------------------------------------------------------------------------------------------


@pytest.fixture
def kept(ws, monkeypatch):
    """Has a process of its own take the lock on a file or folder, and keep it until the test is over."""
    monkeypatch.setattr(locks, "SILENT", 0.2)
    monkeypatch.setattr(locks, "PATIENCE", 0.6)
    holders = []

    def keep(path) -> int:
        holder = ws.python(f"""
            import fcntl, os, time
            handle = os.open({str(path)!r}, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
            print("kept", flush=True)
            time.sleep(120)
            """)
        holders.append(holder)
        assert holder.stdout.readline() == "kept\n"
        return holder.pid

    yield keep
    for holder in holders:
        holder.kill()
        holder.wait()


@pytest.mark.parametrize("stopped", [False, True])
def test_submitting_waits_for_a_kept_lock_with_a_word_and_not_for_ever(ws, kept, capsys, stopped):
    runs = ws.folder / "runs"
    runs.mkdir()
    pid = kept(runs)
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    with pytest.raises(UsageError) as refused:
        submit("quick.py", name="a")
    said = capsys.readouterr().err
    assert said.startswith(f"dlojz: waiting for {runs}, which is locked by process {pid} (") and said.count("\n") == 1
    assert f"{runs} has been locked for 1 s by process {pid} (" in str(refused.value)
    way = f"which is stopped: let it continue (kill -CONT {pid}) or kill it (kill -9 {pid}), then try again"
    assert str(refused.value).endswith(way if stopped else f"or kill it if it hangs (kill {pid}), then try again")
    assert not list(runs.iterdir())


def test_a_kept_lock_of_the_queue_leaves_no_run_behind(ws, kept, capsys):
    ws.queue.make()
    (ws.queue.folder / "lock").touch()
    pid = kept(ws.queue.folder / "lock")
    with pytest.raises(UsageError, match=rf"the job queue in .* has been locked for 1 s by process {pid} \("):
        submit("quick.py", name="a")
    assert f"waiting for the job queue in {ws.queue.folder}, which is locked by process {pid}" in capsys.readouterr().err
    assert not list((ws.folder / "runs").iterdir())


def test_a_lock_that_is_let_go_in_time_is_taken(ws, kept, monkeypatch, capsys):
    monkeypatch.setattr(locks, "PATIENCE", 30)
    (ws.folder / "runs").mkdir()
    pid = kept(ws.folder / "runs")
    later = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
    later.start()
    assert submit("quick.py", name="a").run == "a-001"
    later.join()
    assert "waiting for" in capsys.readouterr().err


def test_a_kept_lock_of_one_run_is_waited_for_with_a_limit(ws, kept, monkeypatch, wait_until):
    """A supervisor has other jobs to see to, and tries again later what it could not write."""
    folder = ws.folder / "runs" / "x-001"
    folder.mkdir(parents=True)
    write_json(folder / "job.json", {"id": "1", "request": {}})
    monkeypatch.setattr(states, "PATIENCE", 0.3)
    pid = kept(folder)
    with pytest.raises(OSError, match=rf"has been locked for 0 s by process {pid}"):
        states.update(folder, id="2")
    assert read_json(folder)["id"] == "1"
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gone(pid))
    states.update(folder, id="2")
    assert read_json(folder)["id"] == "2"


def test_a_lock_whose_holder_is_not_known(ws, tmp_path, kept, monkeypatch):
    """It runs on another machine that shares the file system, or /proc/locks is not there."""
    file = tmp_path / "file"
    file.touch()
    kept(file)
    monkeypatch.setattr(processes, "PROC", tmp_path)
    handle = os.open(file, os.O_RDONLY)
    with pytest.raises(locks.Held, match=r"by a process that can't be seen from here: look for .* and end it, then try again"):
        locks.take(handle, "file")
    os.close(handle)


def test_run_numbers_are_taken_once(ws):
    (ws.folder / "runs" / "a-007").mkdir(parents=True)
    (ws.folder / "runs" / "a-1000").mkdir()
    assert submission._next_folder(ws.folder / "runs", "a").name == "a-1001"
    assert submission._next_folder(ws.folder / "runs", "b").name == "b-001"
