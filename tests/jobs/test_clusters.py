"""Submitting to Slurm, and following what was submitted, with commands that print what clusters have been seen to print."""

import json
import os
import time

import pytest

from dlojz.jobs import jobs, slurm, states, submit
from dlojz.jobs.job import load
from dlojz.jobs.script import environment
from dlojz.jobs.slurm_text import SQUEUE_FORMAT
from dlojz.system.errors import UsageError

# Of bash alone, so that PATH may hold nothing but these commands.
COMMAND = """#!/bin/bash
me=${{0##*/}}; cd "{folder}"
[ "$1" = --version ] && {{ echo slurm 23.02.7; exit 0; }}
echo "$me $* | $SLURM_CLUSTERS ${{SLURM_JWT:+jwt}}" >> calls
[ -e $me.err ] && printf '%s' "$(<$me.err)" >&2
[ -e $me.out ] && printf '%s' "$(<$me.out)"
[ -e $me.rc ] && exit $(<$me.rc)
exit 0
"""
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"


class Cluster:
    """What each of Slurm's commands prints: ``says("squeue", "text", err="", rc=0)``."""

    def __init__(self, folder, bin):
        self.folder, self.bin = folder, bin
        for name in ("sbatch", "squeue", "sacct", "scontrol", "scancel", "sinfo"):
            (bin / name).write_text(COMMAND.format(folder=folder))
            (bin / name).chmod(0o755)
        self.says("sinfo", "normal*|up|2-00:00:00|64|gpu:a100:4\n")
        self.says("sbatch", "4101\n")
        self.says("scontrol", err="slurm_load_jobs error: Invalid job id specified\n", rc=1)

    def says(self, command, out="", err="", rc=0):
        for end, text in (("out", out), ("err", err), ("rc", str(rc))):
            (self.folder / f"{command}.{end}").write_text(text)
        slurm._queue._next = float("-inf")
        slurm._others.clear()

    def calls(self, command=""):
        file = self.folder / "calls"
        return [line for line in file.read_text().splitlines() if line.startswith(command)] if file.exists() else []


@pytest.fixture
def cluster(ws, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "fake").mkdir()
    made = Cluster(tmp_path / "fake", tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DLOJZ_SITE", "slurm")
    monkeypatch.setattr(slurm, "_queue", slurm.Queue())
    monkeypatch.setattr(slurm, "_others", {})
    monkeypatch.setattr(slurm, "_born", {})
    for name, value in {"SETTLE": 0.01, "POLL_EVERY": 0.0, "AWAY_EVERY": 0.0, "PATIENCE": 0.5}.items():
        monkeypatch.setattr(slurm, name, value)
    return made


def row(number="4101", word="RUNNING", why="None", mark="x"):
    return f"{number}|{word}|{why}|2026-11-27T22:14:04|2026-11-27T22:44:04|{mark}\n"


def changed(job, **fields):
    content = json.loads((job.folder / "job.json").read_text())
    (job.folder / "job.json").write_text(json.dumps({**content, **fields}))


# --- what sbatch has taken is never submitted again ----------------------------------------------------------------------


@pytest.mark.parametrize("out, err, number, name", [
    ("4101\n", "", "4101", ""),
    ("4101;slaking\n", "", "4101", "slaking"),
    ("Submitted batch job 4101\n", "", "4101", ""),
    ("Submitted batch job 4101 on cluster slaking\n", "", "4101", "slaking"),
    ("Welcome, 3 days left\n\nSubmitted batch job 4101\nHave a nice day 42\n", "", "4101", ""),
    ("", "sbatch: Submitted batch job 4101\n", "4101", ""),
    ("Your job id is: 4101\n", "", "4101", ""),
    ("quota: job ID: 4101 accepted\n", "sbatch: info: 12 hours left", "4101", ""),
])
def test_whatever_says_the_id_is_read_and_that_cluster_is_asked(cluster, out, err, number, name):
    cluster.says("sbatch", out, err)
    job = submit("quick.py", name="a")
    assert (job.id, job.cluster) == (number, name)
    cluster.says("squeue", row(number))
    assert jobs["a"].state == "RUNNING"
    option = f" --clusters={name}" if name else ""
    assert set(cluster.calls("squeue")) == {f"squeue{option} --me -r -h -t all -o {SQUEUE_FORMAT} |  "}
    jobs["a"].cancel()
    assert cluster.calls("scancel") == [f"scancel{option} {number} |  "]
    assert len(cluster.calls("sbatch")) == 1


def test_a_job_without_an_id_is_not_submitted_again_and_its_files_tell_how_it_stands(cluster, capsys):
    cluster.says("sbatch", "accepted, thank you\n")
    with pytest.raises(UsageError, match=r"sbatch has taken the job, but gave no job id \(it said: accepted, thank you\)"):
        submit("quick.py", name="a")
    assert "PENDING" in repr(jobs) and "without saying its id" in repr(jobs["a"])
    with pytest.raises(UsageError, match="may have been queued or not"):
        submit("quick.py", name="a")
    folder = jobs["a"].folder
    (folder / "out.log").touch()
    assert jobs["a"].status.state == "RUNNING"
    (folder / "exit_code").write_text("0\n")
    assert jobs["a"].status.state == "COMPLETED"
    assert len(cluster.calls("sbatch")) == 1


def test_what_was_submitted_although_the_exit_code_says_no_is_kept(cluster):
    cluster.says("sbatch", "Submitted batch job 4101\n", "cp: cannot stat '/etc/motd'\n", 1)
    assert submit("quick.py", name="a").id == "4101"


def test_the_address_of_a_cluster_and_its_login_reach_all_commands(cluster, monkeypatch):
    monkeypatch.setenv("SLURM_CLUSTERS", "donphan")
    monkeypatch.setenv("SLURM_JWT", "x")
    job = submit("quick.py", name="a")
    assert job.cluster == "donphan"
    assert [call.rpartition("| ")[2] for call in cluster.calls("s")] == ["donphan jwt"] * 2
    monkeypatch.delenv("SLURM_CLUSTERS")
    cluster.says("squeue", "CLUSTER: donphan\n" + row())
    assert jobs["a"].state == "RUNNING"
    assert "--clusters=donphan" in cluster.calls("squeue")[-1]
    assert "unset SLURM_JWT" in (job.folder / "job.sh").read_text()


def test_the_cluster_of_a_site_is_asked_for_partitions_too(cluster, ws, monkeypatch):
    (ws.folder / "sites").mkdir()
    text = 'launcher = "slurm"\ndiscover = true\ndirectives = ["--clusters=slaking"]\n'
    (ws.folder / "sites" / "far.toml").write_text(text)
    assert submit("quick.py", name="a", site="far").cluster == "slaking"
    assert all("--clusters=slaking" in call for call in (*cluster.calls("sinfo"), *cluster.calls("sbatch")))


def test_what_belongs_to_a_job_goes_and_what_says_where_the_cluster_is_stays():
    kept = {"SLURM_CONF": "a", "SLURM_CONF_SERVER": "b", "SLURM_CLUSTERS": "c", "SLURM_JWT": "d"}
    assert environment({**kept, "SLURM_CLUSTER_NAME": "e", "SLURM_WORKING_CLUSTER": "f", "SLURM_JOB_ID": "7"}) == kept


def test_a_job_that_a_federation_runs_elsewhere(cluster):
    submit("quick.py", name="a")
    (cluster.bin / "squeue").write_text(f"""#!/bin/bash
case "$*" in *--federation*) printf '{row().strip()}';; *) printf '{row(word="REVOKED").strip()}';; esac
""")
    assert jobs["a"].state == "RUNNING"


# --- refusals ------------------------------------------------------------------------------------------------------------

BANNER = "------\n  Welcome to the machine\n------\nNo reservation for this job\n--> Verifying your home (/home/munge)...OK\n" * 8


@pytest.mark.parametrize("out, err, said, advice", [
    ("", BANNER + "sbatch: error: Batch job submission failed: Requested GRES option unsupported\n",
     "(Requested GRES option unsupported)", ""),
    (BANNER, "sbatch: error: Invalid qos specification\n", "(Invalid qos specification)", "sacctmgr"),
    (BANNER + "sbatch: error: Invalid qos specification\n", "", "(Invalid qos specification)", "sacctmgr"),
    (BANNER + "ERROR: no project given, use -A\n", "", "ERROR: no project given, use -A)", ""),
    ("", "sbatch: error: jobs in partition lounge must ask for --mem\n", "lounge must ask for --mem)", ""),
    ("", "sbatch: error: the preservation of licensees is off\n", "licensees is off)", ""),
    ("You need a project\n", "sbatch: error: Batch job submission failed: Unspecified error\n", "You need a project", ""),
    ("", "sbatch: error: Munge encode failed: no socket\n", "(Munge encode failed", "munge"),
])
def test_a_refusal_is_the_commands_own_words(cluster, out, err, said, advice):
    cluster.says("sbatch", out, err, 1)
    with pytest.raises(UsageError) as error:
        submit("quick.py", name="a")
    line = str(error.value)
    assert said in line and line.startswith("Slurm refused the job (") and "\n" not in line
    assert ("): " in line) == bool(advice) and advice in line
    assert len(cluster.calls("sbatch")) == 1 and not list(jobs)


@pytest.mark.parametrize("log, told", [
    ("Loading pytorch/2.8\nsrun: error: Unable to create step for job 7: More processors requested than permitted\n",
     "srun: error: Unable to create step for job 7: More processors requested than permitted"),
    ("slurmstepd: error: execve(): python: No such file or directory\nsrun: error: node1: task 0: Exited with exit code 2\n",
     "slurmstepd: error: execve(): python: No such file or directory"),
    ("ValueError: no\nsrun: error: node1: tasks 0-3: Exited with exit code 1\n", "ValueError: no"),
    ("srun: error: node1: task 0: Killed\n", ""),
])
def test_sruns_error_is_told_where_nothing_else_was(tmp_path, log, told):
    (tmp_path / "err.log").write_text(log)
    assert states.last_error(tmp_path / "err.log") == told


# --- states --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word, left, age, state", [
    ("PREEMPTED", "0", 0, "COMPLETED"), ("NODE_FAIL", "0", 0, "NODE_FAIL"), ("NODE_FAIL", "0", 3600, "COMPLETED"),
    ("PREEMPTED", "3", 3600, "FAILED"),
    ("PREEMPTED", "143", 0, "CANCELLED"), ("PREEMPTED", None, 0, "CANCELLED"), ("CANCELLED by 7", "0", 0, "CANCELLED"),
])
def test_the_exit_code_of_a_later_run_counts(cluster, word, left, age, state):
    job = submit("quick.py", name="a")
    ended = time.time()
    if left is not None:
        (job.folder / "exit_code").write_text(left)
        os.utime(job.folder / "exit_code", (ended + age, ended + age))
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(ended))
    cluster.says("sacct", f"4101|{word}|0:0|{stamp}|{stamp}\n")
    assert jobs["a"].state == state


BROKEN = {
    "missing": lambda c, name: (c.bin / name).unlink(),
    "not executable": lambda c, name: ((c.bin / name).write_text("\x7fELF"), (c.bin / name).chmod(0o755)),
    "fails": lambda c, name: c.says(name, "", f"{name}: error: no\n", 1),
    "away": lambda c, name: c.says(name, "", AWAY, 1),
    "away, on stdout": lambda c, name: c.says(name, AWAY, "", 1),
}


@pytest.mark.parametrize("how", BROKEN)
def test_without_an_answer_the_last_known_state_stays_with_the_reason(cluster, monkeypatch, how):
    monkeypatch.setenv("PATH", str(cluster.bin))
    submit("quick.py", name="a")
    cluster.says("squeue", row())
    assert "RUNNING" in repr(jobs)
    BROKEN[how](cluster, "squeue")
    slurm._queue._next = float("-inf")
    shown = load(jobs["a"].folder).refresh()  # as a process would that asks for the first time
    assert shown.state == "RUNNING" and shown.reason.startswith("last known state: ")
    assert shown.status.started and "a-001  RUNNING" in repr(jobs)
    (shown.folder / "exit_code").write_text("0")
    assert jobs["a"].state == "COMPLETED"


def test_a_log_of_the_run_before_does_not_make_a_job_that_waits_again_run(cluster):
    folder = submit("quick.py", name="a").folder
    cluster.says("squeue", "", AWAY, 1)
    assert jobs["a"].state == "PENDING"
    (folder / "out.log").touch()
    assert jobs["a"].state == "RUNNING", "nobody has seen it run, but its log has begun"
    for word in ("RUNNING", "PENDING"):
        cluster.says("squeue", row(word=word))
        assert jobs["a"].state == word
    cluster.says("squeue", "", AWAY, 1)
    os.utime(folder / "out.log", (0, time.time() - 60))
    assert jobs["a"].state == "PENDING" and "last known state" in jobs["a"].status.reason
    os.utime(folder / "out.log", (0, time.time() + 60))
    assert jobs["a"].state == "RUNNING"


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("name", ["sacct", "scontrol"])
def test_without_the_other_commands_a_job_that_has_left_the_queue_is_judged_by_its_exit_code(cluster, monkeypatch, name, how):
    monkeypatch.setenv("PATH", str(cluster.bin))
    job = submit("quick.py", name="a")
    BROKEN[how](cluster, name)
    (job.folder / "exit_code").write_text("3")
    assert (jobs["a"].state, jobs["a"].exit_code) == ("FAILED", 3)


def test_rubbish_of_all_commands_ends_no_job(cluster):
    job = submit("quick.py", name="a")
    cluster.says("squeue", row())
    assert jobs["a"].state == "RUNNING"
    for name in ("squeue", "sacct", "scontrol"):
        cluster.says(name, "<html>502 Bad Gateway</html>\n")
    changed(job, submitted=0.0)
    assert jobs["a"].state == "RUNNING" and "502 Bad Gateway" in jobs["a"].reason


# --- one bad item --------------------------------------------------------------------------------------------------------

BAD = (None, [], {}, "x", 7, -1, 1e300, True, ["x", 7], {"x": 7}, "x" * 100_000, [[[]]])


def test_one_damaged_job_json_spoils_no_other(cluster, monkeypatch):
    good = submit("quick.py", name="good")
    bad = submit("quick.py", name="bad")
    cluster.says("squeue", row())
    monkeypatch.setattr(slurm, "POLL_EVERY", 60.0)
    whole = json.loads((bad.folder / "job.json").read_text())
    request = whole["request"]
    contents = [{**whole, name: value} for name in (*whole, "status", "seen", "cluster", "host", "group", "index", "replays")
                for value in BAD]
    contents += [{name: value for name, value in whole.items() if name != left_out} for left_out in whole]
    contents += [{**whole, "request": {**request, name: value}} for name in request for value in BAD]
    contents += [{**whole, "status": {"state": "COMPLETED", name: value}}
                 for name in ("state", "reason", "exit_code", "started", "ended", "position") for value in BAD]
    for content in contents:
        (bad.folder / "job.json").write_text(json.dumps(content))
        assert [line.split()[:2] for line in repr(jobs).splitlines()[1:] if line.startswith("good")] == [["good-001", "RUNNING"]]
        assert "bad-001" in jobs._repr_html_() and repr(load(bad.folder))
        with_error = load(bad.folder)
        if with_error.status.state == "UNKNOWN":
            assert "is damaged (" in with_error.reason
    assert good.folder.is_dir() and len(contents) > 300


@pytest.mark.parametrize("harm", [
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(file.read_bytes()[:100]),
    lambda file: file.write_bytes(b"[" * 100_000),
    lambda file: file.write_bytes(b'"' + b"x" * 20_000_000 + b'"'),
    lambda file: file.write_bytes(b"\xff\xfe\x00"),
    lambda file: (file.unlink(), file.mkdir()),
    lambda file: (file.unlink(), os.mkfifo(file)),
    lambda file: (file.unlink(), file.symlink_to(file)),
], ids=["empty", "truncated", "deep", "huge", "no text", "folder", "pipe", "circle"])
def test_a_job_json_that_cannot_be_read(cluster, harm):
    submit("quick.py", name="good")
    harm(submit("quick.py", name="bad").folder / "job.json")
    cluster.says("squeue", row())
    shown = repr(jobs)
    assert "good-001  RUNNING" in shown and "bad-001   UNKNOWN" in shown and "is damaged" in shown
    with pytest.raises(UsageError, match=r"is damaged .*: submit its command again"):
        jobs["bad"].rerun()


def test_what_is_no_run_in_runs_is_left_out_and_logs_that_are_folders_are_said(cluster):
    job = submit("quick.py", name="a")
    (job.folder.parent / "notes.txt").write_text("mine")
    (job.folder / "out.log").mkdir()
    cluster.says("squeue", row())
    assert len(repr(jobs).splitlines()) == 2
    with pytest.raises(UsageError, match=r"out\.log cannot be read: Is a directory"):
        print(job.log)
    (job.folder / "record.jsonl").mkdir()
    (job.folder / "exit_code").mkdir()
    cluster.says("squeue", row(word="FAILED"))
    assert jobs["a"].state == "FAILED"
