"""The Slurm launcher against commands that answer late, wrongly or not at all. No Slurm is needed here."""

import itertools
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import patient

from dlojz.jobs import script, slurm
from dlojz.jobs import slurm_text as text
from dlojz.jobs.slurm import Answer
from dlojz.jobs.states import Request, Status, Unreachable
from dlojz.system.errors import UsageError

REFUSED = "sbatch: error: Batch job submission failed: Invalid qos specification"
AWAY = Unreachable("Slurm does not answer (Socket timed out on send/recv operation): try again in a minute")


class Commands:
    """Stands in for Slurm's commands: ``jobs`` is what squeue shows, ``calls`` what was run. A list in ``sbatch``, ``squeue``, …
    holds what to do at each call, the last for ever: an Answer, an exception, or a function of the words."""

    def __init__(self):
        self.jobs: dict[str, str] = {}
        self.calls: list[tuple] = []
        self.sbatch = [self.accept]
        self.squeue = [self.list]
        self.sacct = [Answer(0, "", "")]
        self.scontrol = [Answer(1, "", "slurm_load_jobs error: Invalid job id specified")]
        self.scancel = [Answer(0, "", "")]

    def accept(self, words):
        comment = next(word for word in words if word.startswith("--comment=")).removeprefix("--comment=")
        number = str(100 + self.count("sbatch"))
        array = any(word.startswith("--array") for word in words)
        for key in [f"{number}_0", f"{number}_1"] if array else [number]:
            self.jobs[key] = f"{key}|PENDING|Priority|N/A|N/A|{comment}"
        return Answer(0, f"{number}\n", "")

    def accept_and_lose(self, words):
        self.accept(words)
        raise AWAY

    def list(self, words):
        return Answer(0, "\n".join(self.jobs.values()), "")

    def count(self, name):
        return sum(call[0] == name for call in self.calls)

    def run(self, *words, limit=0, cwd=None):
        self.calls.append(words)
        script = getattr(self, words[0])
        action = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(action, Exception):
            raise action
        return action(words) if callable(action) else action


@pytest.fixture
def commands(monkeypatch):
    fake = Commands()
    monkeypatch.setattr(slurm, "run", fake.run)
    monkeypatch.setattr(slurm, "_queue", slurm.Queue())
    monkeypatch.setattr(slurm, "_born", {})
    for name, value in {"SETTLE": 0.01, "POLL_EVERY": 0.01, "AWAY_EVERY": 0.01, "PATIENCE": 20.0}.items():
        monkeypatch.setattr(slurm, name, value)
    return fake


REQUEST = Request("amp", ("train.py",), "test-cluster", partition="gpu")


@pytest.fixture
def folders(tmp_path):
    found = []
    for number in (1, 2):
        folder = tmp_path / "runs" / f"amp-{number:03}"
        folder.mkdir(parents=True)
        (folder / "job.sh").write_text(script.render(REQUEST, folder, site="test-cluster", scale="ci"))
        found.append(folder)
    return found


def job(number="7", folder=Path("/nowhere"), **more):
    return SimpleNamespace(id=number, folder=folder, request=REQUEST, submitted=0.0, status=Status("RUNNING"), cluster="", **more)


# ------------------------------------------------------------------------------------------------------------------ submit


def test_submit_gives_the_id_and_runs_in_the_workspace(commands, folders):
    assert slurm.submit(folders[:1], REQUEST) == ["101"]
    (words,) = commands.calls
    assert words[:3] == ("sbatch", "--parsable", "--export=ALL")
    assert f"--chdir={folders[0].parent.parent}" in words
    assert words[-1] == str(folders[0] / "job.sh")


def test_a_sweep_is_one_array(commands, folders):
    assert slurm.submit(folders, REQUEST) == ["101_0", "101_1"]
    assert commands.count("sbatch") == 1
    assert "--array=0-1" in commands.calls[0]


def test_a_lost_answer_is_not_submitted_twice(commands, folders, capsys):
    commands.sbatch = [commands.accept_and_lose]
    assert slurm.submit(folders[:1], REQUEST) == ["101"]
    assert commands.count("sbatch") == 1
    assert "trying again" in capsys.readouterr().err


def test_a_lost_answer_of_a_sweep_is_not_submitted_twice(commands, folders):
    commands.sbatch = [commands.accept_and_lose]
    assert slurm.submit(folders, REQUEST) == ["101_0", "101_1"]
    assert commands.count("sbatch") == 1


def test_a_request_that_is_carried_out_late_is_not_submitted_twice(commands, folders):
    def late(words):  # the first squeue that is answered does not show it yet
        commands.squeue = [Answer(0, "", ""), lambda _: (commands.accept(submitted), commands.list(words))[1]]
        submitted = words
        raise AWAY

    commands.sbatch = [late]
    assert slurm.submit(folders[:1], REQUEST) == ["101"]
    assert commands.count("sbatch") == 1


def test_a_request_that_did_not_arrive_is_submitted_again(commands, folders):
    commands.sbatch = [AWAY, AWAY, commands.accept]
    assert slurm.submit(folders[:1], REQUEST) == ["103"]
    assert commands.count("sbatch") == 3


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(slurm, "PATIENCE", 0.2)


@pytest.mark.parametrize("site, where", [
    ("", 'write site = "laptop" into {here}/workspace.toml'), ("jean-zay", "export DLOJZ_SITE=laptop")])
def test_a_silent_controller_gives_one_line_in_the_end(commands, folders, impatient, tmp_path, monkeypatch, site, where):
    monkeypatch.setenv("DLOJZ_SITE", site)
    (tmp_path / "workspace.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    commands.sbatch, commands.squeue = [AWAY], [AWAY]
    start = time.monotonic()
    with pytest.raises(Unreachable) as error:
        slurm.submit(folders[:1], REQUEST)
    assert time.monotonic() - start < patient(5)
    assert str(error.value) == ("Slurm does not answer (Socket timed out on send/recv operation): submit again in a minute, "
                                f"nothing is done twice; to use this machine's own queue instead, {where.format(here=tmp_path)}")
    assert commands.count("sbatch") == 1, "as long as squeue does not answer, nobody knows whether it arrived"


def test_what_was_given_up_is_found_later(commands, folders, impatient):
    commands.sbatch, commands.squeue = [commands.accept_and_lose], [AWAY]
    with pytest.raises(Unreachable):
        slurm.submit(folders[:1], REQUEST)
    commands.squeue = [commands.list]
    time.sleep(0.02)
    assert slurm.recover(folders) == {folders[0]: "101"}


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_submitted(commands, folders, tmp_path):
    with pytest.raises(UsageError, match=r"cannot write to .*runs: No such file or directory"):
        slurm.submit([folders[0], tmp_path / "runs" / "gone"], REQUEST)
    with pytest.raises(UsageError, match="cannot write to"):
        (folders[0] / "sweep.sh").mkdir()
        slurm.submit(folders, REQUEST)
    assert commands.calls == []


def test_a_refusal_comes_through_with_advice(commands, folders):
    commands.sbatch = [Answer(1, "", REFUSED)]
    with pytest.raises(UsageError, match=r"Slurm refused the job \(Invalid qos specification\): give a QoS"):
        slurm.submit(folders[:1], REQUEST)
    assert commands.count("sbatch") == 1


def test_a_request_that_was_refused_while_its_answer_was_lost_is_no_job(commands, folders):
    def refuse_and_lose(words):
        commands.accept(words)
        commands.jobs = {key: line.replace("PENDING|Priority", "FAILED|BadConstraints") for key, line in commands.jobs.items()}
        raise AWAY

    commands.sbatch = [refuse_and_lose, Answer(1, "", REFUSED)]
    with pytest.raises(UsageError, match="Invalid qos"):
        slurm.submit(folders[:1], REQUEST)


def test_sbatch_output_without_an_id_is_looked_up(commands, folders):
    commands.sbatch = [lambda words: (commands.accept(words), Answer(0, "hello\n", ""))[1]]
    assert slurm.submit(folders[:1], REQUEST) == ["101"]
    assert commands.count("sbatch") == 1


def test_without_sbatch_one_line_says_so(monkeypatch, tmp_path, folders):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no sbatch on this machine"):
        slurm.submit(folders[:1], REQUEST)


def test_a_command_that_hangs_is_cut_off(monkeypatch, tmp_path):
    (tmp_path / "squeue").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    start = time.monotonic()
    with pytest.raises(Unreachable, match="squeue took more than 0 s"):
        slurm.run("squeue", limit=0.3)
    assert time.monotonic() - start < patient(5)


# ----------------------------------------------------------------------------------------------------------------- recover


def test_recover_finds_the_tasks_of_a_sweep(commands, folders):
    slurm.submit(folders, REQUEST)
    assert slurm.recover(list(reversed(folders))) == {folders[0]: "101_0", folders[1]: "101_1"}


def test_recover_asks_the_accounting_for_what_the_queue_forgot(commands, folders):
    slurm.submit(folders[:1], REQUEST)
    token = commands.jobs.pop("101").rpartition("|")[2]
    commands.sacct = [Answer(0, f"99|COMPLETED|node1|sbatch other\n101|COMPLETED|node1|sbatch --comment={token} job.sh\n", "")]
    assert slurm.recover(folders) == {folders[0]: "101"}


def test_recover_leaves_out_what_never_reached_the_queue(commands, folders):
    (folders[0] / slurm.TOKEN).write_text("dlojz-0123 -\n")
    (folders[1] / slurm.TOKEN).write_text("torn")
    assert slurm.recover(folders) == {}
    assert slurm.recover([]) == {}


def test_recover_does_not_guess_while_nobody_answers(commands, folders):
    slurm.submit(folders[:1], REQUEST)
    commands.squeue = [AWAY]
    with pytest.raises(Unreachable):
        slurm.recover(folders)


# -------------------------------------------------------------------------------------------------------------- the script


@pytest.mark.parametrize("part", ["plain", "with blank", "100%", "quo'te", 'dou"ble', "$(touch hacked)", "ünï", "back\\slash"])
def test_the_script_of_a_sweep_runs_each_folder_whatever_it_is_called(tmp_path, part):
    folders = [tmp_path / part / "runs" / f"r-{number}" for number in range(2)]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "job.sh").write_text('echo "$0"; echo oops >&2; exit 3\n')
    (tmp_path / "sweep.sh").write_text(slurm.sweep_script(folders, "#!/bin/bash\n#SBATCH --time=5\n"))
    done = slurm.subprocess.run(["bash", "sweep.sh"], cwd=tmp_path, env=os.environ | {"SLURM_ARRAY_TASK_ID": "1"}, check=False)
    assert done.returncode == 3
    assert (folders[1] / "out.log").read_text() == f"{folders[1]}/job.sh\n"
    assert (folders[1] / "err.log").read_text() == "oops\n"
    assert not (folders[0] / "out.log").exists() and not (tmp_path / "hacked").exists()


def test_the_script_of_a_sweep_takes_over_the_resources(folders):
    written = slurm.sweep_script(folders, (folders[0] / "job.sh").read_text())
    options = script.directives(written)
    assert "--gres=gpu:1" in options and "--time=0:10:00" in options and "--partition=gpu" in options
    assert [option for option in options if option.startswith("--output")] == [f'--output="{folders[0]}/sweep.log"']
    assert not any(option.startswith("--error") for option in options)
    assert script.lint(written) == []


# --------------------------------------------------------------------------------------------------------------------- poll


def test_one_squeue_for_everyone_within_two_seconds():
    now, asked = [0.0], []
    queue = slurm.Queue(ask=lambda: asked.append(now[0]) or {}, clock=lambda: now[0])
    for step in range(100):
        now[0] = step * 0.1
        queue.look()
    assert len(asked) == 5 and all(later - earlier >= 2 for earlier, later in itertools.pairwise(asked)), asked


def test_one_squeue_for_all_threads():
    asked = []
    queue = slurm.Queue(ask=lambda: (time.sleep(0.05), asked.append(1), {})[2])
    threads = [threading.Thread(target=queue.look) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 1


def test_a_controller_that_is_away_is_asked_less_often_and_everyone_hears_it():
    now, asked = [0.0], []

    def ask():
        asked.append(now[0])
        raise AWAY

    queue = slurm.Queue(ask, clock=lambda: now[0])
    for step in range(25):
        now[0] = float(step)
        with pytest.raises(Unreachable):
            queue.look()
    assert asked == [0, 10, 20]


def test_poll_asks_once_for_all_jobs(commands):
    commands.jobs = {str(n): f"{n}|RUNNING|None|2026-11-27T22:14:04|2026-11-27T22:44:04|(null)" for n in range(500)}
    statuses = slurm.poll([job(str(n)) for n in range(500)])
    assert {status.state for status in statuses.values()} == {"RUNNING"} and len(statuses) == 500
    assert commands.count("squeue") == 1 and len(commands.calls) == 1
    assert slurm.poll([]) == {}


def test_a_job_submitted_after_the_queue_was_asked_is_pending(commands, folders, monkeypatch):
    monkeypatch.setattr(slurm, "POLL_EVERY", 60.0)
    slurm.poll([job("1")])
    (number,) = slurm.submit(folders[:1], REQUEST)
    commands.calls.clear()
    assert slurm.poll([job(number, folders[0])])[number].state == "PENDING"
    assert commands.calls == []


def test_poll_says_when_nobody_answers(commands):
    commands.squeue = [AWAY]
    with pytest.raises(Unreachable):
        slurm.poll([job()])


def test_squeue_that_fails_does_not_end_jobs(commands):
    commands.squeue = [Answer(1, "", "squeue: error: Invalid user")]
    with pytest.raises(Unreachable, match="Invalid user"):
        slurm.poll([job()])


ENDED = "2026-11-27T22:14:04|2026-11-27T22:14:05"


@pytest.mark.parametrize(
    "squeue, sacct, scontrol, left, state, code, part",
    [
        # the queue shows it as ended
        (f"7|COMPLETED|None|{ENDED}|x", f"7|COMPLETED|0:0|{ENDED}", "", "0", "COMPLETED", 0, ""),
        (f"7|FAILED|NonZeroExitCode|{ENDED}|x", f"7|FAILED|3:0|{ENDED}", "", None, "FAILED", 3, "exit code 3"),
        (f"7|FAILED|NonZeroExitCode|{ENDED}|x", f"7|RUNNING|0:0|{ENDED}",
         "JobId=7 JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0", None, "FAILED", 3, "exit code 3"),
        (f"7|FAILED|NonZeroExitCode|{ENDED}|x", "", "", "3", "FAILED", 3, "exit code 3"),
        (f"7|FAILED|NonZeroExitCode|{ENDED}|x", f"7|FAILED|9:0|{ENDED}", "", "137", "FAILED", 137, "killed by SIGKILL"),
        (f"7|TIMEOUT|TimeLimit|{ENDED}|x", f"7|TIMEOUT|0:0|{ENDED}", "", None, "TIMEOUT", None, "reached its time limit"),
        (f"7|CANCELLED|None|{ENDED}|x", f"7|CANCELLED by 0|0:0|{ENDED}", "", "143", "CANCELLED", None, ""),
        (f"7|OUT_OF_MEMORY|OutOfMemory|{ENDED}|x", "", "", None, "OUT_OF_MEMORY", None, "memory"),
        (f"7|NODE_FAIL|NodeDown|{ENDED}|x", "", "", None, "NODE_FAIL", None, "one of its nodes failed"),
        (f"7|PREEMPTED|None|{ENDED}|x", "", "", None, "CANCELLED", None, "higher priority"),
        # it was put back: the queue is right, the accounting is not asked
        ("7|PENDING|BeginTime|N/A|N/A|x", f"7|NODE_FAIL|0:0|{ENDED}", "", None, "PENDING", None, "BeginTime"),
        (f"7|COMPLETING|None|{ENDED}|x", f"7|FAILED|3:0|{ENDED}", "", "3", "RUNNING", None, "ending"),
        # the queue has forgotten it
        ("", f"7|CANCELLED by 1000|0:0|{ENDED}", "", None, "CANCELLED", None, ""),
        ("", f"7|FAILED|0:9|{ENDED}", "", None, "FAILED", 137, "killed by SIGKILL"),
        ("", f"7|RUNNING|0:0|{ENDED}", "", "0", "COMPLETED", 0, ""),
        ("", f"7|RUNNING|0:0|{ENDED}", "", None, "RUNNING", None, ""),
        ("", "", "JobId=7 JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15", None, "TIMEOUT", None, "time limit"),
        ("", "", "", "0", "COMPLETED", 0, ""),
        ("", "", "", "5", "FAILED", 5, "exit code 5"),
        ("", "", "", None, "FAILED", None, "Slurm no longer lists this job"),
        ("", "", "", "torn\n", "FAILED", None, "Slurm no longer lists this job"),
    ],
)
def test_the_state_of_a_job_that_may_have_ended(commands, tmp_path, squeue, sacct, scontrol, left, state, code, part):
    commands.squeue, commands.sacct = [Answer(0, squeue, "")], [Answer(0, sacct, "")]
    if scontrol:
        commands.scontrol = [Answer(0, scontrol, "")]
    if left is not None:
        (tmp_path / "exit_code").write_text(left)
    status = slurm.poll([job("7", tmp_path)])["7"]
    assert (status.state, status.exit_code) == (state, code)
    assert part in status.reason if part else status.reason == ""


def test_a_forgotten_job_is_not_judged_while_the_accounting_does_not_answer(commands, tmp_path):
    commands.sacct = [AWAY]
    status = slurm.poll([job("7", tmp_path)])["7"]
    assert status.state == "RUNNING" and status.reason.startswith("last known state: Slurm does not answer (Socket timed out")
    (tmp_path / "exit_code").write_text("0\n")
    assert slurm.poll([job("7", tmp_path)])["7"].state == "COMPLETED"


@pytest.mark.parametrize(
    "refusal",
    [Answer(1, "", "Slurm accounting storage is disabled\n"), UsageError("there is no sacct on this machine"), AWAY],
    ids=["off", "missing", "away"],
)
def test_without_accounting_scontrol_answers(commands, tmp_path, refusal):
    commands.sacct = [refusal]
    commands.scontrol = [Answer(0, "JobId=7 JobState=FAILED Reason=NonZeroExitCode ExitCode=4:0", "")]
    assert slurm.poll([job("7", tmp_path)])["7"].exit_code == 4


def test_one_sacct_for_all_jobs_that_ended(commands, tmp_path):
    commands.sacct = [Answer(0, "".join(f"{n}|COMPLETED|0:0|{ENDED}\n" for n in range(50)), "")]
    statuses = slurm.poll([job(str(n), tmp_path) for n in range(50)])
    assert {status.state for status in statuses.values()} == {"COMPLETED"}
    assert (commands.count("sacct"), commands.count("scontrol")) == (1, 0)


# ------------------------------------------------------------------------------------------------------------------- cancel


def test_cancel_takes_all_jobs_at_once(commands):
    slurm.cancel(["7", "8_1"])
    slurm.cancel([])
    assert commands.calls == [("scancel", "7", "8_1")]


def test_cancel_is_tried_again(commands):
    commands.scancel = [AWAY, AWAY, Answer(0, "", "")]
    slurm.cancel(["7"])
    assert commands.count("scancel") == 3


def test_cancel_gives_up_in_one_line(commands, impatient):
    commands.scancel = [AWAY]
    with pytest.raises(Unreachable, match="cancel again in a minute"):
        slurm.cancel(["7"])


def test_cancel_ignores_what_is_not_there(commands):
    commands.scancel = [Answer(1, "", "scancel: error: Kill job error on job id 7: Invalid job id specified")]
    slurm.cancel(["7"])


def test_cancel_says_why_it_may_not(commands):
    commands.scancel = [Answer(210, "", "scancel: error: Kill job error on job id 7: Access/permission denied")]
    with pytest.raises(UsageError, match="permission denied"):
        slurm.cancel(["7"])


# -------------------------------------------------------------------------------------------------------------- environment


def test_commands_do_not_inherit_the_notebook_servers_job():
    hub = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "1", "SLURM_CONF": "/etc/slurm/slurm.conf", "SLURM_TIME_FORMAT": "relative",
           "SBATCH_PARTITION": "x", "SQUEUE_FORMAT": "%i", "SACCT_FORMAT": "jobid", "CUDA_VISIBLE_DEVICES": "3", "RANK": "0",
           "PATH": "/bin", "HOME": "/root", "CONDA_PREFIX": "/opt/conda"}
    assert slurm.environment(hub) == {"SLURM_CONF": "/etc/slurm/slurm.conf", "PATH": "/bin", "HOME": "/root",
                                      "CONDA_PREFIX": "/opt/conda"}


def test_formats_and_readers_fit():
    assert text.squeue(text.SQUEUE_FORMAT.replace("%i", "7")).keys() == {"7"}
    assert text.sacct(text.SACCT_FIELDS.replace(",", "|")).keys() == {"JobID"}
    assert text.sacct_search(text.SACCT_SEARCH.replace(",", "|")).keys() == {"JobID"}
