"""Who am I among the processes? Each launcher's environment, and the wrong ones."""

import os
import subprocess

import pytest

from dlojz.system.errors import UsageError
from dlojz.training import distributed
from dlojz.training.distributed import Processes, processes

MEET = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_alone():
    assert processes({}) == Processes() == Processes(0, 1, 0, 1, "alone") and Processes().is_main


@pytest.mark.parametrize("rank, local", [(0, 0), (5, 1)])
def test_torchrun(rank, local):
    env = MEET | {"RANK": str(rank), "WORLD_SIZE": "8", "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": "4"}
    assert processes(env) == Processes(rank, 8, local, 4, "torchrun") and Processes(rank, 8).is_main == (rank == 0)


def test_torchrun_with_one_process_needs_no_place_to_meet():
    assert processes({"RANK": "0", "WORLD_SIZE": "1"}) == Processes(0, 1, 0, 1, "torchrun")


def slurm(rank, tasks, nodes=1, local=None, **more):
    """What srun gives to each task of a step; what Slurm gives to a job is there, too."""
    return {"SLURM_JOB_ID": "123456", "SLURM_NTASKS": str(tasks), "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(tasks),
            "SLURM_STEP_NUM_NODES": str(nodes), "SLURM_LOCALID": str(rank if local is None else local),
            "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_STEP_NODELIST": "node[1-2]", **more}


@pytest.fixture
def scontrol(monkeypatch):
    """Slurm's own program, which knows how lists of nodes are written."""
    asked = []

    def run(words, **how):
        asked.append(words)
        return subprocess.CompletedProcess(words, 0, "node1\nnode2\n", "")

    monkeypatch.setattr(distributed.subprocess, "run", run)
    return asked


def test_srun_on_one_node(scontrol):
    env = slurm(3, 4)
    assert processes(env) == Processes(3, 4, 3, 4, "srun")
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"], env["MASTER_PORT"]) == ("3", "4", "127.0.0.1", "13456")
    assert not scontrol


def test_srun_on_several_nodes(scontrol):
    env = slurm(6, 8, nodes=2, local=2)
    assert processes(env) == Processes(6, 8, 2, 4, "srun") and env["MASTER_ADDR"] == "node1"
    assert scontrol == [["scontrol", "show", "hostnames", "node[1-2]"]]


def test_srun_with_unequal_nodes(scontrol):
    assert processes(slurm(4, 5, nodes=2, local=1)).local_size == 3


def test_what_the_job_has_set_is_kept(scontrol):
    env = slurm(1, 2, nodes=2, local=0, MASTER_ADDR="ib-node1", MASTER_PORT="12000")
    processes(env)
    assert (env["MASTER_ADDR"], env["MASTER_PORT"]) == ("ib-node1", "12000") and not scontrol


def test_srun_is_asked_twice(scontrol):
    """A script may start another one; what was set for torch then says the same."""
    env = slurm(3, 4)
    first = processes(env)
    assert (processes(env).rank, processes(env).world_size) == (first.rank, first.world_size)


@pytest.mark.parametrize("env", [
    {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"},  # a notebook server in an allocation
    {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": "1", "SLURM_LOCALID": "0"},
    {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_STEP_NUM_TASKS": ""},
    {"RANK": "3"}, {"WORLD_SIZE": "4"}, {"LOCAL_RANK": "1"},
])
def test_a_notebook_server_in_an_allocation_is_alone(env):
    before = dict(env)
    assert processes(env) == Processes() and env == before


@pytest.mark.parametrize("env, said", [
    (MEET | {"RANK": "x", "WORLD_SIZE": "2"}, "RANK='x' is not a number: it is set by torchrun or srun, not by hand"),
    (MEET | {"RANK": "", "WORLD_SIZE": "2"}, "RANK='' is not a number"),
    (MEET | {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "zero"}, "LOCAL_RANK='zero' is not a number"),
    (MEET | {"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2 processes: the variables that torchrun or srun sets do not fit"),
    (MEET | {"RANK": "-1", "WORLD_SIZE": "2"}, "rank -1 of 2 processes"),
    ({"RANK": "0", "WORLD_SIZE": "0"}, "rank 0 of 0 processes"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "but not MASTER_ADDR, MASTER_PORT"),
    (slurm(1, 2, SLURM_JOB_ID="job"), "SLURM_JOB_ID='job' is not a number"),
    (slurm("many", 2), "SLURM_PROCID='many' is not a number"), (slurm(2, 2), "rank 2 of 2 processes"),
    ({"SLURM_STEP_NUM_TASKS": "several"}, "SLURM_STEP_NUM_TASKS='several' is not a number"),
])
def test_nonsense_is_named(env, said):
    with pytest.raises(UsageError) as error:
        processes(env)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("failing", [
    FileNotFoundError("scontrol"), subprocess.TimeoutExpired("scontrol", 30), subprocess.CalledProcessError(1, "scontrol"), None,
], ids=str)
def test_nodes_that_cannot_be_listed(monkeypatch, failing):
    def run(words, **how):
        if failing:
            raise failing
        return subprocess.CompletedProcess(words, 0, "\n", "")

    monkeypatch.setattr(distributed.subprocess, "run", run)
    with pytest.raises(UsageError, match=r"`scontrol show hostnames node\[1-2\]` names no node .* set MASTER_ADDR"):
        processes(slurm(0, 4, nodes=2))


def test_ports():
    assert distributed.port(0) == 10_000 and distributed.port(123_456) == 13_456 and distributed.port(19_999) == 29_999
    assert all(10_000 <= distributed.port(job) < 30_000 for job in range(0, 10**7, 997))
    assert len({distributed.port(job) for job in range(500, 1500)}) == 1000  # jobs one after the other: none share one


def test_without_a_process_group_everyone_is_alone():
    assert distributed.same_everywhere({"a": 1}) == {"a": 1} and distributed.from_everyone("x") == ["x"]


def test_a_wrong_environment_is_one_line(training):
    run = training.run("run", env={"RANK": "one", "WORLD_SIZE": "2"}, code=2)
    assert run.err == "train.py: RANK='one' is not a number: it is set by torchrun or srun, not by hand\n"
    assert not os.listdir(run.folder)


def test_as_srun_would_start_it(training):
    """Two tasks of a step, by Slurm's variables alone."""
    port_of = os.getpid()  # a job number of our own
    runs = [training.start("run", "-b", 2, log=f".{rank}", env=slurm(rank, 2, SLURM_JOB_ID=str(port_of))) for rank in range(2)]
    assert [run.wait().code for run in runs] == [0, 0], runs[0].err
    assert runs[0].record.start["world_size"] == 2 and runs[0].record.end["status"] == "completed"


def test_a_notebook_server_trains_alone(training):
    run = training.run("run", env={"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"})
    assert run.record.start["world_size"] == 1
