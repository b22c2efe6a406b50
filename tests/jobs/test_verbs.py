"""The verbs in a shell: what they print, where, and the exit code they leave."""

import os
import signal
import subprocess
import sys
import time

from patience import LIMIT

from dlojz import jobs, submit


def last(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_submit_jobs_log(ws):
    done = ws.shell("submit", "--name", "amp", "--wait", "--", "quick.py", "--lr", "a b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "amp-001: submitted as job 1. Follow it: dlojz log -f amp-001"
    assert last(done.stdout).split()[:2] == ["amp-001", "COMPLETED"] and "quick.py --lr 'a b'" in done.stdout
    again = ws.shell("submit", "--name", "amp", "--", "quick.py", "--lr", "a b")
    assert (again.returncode, again.stdout) == (0, "amp-001 already exists (COMPLETED), so nothing was started; "
                                             "again=True (--again in a shell) runs it again\n")
    assert ws.shell("submit", "--name", "amp", "--again", "--wait", "quick.py --lr 'a b'").stdout.startswith("amp-002: submitted")
    table = ws.shell("jobs").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["run", "amp-001", "amp-002"]
    assert ws.shell("jobs", "--all").stdout.splitlines() == table
    shown = ws.shell("log", "amp")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "hello\n", "")


def test_exit_codes_of_jobs_that_fail(ws):
    ws.script("bad.py", "import sys; print('out'); sys.exit('it broke')")
    done = ws.shell("submit", "--wait", "--", "bad.py")
    assert done.returncode == 1 and "FAILED" in done.stdout and "it broke" in done.stdout
    shown = ws.shell("log", "bad")
    assert (shown.returncode, shown.stdout) == (0, "out\n") and "dlojz log --err bad-001" in shown.stderr
    assert ws.shell("log", "--err", "bad").stdout == "it broke\n"


def test_follow(ws):
    ws.script("talks.py", "import time\nfor n in range(4): print(n, flush=True); time.sleep(0.2)")
    ws.shell("submit", "--", "talks.py")
    done = ws.shell("log", "-f", "talks")
    *waited, last = done.stderr.splitlines()  # it may not have begun yet
    assert (done.returncode, done.stdout, last) == (0, "0\n1\n2\n3\n", "[talks-001 is COMPLETED]")
    assert waited in ([], ["[talks-001 is waiting in the queue: next to run]"])


def interruptible(*words, cwd) -> subprocess.Popen:
    """The command as from a terminal: what a script put into the background ignores Ctrl-C, and so would its children."""
    return subprocess.Popen([sys.executable, "-m", "dlojz.cli", *words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))


def test_follow_shows_lines_as_they_come_and_may_be_interrupted(ws):
    ws.shell("submit", "--", "slow.py")
    follower = interruptible("log", "-f", "slow", cwd=ws.folder)
    assert follower.stdout.readline() == "begun\n"
    follower.send_signal(signal.SIGINT)
    assert follower.wait(LIMIT) == 130 and "Traceback" not in follower.stderr.read()
    assert " RUNNING " in ws.shell("jobs").stdout


def test_cancel(ws, wait_until):
    ws.shell("submit", "--name", "a", "--", "slow.py")
    ws.shell("submit", "--name", "b", "--", "slow.py")
    wrong = ws.shell("cancel", "a", "nothere")
    assert wrong.returncode == 2 and wrong.stderr.startswith("dlojz: there is no run 'nothere'")
    assert " RUNNING " in ws.shell("jobs").stdout  # nothing was cancelled
    done = ws.shell("cancel", "a", "b")
    assert (done.returncode, done.stdout) == (0, "a-001: is being cancelled\nb-001: is being cancelled\n")
    wait_until(lambda: ws.shell("jobs").stdout.count(" CANCELLED ") == 2)
    assert ws.shell("cancel", "a").stdout == "a-001: has ended already (CANCELLED)\n"


def test_waiting_may_be_interrupted(ws):
    waiter = interruptible("submit", "--wait", "--", "slow.py", cwd=ws.folder)
    waiter.stdout.readline()
    time.sleep(0.3)
    waiter.send_signal(signal.SIGINT)
    assert waiter.wait(LIMIT) == 130
    assert waiter.stderr.read() == "slow-001 goes on. Follow it: dlojz log -f slow-001. End it: dlojz cancel slow-001\n"
    assert "slow-001" in ws.shell("jobs").stdout and "CANCELLED" not in ws.shell("jobs").stdout


def test_a_pipe_gets_the_whole_of_a_reason(ws):
    ws.script("breaks.py", f"raise ValueError('{'so ' * 60}long')")
    job = submit("breaks.py", name="a").wait(LIMIT)
    whole = f"breaks.py  [ValueError: {'so ' * 60}long]"
    assert job.reason == whole[12:-1] and ws.shell("jobs").stdout.splitlines()[-1].endswith(f" {whole}")
    assert repr(jobs).splitlines()[-1].endswith(f" {whole[:97]}..."), "a terminal and a notebook have less room"


def test_dry_run(ws):
    done = ws.shell("submit", "--dry-run", "--time", "2:00:00", "--", "quick.py")
    assert done.returncode == 0 and "#SBATCH --time=2:00:00\n        ^ the time limit" in done.stdout
    assert not (ws.folder / "runs").exists()


def test_another_site(ws):
    done = ws.shell("submit", "--dry-run", "--site", "jean-zay", "--partition", "h100", "--gpus", "8", "--account", "abc",
                    "--", "quick.py")
    assert "#SBATCH --account=abc@h100\n" in done.stdout and "#SBATCH --nodes=2\n" in done.stdout


def test_the_python_of_a_job(ws, tmp_path):
    for setting, expected in (("", "python"), ('python = "this"', sys.executable),
                              ('python = "$HOME/bin/python"', "/home/me/bin/python")):
        (tmp_path / "c.toml").write_text(f'launcher = "slurm"\nmodules = ["a/1"]\n{setting}\n')
        done = ws.shell("submit", "--dry-run", "--site", str(tmp_path / "c.toml"), "--", "quick.py",
                        env={**os.environ, "HOME": "/home/me"})
        assert f'"${{start[@]}}" {expected} "${{script[@]}}"' in done.stdout, done.stderr


def test_sites(ws):
    done = ws.shell("sites")
    assert done.returncode == 0 and "* laptop" in done.stdout
    assert last(done.stdout).startswith("In use: laptop (DLOJZ_SITE says so)")
    broken = ws.shell("sites", env={**os.environ, "DLOJZ_SITE": "nowhere"})
    assert broken.returncode == 2 and "* nowhere  " in broken.stdout and "there is no site 'nowhere'" in last(broken.stderr)


def test_bad_use_is_one_line_and_exit_code_2(ws):
    for arguments in (["submit"], ["submit", "--"], ["submit", "--", "nothere.py"], ["submit", "--gpus", "-1", "--", "quick.py"],
                      ["submit", "--time", "abc", "--", "quick.py"], ["submit", "--name", "$(touch hacked)", "--", "quick.py"],
                      ["submit", "--site", "nowhere", "--", "quick.py"], ["log", "nothere"], ["cancel", "../x"], ["log", ""]):
        done = ws.shell(*arguments)
        assert done.returncode == 2 and done.stdout == "", arguments
        assert done.stderr.startswith("dlojz: ") and done.stderr.count("\n") == 1 and len(done.stderr) < 400, done.stderr
    for arguments in (["submit", "--gpus", "many", "--", "quick.py"], ["cancel"], ["log"]):
        assert ws.shell(*arguments).returncode == 2
    assert not (ws.folder / "hacked").exists()


def test_outside_a_workspace(ws, tmp_path):
    for verb in (["jobs"], ["submit", "--", "quick.py"], ["log", "x"]):
        done = subprocess.run([sys.executable, "-m", "dlojz.cli", *verb], cwd=tmp_path, capture_output=True, text=True,
                              timeout=LIMIT)
        assert done.returncode == 2 and "is not in a workspace: make one" in done.stderr and done.stderr.count("\n") == 1


REPORT = """\
Traceback (most recent call last):
  File "run.py", line 1, in <module>
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError: 
============================================================
stops.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-31_14:05:59
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : 75 (pid: 4711) 
============================================================
"""


def test_the_log_of_a_run_that_was_stopped_says_so_after_torchruns_report(ws):
    ws.script("stops.py", f"import sys; print('saved'); sys.stderr.write({REPORT!r}); sys.exit(1)")
    ws.shell("submit", "--wait", "--", "stops.py")
    said = "[stops-001 is FAILED: rank 0: stopped by a signal after saving a checkpoint"
    done = ws.shell("log", "--err", "stops")
    assert (done.returncode, done.stdout) == (0, REPORT)
    assert done.stderr == f"{said}. What ends in ChildFailedError above is torchrun's report of it]\n"
    assert ws.shell("log", "stops").stderr == f"{said}]\n[its error output: dlojz log --err stops-001]\n"


def test_a_sweep_has_no_single_log(ws):
    ws.python("from dlojz import submit; submit(['quick.py 1', 'quick.py 2'], name='s').wait(60)").wait(LIMIT)
    done = ws.shell("log", "s")
    assert done.returncode == 2 and "s is a sweep of 2: say which run, s-001 to s-002" in done.stderr
    assert ws.shell("log", "s-002").stdout == "hello\n"
    assert ws.shell("cancel", "s").stdout.count("has ended already") == 2


def test_a_closed_pipe_is_no_error(ws):
    ws.script("long.py", "print('x' * 100 + '\\n' * 1, end=''); [print('y' * 1000) for _ in range(3000)]")
    ws.shell("submit", "--wait", "--", "long.py")
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m dlojz.cli log long | head -n1; exit ${{PIPESTATUS[0]}}"],
                          cwd=ws.folder, capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "x" * 100 + "\n" and done.stderr == "" and done.returncode == 0
