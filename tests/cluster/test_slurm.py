"""Jobs on a real Slurm, through the launcher and through the verbs.

Most of what is waited for are Slurm's own delays, so all jobs of the first part are submitted together, by the `jobs` fixture,
and each test waits for its own. The tests of the second part stop the controller or the accounting, one at a time.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from patience import LIMIT, patient

from dlojz.jobs import script
from dlojz.jobs import slurm as launcher
from dlojz.jobs.states import Request, Status, Unreachable
from dlojz.labs import workspace
from dlojz.system.errors import UsageError
from dlojz.training import records

ROOT = Path(__file__).resolve().parents[2]
PID_FILE = Path("/run/dlojz-slurm/slurmctld.pid")

SCRIPTS = {
    "say.py": """
        import json, os, socket, sys, time
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "MASTER_ADDR", "MASTER_PORT", "RANK",
                 "CUDA_VISIBLE_DEVICES", "SLURM_RESTART_COUNT", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS",
                 "HUB", "SLURM_CPUS_PER_TASK", "DLOJZ_RUN")
        print(json.dumps({name: os.environ.get(name) for name in names} | {"host": socket.gethostname(), "args": sys.argv[1:]}),
              flush=True)
        time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
        sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    """,
    "die.py": "import os; os.kill(os.getpid(), 9)",
    "trials.py": """
        import os, pathlib, time
        from dlojz.training import trials
        def objective(trial):
            pathlib.Path(f"runs/has-one-{os.environ['SLURM_ARRAY_TASK_ID']}").touch()
            if os.environ["SLURM_ARRAY_TASK_ID"] == "0":
                os.kill(os.getpid(), 9)
            until = time.monotonic() + 200
            while len(list(pathlib.Path("runs").glob("has-one-*"))) < 3 and time.monotonic() < until:
                time.sleep(0.1)
            return trial.suggest_float("x", -1, 1) ** 2
        trials.Search("runs/shared.journal").run(objective, 12)
    """,
    "stubborn.py": """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("here", flush=True)
        time.sleep(300)
    """,
    "saves.py": """
        import os, signal, sys, time
        if "--resume" in sys.argv:
            print("resumed", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGUSR1, lambda *_: sys.exit(75))
        print("started", flush=True)
        time.sleep(300)
    """,
    "twice.py": """
        import os, time
        first = "SLURM_RESTART_COUNT" not in os.environ
        print("started" if first else "started again", flush=True)
        time.sleep(300 if first else 0)
    """,
    "meet.py": """
        import os, runpy, socket, sys
        from dlojz import distributed
        place = distributed.processes()
        print(f"rank {place.rank} of {place.world_size} on {socket.gethostname()}, master {os.environ['MASTER_ADDR']}:"
              f"{os.environ['MASTER_PORT']}", flush=True)
        sys.argv[0] = "train.py"
        runpy.run_path("train.py", run_name="__main__")
    """,
}

SIZES = "--data images --model resnet18 --image-size 32 -b 4 --device cpu"


class Lab:
    """A workspace, and jobs in it that are submitted and followed through the launcher."""

    def __init__(self, folder: Path):
        self.folder = folder
        workspace.create(folder, ["all"])
        for name, content in SCRIPTS.items():
            (folder / name).write_text(textwrap.dedent(content))

    def run_folders(self, name, commands, **more):
        asked = {"partition": "gpu", "account": "research", "cores": 1, **more}
        requests = [Request(name, tuple(command.split()), "test-cluster", **asked) for command in commands]
        folders = []
        for command, request in zip(commands, requests):
            number = 1 + len(list((self.folder / "runs").glob(f"{name}-*")))
            folder = self.folder / "runs" / f"{name}-{number:03}"
            folder.mkdir()
            resumes = command.startswith(("train.py", "saves.py"))
            (folder / "job.sh").write_text(script.render(request, folder, site="test-cluster", scale="ci", resumes=resumes))
            folders.append(folder)
        return folders, requests[0]

    def submit(self, name, *commands, **more):
        folders, request = self.run_folders(name, commands, **more)
        ids = launcher.submit(folders, request)
        jobs = [as_job(number, folder, request) for number, folder in zip(ids, folders)]
        return jobs if len(jobs) > 1 else jobs[0]


def as_job(number, folder, request=None):
    return SimpleNamespace(id=number, folder=folder, request=request, submitted=time.time(), status=Status("PENDING"),
                           cluster="")


def status(job):
    job.status = launcher.poll([job]).get(job.id, job.status)
    return job.status


def wait(job, until=lambda status: not status.active, timeout=LIMIT):
    """Follow a job until ``until(status)``; its last status."""
    end = time.monotonic() + timeout
    while not until(status(job)):
        assert time.monotonic() < end, f"job {job.id} after {timeout} s: {job.status}; {output(job)[-2000:]}"
        time.sleep(0.3)
    return job.status


def is_running(status):
    return status.state == "RUNNING"


def is_pending(status):
    return status.state == "PENDING"


def wait_for(condition, what, timeout=LIMIT):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"{what}: not after {timeout} s"
        time.sleep(0.2)


def output(job):
    """All that the job wrote, for the message of a failed assertion."""
    return "".join(f"--- {log.name}\n{log.read_text()}" for log in sorted(job.folder.glob("*.log")) if log.stat().st_size)


def said(job):
    """What say.py printed: one dictionary a process."""
    return [json.loads(line) for line in (job.folder / "out.log").read_text().splitlines() if line.startswith("{")]


def slurm_says(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False).stdout


@pytest.fixture(scope="module")
def lab(slurm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster") / "work space"  # a blank, on purpose
    lab = Lab(folder)
    make_images(folder / "images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launcher, "POLL_EVERY", 0.5)  # so that tests see short states
        patch.setenv("OMP_NUM_THREADS", "1")  # all nodes share the cores of this machine
        yield lab


def make_images(folder):
    from PIL import Image

    for part, count in (("train", 40), ("val", 8)):
        for label, name in enumerate(("dark", "light")):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                colour = tuple((60 + 90 * label + 7 * number * k) % 256 for k in (1, 2, 3))
                Image.new("RGB", (40, 36), colour).save(folder / part / name / f"{number}.jpg")


@pytest.fixture(scope="module")
def jobs(lab):
    """Everything that can run side by side, submitted at once. The slowest are first."""
    def small(name, *commands, **more):
        return lab.submit(name, *commands, **{"gpus": 0, "partition": "cpu", **more})

    timeout = small("timeout", "stubborn.py", seconds=60)
    preempted = lab.submit("preempted", f"train.py {SIZES} -e 12 --checkpoint-every 5", partition="spot", gpus=4,
                           directives=("--nodelist=node4",))
    train = lab.submit("train", f"meet.py {SIZES} -e 2", nodes=2, gpus=4, processes=4)
    return SimpleNamespace(
        timeout=timeout,
        preempted=preempted,
        train=train,
        straight=lab.submit("straight", f"train.py {SIZES} -e 12", directives=(f"--dependency=afterany:{train.id}",)),
        one=lab.submit("one", "say.py 0 0 a\\ b"),
        nodefail=lab.submit("nodefail", "say.py 300", directives=("--nodelist=node3", "--no-requeue")),
        putback=lab.submit("putback", "twice.py", directives=("--nodelist=node3",)),
        never=lab.submit("never", "say.py", qos="short", seconds=600),
        held=lab.submit("held", "say.py", directives=("--hold",)),
        saves=small("saves", "saves.py"),
        requeued=small("requeued", "twice.py"),
        fails=small("fails", "say.py 0 3"),
        high=small("high", "say.py 0 137"),
        dies=small("dies", "die.py"),
        cpu=small("cpu", "say.py"),
        sweep=small("sweep", "say.py 0 0 x", "say.py 0 4 y", "say.py 300 0 z"),
        cancelled=small("cancelled", "stubborn.py"),
    )


@pytest.fixture(scope="module")
def disturbed(lab, jobs):
    """What stops running jobs, all at once, because each of them then waits for 12 to 17 s before it starts again: a node
    fails, somebody puts a job back into the queue, the warning before a time limit comes, a job of higher priority comes."""
    for job in (jobs.nodefail, jobs.putback, jobs.requeued, jobs.saves):
        wait_for(lambda job=job: output(job), "the first line")
    slurm_says("scontrol", "update", "nodename=node3", "state=down", "reason=test")
    slurm_says("scontrol", "requeue", jobs.requeued.id)
    slurm_says("scancel", "--signal=USR1", jobs.saves.id)
    for job in (jobs.putback, jobs.requeued, jobs.saves):
        wait(job, is_pending)
        assert (job.status.started, job.status.exit_code) == (None, None)
    wait_for(lambda: len(records.read(jobs.preempted.folder).steps) > 20, "20 steps of training", timeout=LIMIT)
    jobs.urgent = lab.submit("urgent", "say.py 1", gpus=4, directives=("--nodelist=node4",))
    wait(jobs.preempted, is_pending)


# ------------------------------------------------------------------------------------------------------- part 1: side by side


def test_one_node(jobs, disturbed):
    final = wait(jobs.one)
    assert (final.state, final.exit_code, final.reason) == ("COMPLETED", 0, ""), output(jobs.one)
    assert jobs.one.submitted - 2 < final.started <= final.ended < time.time() + 1
    (seen,) = said(jobs.one)
    assert seen["host"].startswith("node") and seen["MASTER_ADDR"] == seen["host"]
    assert seen["MASTER_PORT"] == str(10000 + int(jobs.one.id) % 20000)
    assert (seen["SLURM_JOB_ACCOUNT"], seen["SLURM_JOB_PARTITION"], seen["SLURM_CPUS_PER_TASK"]) == ("research", "gpu", "1")
    assert len(seen["CUDA_VISIBLE_DEVICES"].split(",")) == 1


def test_a_node_without_gpus(jobs):
    assert wait(jobs.cpu).state == "COMPLETED"
    assert said(jobs.cpu)[0]["host"] == "cpu1"


def test_two_nodes_train_one_model(jobs):
    final = wait(jobs.train, timeout=LIMIT)
    assert (final.state, final.exit_code) == ("COMPLETED", 0), output(jobs.train)
    log = (jobs.train.folder / "out.log").read_text()
    places = sorted(re.findall(r"^rank (\d) of (\d) on (\w+), master (\w+):(\d+)$", log, re.MULTILINE))
    hosts = [place[2] for place in places]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
    port = str(10000 + int(jobs.train.id) % 20000)
    assert places == [(str(rank), "4", host, hosts[0], port) for rank, host in enumerate(hosts)]

    record = records.read(jobs.train.folder)
    assert record.start["world_size"] == 4 and record.start["global_batch"] == 16
    assert [step["step"] for step in record.steps] == list(range(1, 11))  # 80 images, 2 epochs
    assert all(step["images"] == 16 for step in record.steps)
    assert [validation["images"] for validation in record.validations] == [16, 16], "no image is counted twice"


def test_an_array_gives_each_run_its_own_script_folder_and_state(jobs):
    first, second, third = jobs.sweep
    base = first.id.removesuffix("_0")
    assert [job.id for job in jobs.sweep] == [f"{base}_{task}" for task in range(3)]
    assert (wait(first).state, wait(second).state) == ("COMPLETED", "FAILED")
    assert second.status.exit_code == 4
    wait(third, is_running)
    wait_for(lambda: '"args"' in output(third), "its first line")
    assert [said(job)[0]["args"][2] for job in jobs.sweep] == ["x", "y", "z"]
    ports = {said(job)[0]["MASTER_PORT"] for job in jobs.sweep}
    assert len(ports) == 3, "two tasks of an array must not meet on one port"
    launcher.cancel([third.id])
    assert wait(third).state == "CANCELLED"
    assert status(first).state == "COMPLETED"


def test_exit_codes(jobs):
    assert (wait(jobs.fails).state, jobs.fails.status.exit_code) == ("FAILED", 3)
    assert jobs.fails.status.reason == "exit code 3"
    assert (wait(jobs.high).state, jobs.high.status.exit_code) == ("FAILED", 137)
    assert wait(jobs.dies).state == "FAILED"
    assert jobs.dies.status.exit_code in (9, 137)  # which one depends on the version of srun


def test_cancel_ends_even_what_ignores_it(jobs):
    wait(jobs.cancelled, is_running)
    wait_for(lambda: "here" in output(jobs.cancelled), "the job's first line")
    launcher.cancel([jobs.cancelled.id])
    final = wait(jobs.cancelled)
    assert (final.state, final.exit_code) == ("CANCELLED", None)
    processes = subprocess.run(["pgrep", "-f", "stubborn.py"], capture_output=True, text=True, check=False).stdout.split()
    mine = [pid for pid in processes if f"SLURM_JOB_ID={jobs.cancelled.id}" in _environment(pid)]
    assert mine == []
    launcher.cancel([jobs.cancelled.id, "999999"])  # ended, unknown: nothing to do, and no error


def _environment(pid):
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def test_why_a_job_waits_is_said_in_words(jobs):
    reason = wait(jobs.never, lambda status: "QOS" in status.reason).reason
    assert reason.startswith("QOSMaxWallDurationPerJobLimit: will not start, it asks for more time than the QoS allows a job")
    assert wait(jobs.held, lambda status: "Held" in status.reason).reason.startswith("JobHeldUser: held")
    launcher.cancel([jobs.never.id, jobs.held.id])
    assert wait(jobs.never).state == wait(jobs.held).state == "CANCELLED"
    assert jobs.never.status.started is None


def test_a_failed_node(jobs, disturbed):
    """Two jobs were on it: one may be put back into the queue, the other may not."""
    final = wait(jobs.nodefail)
    assert (final.state, final.exit_code, final.reason) == ("NODE_FAIL", None, "one of its nodes failed")
    assert wait(jobs.putback).state == "COMPLETED"
    assert jobs.putback.folder.joinpath("out.log").read_text() == "started\nstarted again\n", "one log, written on"


def test_requeue(jobs, disturbed):
    final = wait(jobs.requeued)
    assert (final.state, final.exit_code) == ("COMPLETED", 0)
    assert jobs.requeued.folder.joinpath("out.log").read_text() == "started\nstarted again\n"


def test_a_job_that_saved_before_its_time_limit_goes_on(jobs, disturbed):
    final = wait(jobs.saves)
    assert (final.state, final.exit_code) == ("COMPLETED", 0), output(jobs.saves)
    assert jobs.saves.folder.joinpath("out.log").read_text() == "started\nresumed\n"


def test_preemption_and_resume_give_the_same_result(jobs, disturbed):
    assert wait(jobs.urgent).state == "COMPLETED"
    final = wait(jobs.preempted, timeout=LIMIT)
    assert (final.state, final.exit_code) == ("COMPLETED", 0), output(jobs.preempted)
    assert wait(jobs.straight, timeout=LIMIT).state == "COMPLETED", output(jobs.straight)

    resumed, straight = records.read(jobs.preempted.folder), records.read(jobs.straight.folder)
    assert len(resumed.starts) == 2 and len(straight.starts) == 1
    assert 0 < resumed.start["resumed_at"] < 240
    assert [(step["step"], step["loss"]) for step in resumed.steps] == [(step["step"], step["loss"]) for step in straight.steps]
    last, expected = resumed.validations[-1], straight.validations[-1]
    assert (last["loss"], last["accuracy"]) == (expected["loss"], expected["accuracy"])


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"account": "nosuch"}, r"Invalid account.*sacctmgr show assoc"),
        ({"account": "closed"}, r"Invalid account.*sacctmgr show assoc"),
        ({"partition": "nope"}, r"Invalid partition.*sinfo -s"),
        ({"gpus": 8}, r"node configuration is not available.*for more nodes"),
        ({"partition": "cpu", "gpus": 1}, r"node configuration is not available"),
        ({"qos": "nosuch"}, r"Invalid qos.*sacctmgr show assoc"),
        ({"account": "teaching", "qos": "high"}, r"Invalid qos"),
        ({"constraint": "a100"}, r"Invalid feature specification.*sinfo -o '%P %f'"),
        ({"nodes": 9, "processes": 9, "gpus": 9}, r"Node count.*ask for fewer nodes"),
        ({"nodes": 8, "processes": 32, "gpus": 32, "cores": 2}, r"More processors requested than permitted.*sinfo"),
        ({"cores": 9}, r"CPU count per node.*fewer cores"),
        ({"seconds": 600, "partition": "debug"}, r"time limit is invalid.*ask for less time"),
        ({"directives": ("--mem=999G",)}, r"Memory specification.*less memory"),
        ({"directives": ("--bogus-flag",)}, r"unrecognized option '--bogus-flag'.*site's profile"),
        ({"directives": ("--reservation=x",)}, r"reservation is invalid.*scontrol show reservation"),
        ({"directives": ("--gres=tpu:1",)}, r"generic resource.*name the GPUs"),
    ],
    ids=lambda value: ",".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_refusals(lab, asked, words):
    with pytest.raises(UsageError, match=words) as error:
        lab.submit("refused", "say.py", **asked)
    assert "\n" not in str(error.value)
    assert not isinstance(error.value, Unreachable)


def test_a_refused_sweep_leaves_nothing_in_the_queue(lab):
    folders, request = lab.run_folders("refusedsweep", ["say.py", "say.py"], account="nosuch")
    with pytest.raises(UsageError, match="Invalid account"):
        launcher.submit(folders, request)
    assert "refusedsweep" not in slurm_says("squeue", "--me", "-h", "-o", "%j")
    assert launcher.recover(folders) == {}


def test_a_folder_that_cannot_be_written_on_the_node(lab):
    folders, request = lab.run_folders("gone", ["say.py"], directives=("--begin=now+2",))
    (number,) = launcher.submit(folders, request)
    shutil.rmtree(folders[0])
    final = wait(as_job(number, folders[0]))
    assert final.state == "FAILED" and "JobLaunchFailure" in final.reason and "folder" in final.reason


HUB = {
    "SLURM_JOB_ID": "4242", "SLURM_JOBID": "4242", "SLURM_NTASKS": "1", "SLURM_NPROCS": "1", "SLURM_PROCID": "0",
    "SLURM_NNODES": "1", "SLURM_CPUS_PER_TASK": "2", "SLURM_MEM_PER_NODE": "1", "SLURM_JOB_NODELIST": "hub1", 
    "SLURM_EXPORT_ENV": "NONE",
    "SBATCH_PARTITION": "cpu", "SBATCH_ACCOUNT": "nosuch", "SBATCH_EXPORT": "NONE", "SLURM_TIME_FORMAT": "relative",
    "SQUEUE_STATES": "TIMEOUT", "SQUEUE_PARTITION": "cpu", "SACCT_FORMAT": "jobid", "SLURM_CONF": "/etc/slurm/slurm.conf",
    "RANK": "7", "WORLD_SIZE": "8", "LOCAL_RANK": "7", "MASTER_ADDR": "hub1", "MASTER_PORT": "1", "PMIX_RANK": "7",
    "CUDA_VISIBLE_DEVICES": "7", "HUB": "yes",
}


def test_submitted_from_a_notebook_server_that_is_a_job_itself(lab, monkeypatch):
    for name, value in HUB.items():
        monkeypatch.setenv(name, value)
    job = lab.submit("hub", "say.py", nodes=2, gpus=2, processes=2, cores=3)
    final = wait(job)
    assert (final.state, final.exit_code) == ("COMPLETED", 0), output(job)
    assert job.submitted - 2 < final.started < time.time() + 1
    seen = sorted(said(job), key=lambda one: one["SLURM_PROCID"])
    assert [one["SLURM_PROCID"] for one in seen] == ["0", "1"]
    assert len({one["host"] for one in seen}) == 2
    for one in seen:
        assert one["MASTER_ADDR"] == seen[0]["host"] and one["MASTER_PORT"] == str(10000 + int(job.id) % 20000)
        assert (one["SLURM_NTASKS"], one["SLURM_JOB_ID"], one["SLURM_CPUS_PER_TASK"]) == ("2", job.id, "3")
        assert (one["RANK"], one["SLURM_JOB_PARTITION"], one["SLURM_JOB_ACCOUNT"]) == (None, "gpu", "research")
        assert one["CUDA_VISIBLE_DEVICES"] != "7"
        assert one["HUB"] == "yes", "the user's own variables go along"


def test_submitted_from_inside_a_job(lab):
    """The same for real: a job submits a job, as a notebook does whose server was started by Slurm."""
    folders, request = lab.run_folders("inner", ["say.py"], nodes=2, gpus=2, processes=2)
    (lab.folder / "submits.py").write_text(
        "from pathlib import Path\nfrom dlojz.jobs import slurm\nfrom dlojz.jobs.states import Request\n"
        f"print(*slurm.submit([Path({str(folders[0])!r})], {request!r}))\n"
    )
    outer = lab.submit("outer", "submits.py")
    assert wait(outer).state == "COMPLETED", output(outer)
    inner = as_job((outer.folder / "out.log").read_text().strip(), folders[0])
    assert wait(inner).state == "COMPLETED", output(inner)
    assert [one["SLURM_NTASKS"] for one in said(inner)] == ["2", "2"]
    assert len({one["host"] for one in said(inner)}) == 2


# ---------------------------------------------------------------------------------------------------------------- the verbs


def dlojz(lab, *words, code=0, before="pass"):
    """The shell's verbs, in the workspace: what they print. ``before`` is Python that runs first."""
    environment = os.environ | {"DLOJZ_SITE": "test-cluster", "PYTHONPATH": str(ROOT)}
    start = f"import sys; from dlojz import cli; {before}; sys.exit(cli.main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", start, *words], cwd=lab.folder, env=environment, capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def test_the_verbs_in_a_shell(lab):
    assert "submitted as job" in dlojz(lab, "submit", "--name", "shell", "--time", "5", "--", "say.py", "60")
    assert "already exists" in dlojz(lab, "submit", "--name", "shell", "--time", "5", "--", "say.py", "60")
    wait_for(lambda: "RUNNING" in dlojz(lab, "jobs"), "RUNNING")
    wait_for(lambda: '"SLURM_PROCID": "0"' in dlojz(lab, "log", "shell"), "the log")
    dlojz(lab, "cancel", "shell")
    wait_for(lambda: re.search("shell-001 +CANCELLED", dlojz(lab, "jobs")), "CANCELLED")
    refused = dlojz(lab, "submit", "--account", "nosuch", "--", "say.py", code=2)
    assert re.fullmatch(r"dlojz: Slurm refused the job \(Invalid account .*\n", refused)


def test_the_verbs_in_python(lab, monkeypatch):
    from dlojz import jobs, submit

    monkeypatch.setenv("DLOJZ_SITE", "test-cluster")
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(lab.folder))
    group = submit(["say.py 0 0 a", "say.py 0 5 b"], name="python", time=5)
    two = submit("say.py", name="nodes", nodes=2, gpus=4, time=5)
    assert submit(["say.py 0 0 a", "say.py 0 5 b"], name="python", time=5)[0].found
    group.wait(LIMIT)
    assert group.states == ["COMPLETED", "FAILED"]
    assert (group[1].exit_code, group[1].reason, group[0].log.count('"a"')) == (5, "exit code 5", 1)
    assert two.wait(LIMIT).state == "COMPLETED"
    assert two.log.count('"SLURM_NTASKS": "4"') == 4
    assert jobs["nodes"].id == two.id and two.elapsed < patient(60)
    again = two.rerun()
    assert again.id != two.id and again.wait(LIMIT).state == "COMPLETED"


def test_an_array_of_workers_shares_a_search_and_one_of_them_is_killed(lab, monkeypatch):
    pytest.importorskip("optuna")
    from dlojz import submit
    from dlojz.training import trials

    monkeypatch.setenv("DLOJZ_SITE", "test-cluster")
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(lab.folder))
    group = submit(["trials.py"] * 3, name="search", time=5)
    group.wait(LIMIT)
    assert sorted(group.states) == ["COMPLETED", "COMPLETED", "FAILED"]
    found = trials.Search(lab.folder / "runs" / "shared.journal").study.trials
    assert [trial.state.name for trial in found] == ["COMPLETE"] * 12
    assert len({claim["worker"] for trial in found for claim in trials.attempts(trial.user_attrs)}) == 3
    assert [len(trials.attempts(trial.user_attrs)) for trial in found].count(2) == 1


# ------------------------------------------------------------------------------------------- part 2: answers that never come


def shim(folder, name, content):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/bash\n{content}\n")
    (folder / name).chmod(0o755)


def count_in_queue(lab, name):
    """How many jobs of this name Slurm was given for the workspace, ended ones too."""
    return slurm_says("squeue", "--me", "-h", "-r", "-t", "all", "-o", "%j|%Z").splitlines().count(f"{name}|{lab.folder}")


def test_an_answer_that_is_lost(lab, tmp_path, monkeypatch):
    real = shutil.which("sbatch")
    shim(tmp_path, "sbatch", f"{real} \"$@\" > /dev/null; echo 'sbatch: error: Batch job submission failed: Socket timed out on "
                             f"send/recv operation' >&2; echo x >> {tmp_path}/calls; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    job = lab.submit("lost", "say.py")
    assert wait(job).state == "COMPLETED"
    assert (tmp_path / "calls").read_text() == "x\n" and count_in_queue(lab, "lost") == 1


def test_a_submitter_that_is_killed(lab, tmp_path, monkeypatch):
    """The job is in the queue, its id was never written down: it is found, and so are the tasks of a sweep."""
    folders, request = lab.run_folders("orphan", ["say.py", "say.py"])
    shim(tmp_path, "sbatch", f'{shutil.which("sbatch")} "$@" > /dev/null; kill -9 $PPID')
    code = (f"from pathlib import Path; from dlojz.jobs import slurm; from dlojz.jobs.states import Request\n"
            f"slurm.submit([Path(f) for f in {[str(folder) for folder in folders]!r}], {request!r})")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=LIMIT, check=False)
    assert done.returncode == -signal.SIGKILL
    found = launcher.recover(folders)
    assert list(found) == folders and count_in_queue(lab, "orphan") == 2
    jobs = [as_job(found[folder], folder) for folder in folders]
    assert [wait(job).state for job in jobs] == ["COMPLETED", "COMPLETED"]
    monkeypatch.setattr(launcher, "_queue", launcher.Queue(ask=dict))
    wait_for(lambda: launcher.recover(folders) == found, "the accounting finds what the queue has forgotten")


@pytest.mark.parametrize("kind", ["missing", "refuses"])
def test_without_accounting(lab, tmp_path, monkeypatch, kind):
    for command in ("sbatch", "squeue", "scontrol", "scancel"):
        (tmp_path / command).symlink_to(shutil.which(command))
    if kind == "refuses":
        shim(tmp_path, "sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    fails, fine = lab.submit("fails", "say.py 0 3"), lab.submit("fine", "say.py")
    monkeypatch.setenv("PATH", str(tmp_path))
    wait(fine)
    wait(fails)
    assert (fails.status.state, fails.status.exit_code) == ("FAILED", 3)
    (fails.folder / "exit_code").unlink()
    assert (status(fails).state, status(fails).exit_code) == ("FAILED", 3), "scontrol knows"
    assert (fine.status.state, fine.status.exit_code) == ("COMPLETED", 0)
    forgotten = as_job("999999", fine.folder)
    assert (status(forgotten).state, status(forgotten).exit_code) == ("COMPLETED", 0), "the file of its script knows"


def test_a_job_that_nobody_knows(lab, tmp_path):
    job = as_job("999999", tmp_path)
    assert status(job).state == "PENDING"  # a new one may be known to another server than the one that was asked
    job.submitted -= 3600
    final = status(job)
    assert final.state == "FAILED" and "Slurm no longer lists this job" in final.reason


def start_controller():
    """A busy machine may be too slow for the limits of one start."""
    for _ in range(2):
        done = subprocess.run([Path(__file__).parent / "up"], capture_output=True, text=True, timeout=LIMIT)
        if done.returncode == 0:
            return
    raise AssertionError(done.stdout + done.stderr)


def test_the_controller_is_stopped_and_started_again(lab, monkeypatch):
    """Submit, poll and cancel while it is away; all come to their end once it is back, and nothing is done twice."""
    monkeypatch.setattr(launcher, "AWAY_EVERY", 2.0)
    running = lab.submit("running", "say.py 300")
    wait(running, is_running)
    wait_for(lambda: '"args"' in output(running), "its first line")  # srun asks the controller too, until the script runs
    os.kill(int(PID_FILE.read_text()), signal.SIGTERM)
    wait_for(lambda: not PID_FILE.exists(), "the end of the controller", 30)

    outcome, errors = {}, []

    def act(name, function):
        try:
            outcome[name] = function()
        except Exception as error:
            errors.append(f"{name}: {error!r}")

    threads = [
        threading.Thread(target=act, args=("submit", lambda: lab.submit("meanwhile", "say.py", gpus=0, partition="cpu"))),
        threading.Thread(target=act, args=("cancel", lambda: launcher.cancel([running.id]))),
    ]
    impatient = "from dlojz.jobs import slurm; slurm.PATIENCE, slurm.QUERY_LIMIT, slurm.SUBMIT_LIMIT = 1, 1, 1"
    ask = ("submit", "--name", "verb", "--partition", "cpu", "--gpus", "0", "--", "say.py")
    try:
        for thread in threads:
            thread.start()
        with pytest.raises(Unreachable, match=r"^Slurm does not answer \(.*\): try again in a minute$"):
            while True:  # the last answer is good for two seconds
                status(running)
                time.sleep(0.2)
        assert "submit again in a minute, nothing is done twice" in dlojz(lab, *ask, before=impatient, code=2)
        assert "Slurm does not answer" in dlojz(lab, "jobs", before=impatient)
    finally:
        start_controller()
    for thread in threads:
        thread.join(timeout=LIMIT)
    assert errors == [] and set(outcome) == {"submit", "cancel"}
    wait_for(lambda: _answers(running), "an answer", 30)
    assert wait(outcome["submit"]).state == "COMPLETED", output(outcome["submit"])
    assert count_in_queue(lab, "meanwhile") == 1
    ended = wait(running)
    assert ended.state == "CANCELLED", (ended, output(running))
    assert "submitted as job" in dlojz(lab, *ask)
    assert "already exists" in dlojz(lab, *ask)
    assert count_in_queue(lab, "verb") == 1


def _answers(job):
    try:
        return status(job)
    except Unreachable:
        return None


def test_a_controller_that_hangs_and_wakes_up(lab, monkeypatch):
    """sbatch reaches it and gives up waiting; the controller carries the request out when it wakes up."""
    monkeypatch.setattr(launcher, "SUBMIT_LIMIT", 3.0)
    controller = int(PID_FILE.read_text())
    os.kill(controller, signal.SIGSTOP)
    waker = threading.Timer(5, os.kill, (controller, signal.SIGCONT))
    waker.start()
    try:
        job = lab.submit("hanging", "say.py")
    finally:
        waker.cancel()
        os.kill(controller, signal.SIGCONT)
    wait_for(lambda: _answers(job), "an answer", 30)
    assert wait(job).state == "COMPLETED"
    assert count_in_queue(lab, "hanging") == 1


def test_the_time_limit(jobs):
    """Last, because it takes up to two minutes; the job was the first to be submitted."""
    final = wait(jobs.timeout, timeout=LIMIT)
    assert (final.state, final.exit_code) == ("TIMEOUT", None)
    assert final.reason == "reached its time limit"
    assert final.ended - final.started > 55
