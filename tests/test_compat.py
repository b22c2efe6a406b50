"""The functions of idr_pytools, called as notebooks written for Jean Zay call them."""

import inspect
import re
import time

import pytest
from patience import LIMIT

from dlojz import cli, jobs, submit
from dlojz.compat import idr_pytools
from dlojz.compat.idr_pytools import display_slurm_queue, gpu_jobs_submitter, search_log
from dlojz.jobs import local, script, submission
from dlojz.system import sites
from dlojz.system.errors import UsageError

MODULE = "pytorch-gpu/py3/2.8.0"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    folder = tmp_path / "w"
    cli.main(["workspace", str(folder)])
    lines = ["import os, sys", "print('ran', sys.argv[1:], os.environ.get('NCCL_DEBUG'))", "print('oops', file=sys.stderr)"]
    (folder / "dlojz.py").write_text("\n".join(lines))
    monkeypatch.chdir(folder)
    for name, value in {"DLOJZ_SITE": "laptop", "DLOJZ_QUEUE": str(tmp_path / "queue"), "CUDA_VISIBLE_DEVICES": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    yield folder
    queue = local.Queue(tmp_path / "queue")
    local.cancel(queue.ids()) if queue.ids() else None
    end = time.monotonic() + LIMIT
    while queue.supervised() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.fixture
def asked(workspace, monkeypatch):
    """The requests that would be submitted; each "job" gets the next of Jean Zay's numbers."""
    seen = []

    def start(requests, here, *contents, again=True):
        assert len(requests) == len(contents) == 1 and again
        seen.append(requests[0])
        text = script.render(requests[0], here / "runs" / f"{requests[0].name}-001", site="jean-zay", scale="cluster")
        assert script.lint(text) == []
        seen[-1].__dict__["text"] = text
        return [type("Job", (), {"id": str(1493205 + len(seen)), "run": f"{requests[0].name}-{len(seen):03}"})()]

    monkeypatch.setattr(submission, "start", start)
    monkeypatch.setenv("DLOJZ_SITE", "jean-zay")
    return seen


# ---------------------------------------------------------------- what is asked for


def test_the_arguments_are_those_that_notebooks_use():
    parameters = inspect.signature(gpu_jobs_submitter).parameters
    assert list(parameters) == [
        "srun_commands", "n_gpu", "module", "singularity", "name", "n_gpu_per_task", "time_max", "qos", "partition",
        "constraint", "cpus_per_task", "exclusive", "account", "verbose", "email", "slurm_addon", "script_addon",
    ]  # fmt: skip
    defaults = {name: p.default for name, p in parameters.items()}
    assert (defaults["n_gpu"], defaults["time_max"], defaults["n_gpu_per_task"], defaults["verbose"]) == (1, "02:00:00", 1, 0)
    assert inspect.getfullargspec(search_log)[:4] == (["name", "contains", "with_err"], None, None, ("*", "", False))
    assert inspect.getfullargspec(display_slurm_queue)[:4] == (["name", "timestep"], None, None, (None, 5))


def test_a_call_as_in_a_notebook_of_the_first_day(asked, capsys):
    command = "dlojz.py -b 128 --image-size 176 --test"
    jobid = gpu_jobs_submitter(command, 1, MODULE, name="pseudo", account="for@v100", time_max="00:20:00", constraint="v100-32g")
    assert jobid == ["1493206"]
    one = asked[0]
    assert one.command == ("dlojz.py", "-b", "128", "--image-size", "176", "--test")
    assert (one.name, one.gpus, one.nodes, one.processes, one.cores, one.seconds) == ("pseudo", 1, 1, 1, 10, 1200)
    assert (one.account, one.constraint, one.modules) == ("for@v100", "v100-32g", (MODULE,))
    assert "Submitted batch job 1493206" in capsys.readouterr().out
    for line in ("job-name=pseudo", "gres=gpu:1", "cpus-per-task=10", "hint=nomultithread", "time=0:20:00", "account=for@v100"):
        assert f"#SBATCH --{line}\n" in one.text
    assert f"module load {MODULE}" in one.text


def test_lists_give_a_job_for_each_number_of_gpus_and_each_command(asked):
    jobids = gpu_jobs_submitter([f"dlojz.py -b {b}" for b in (2, 4)], [1, 4, 8], MODULE, name="pseudo", account="for@v100")
    assert jobids == [str(1493206 + i) for i in range(6)] and all(isinstance(one, str) for one in jobids)
    assert [(one.gpus, one.nodes, one.command[2]) for one in asked] == [
        (1, 1, "2"), (1, 1, "4"), (4, 1, "2"), (4, 1, "4"), (8, 2, "2"), (8, 2, "4"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"account": "abc@a100", "n_gpu": 8}, {"nodes": 1, "cores": 8, "constraint": "a100", "modules": ("arch/a100", MODULE)}),
        ({"account": "abc@h100", "n_gpu": 8}, {"nodes": 2, "cores": 24, "constraint": "h100", "modules": ("arch/h100", MODULE)}),
        ({"partition": "gpu_p2", "n_gpu": 16}, {"partition": "gpu_p2", "nodes": 2, "cores": 3}),
        ({"partition": "gpu_p4", "cpus_per_task": 4}, {"partition": "gpu_p4", "cores": 4}),
        ({"n_gpu": 4, "n_gpu_per_task": 2, "account": "abc@v100"}, {"gpus": 4, "processes": 2, "cores": 20}),
        ({"n_gpu": 4, "n_gpu_per_task": 4, "cpus_per_task": 40}, {"processes": 1, "cores": 40}),
        ({"qos": "qos_gpu-dev", "account": "abc@v100"}, {"qos": "qos_gpu-dev"}),
        ({"name": None}, {"name": "dlojz"}),
        ({"exclusive": True}, {"directives": ("--hint=nomultithread", "--exclusive")}),
        ({"email": "a@b.org"}, {"directives": ("--hint=nomultithread", "--mail-user=a@b.org", "--mail-type=END,FAIL")}),
        ({"slurm_addon": "#SBATCH --reservation=course\n"}, {"directives": ("--hint=nomultithread", "--reservation=course")}),
    ],
)
def test_options(asked, options, expected):
    gpu_jobs_submitter("python -u dlojz.py -b 1", **{"module": MODULE, "name": "pseudo", **options})
    assert {field: getattr(asked[0], field) for field in expected} == expected
    assert asked[0].command == ("dlojz.py", "-b", "1")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"srun_commands": "missing.py"}, "no script 'missing.py'"),
        ({"name": "two words"}, "is not a valid run name"),
        ({"name": "x; touch hacked"}, "is not a valid run name"),
        ({"n_gpu": 5, "account": "abc@v100"}, "same number"),
        ({"n_gpu": 12, "partition": "gpu_p2"}, "multiple of 8"),
        ({"n_gpu": [1, -1]}, "whole number"),
        ({"n_gpu": 4, "n_gpu_per_task": 3}, "cannot split the"),
        ({"time_max": "abc"}, "is not a time limit"),
        ({"module": "x; rm -rf /"}, "name of a module"),
        ({"account": "abc; x"}, "account="),
        ({"singularity": "image.sif"}, "containers are not supported"),
        ({"slurm_addon": "--reservation=x"}, "is not a line of sbatch"),
        ({"slurm_addon": "#SBATCH --wrap=$(x)"}, "is not an option"),
        ({"email": "a b"}, "is not an option"),
        ({"script_addon": "rm -rf /"}, "can't be taken over"),
        ({"script_addon": "export X=$(id)"}, "can't be taken over"),
        ({"script_addon": "export X='"}, "can't be taken over"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_submitted(asked, options, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        gpu_jobs_submitter(**{"srun_commands": "dlojz.py", "n_gpu": 1, "module": MODULE, **options})
    assert asked == []


def test_a_refusal_of_the_queue_is_said_and_left_out(asked, monkeypatch, capsys):
    real = submission.start

    def refuses(requests, *rest, **options):
        if requests[0].command[2] == "2":
            raise UsageError("sbatch: error: Invalid account")
        return real(requests, *rest, **options)

    monkeypatch.setattr(submission, "start", refuses)
    assert gpu_jobs_submitter([f"dlojz.py -b {b}" for b in (1, 2, 3)], 1, MODULE) == ["1493206", "1493207"]
    assert "not submitted: sbatch: error: Invalid account" in capsys.readouterr().out


def test_modules_only_where_there_are_any(asked, monkeypatch):
    for name in ("LMOD_CMD", "MODULESHOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    gpu_jobs_submitter("dlojz.py", 1, MODULE)
    monkeypatch.setenv("DLOJZ_SITE", "jean-zay")
    gpu_jobs_submitter("dlojz.py", 1)
    assert asked[0].modules == () and asked[1].modules == sites.load("jean-zay").modules


# ---------------------------------------------------------------- for real, with the queue of this machine


def test_submit_wait_and_read_the_logs(workspace, monkeypatch, capsys):
    monkeypatch.setattr(idr_pytools, "EVERY", 0.1)
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    jobid = gpu_jobs_submitter("dlojz.py -b 1", 1, MODULE, name="pseudo", account="for@v100", time_max="00:10:00", verbose=1)
    again = gpu_jobs_submitter("dlojz.py -b 1", 1, MODULE, name="pseudo", account="for@v100", time_max="00:10:00",
                               script_addon="unset NCCL_DEBUG  # quiet\nexport OTHER='a b'")
    other = gpu_jobs_submitter(["dlojz.py -b 2"], [1], name="other")
    assert jobid != again and len(jobid + again + other) == 3
    display_slurm_queue("pseudo", timestep=0.1)
    out = capsys.readouterr().out
    assert out.endswith("\n Done!\n") and "pseudo-001" in out and "other-001  " not in out.split("Submitted batch job")[-1]
    display_slurm_queue(timestep=0.1)
    assert jobs["other"].state == "COMPLETED"

    with open(search_log(contains=jobid[0])[0]) as log:
        assert log.read() == "ran ['-b', '1'] INFO\n"
    with open(search_log(contains=again[0])[0]) as log:
        assert log.read() == "ran ['-b', '1'] None\n"
    with open(search_log(contains=jobid[0], with_err=True)["stderr"][0]) as log:
        assert log.read() == "oops\n"
    assert search_log("pseudo", contains=jobid[0]) == ["runs/pseudo-001/out.log"]
    assert search_log() == ["runs/pseudo-001/out.log", "runs/pseudo-002/out.log", "runs/other-001/out.log"]
    assert search_log("ps*") == search_log("pseudo", contains="1nodes_1tasks")
    both = search_log(name="other", with_err=True)
    assert both == {"stdout": ["runs/other-001/out.log"], "stderr": ["runs/other-001/err.log"]}
    assert search_log(contains=time.strftime("%Y-%m-%d_*:")) == search_log()
    assert search_log("nobody") == [] and search_log(contains="999999") == []
    monkeypatch.chdir(workspace / "runs/pseudo-001")
    monkeypatch.setenv("DLOJZ_WORKSPACE", str(workspace))
    assert search_log("other") == [str(workspace / "runs/other-001/out.log")]


def test_an_empty_queue_is_done_at_once(workspace, capsys):
    display_slurm_queue()
    assert capsys.readouterr().out.endswith("Done!\n")


def test_stopping_the_cell_leaves_the_jobs_alone(workspace, monkeypatch, capsys):
    (workspace / "slow.py").write_text("import time; time.sleep(60)")
    job = submit("slow.py", name="slow")

    def interrupt(seconds):
        assert seconds == 5
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupt)
    display_slurm_queue("slow")
    monkeypatch.undo()
    monkeypatch.setenv("DLOJZ_QUEUE", str(workspace.parent / "queue"))
    assert "Stopped; the jobs keep running" in capsys.readouterr().out
    assert job.state in ("PENDING", "RUNNING")
    job.cancel()
    assert job.wait(LIMIT).state == "CANCELLED"
