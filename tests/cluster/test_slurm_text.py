"""What Slurm's commands printed, recorded from the tests' cluster, read and put into words."""

import re
import time
from pathlib import Path

import pytest

from dlojz.jobs import slurm_text as text
from dlojz.jobs.states import ENDED

OUTPUTS = Path(__file__).parent / "outputs"


def recorded(name):
    return (OUTPUTS / name).read_text()


def when(clock):
    return time.mktime(time.strptime(f"2026-11-27T{clock}", "%Y-%m-%dT%H:%M:%S"))


@pytest.mark.parametrize(
    "output, expected",
    [("42\n", "42"), ("42;big\n", "42"), ("Welcome! 3 days left\n42\n", "42")],
)
def test_job_id(output, expected):
    assert text.job_id(output) == expected


@pytest.mark.parametrize("output", ["", "Submitted batch job\n", "sbatch: error\n", "42 43\n"])
def test_no_job_id_is_an_error(output):
    with pytest.raises(ValueError, match="no job id"):
        text.job_id(output)


def test_squeue_gives_every_job_and_its_state():
    jobs = text.squeue(recorded("squeue.txt"))
    states = {number: seen.status.state for number, seen in jobs.items()}
    assert len(jobs) == recorded("squeue.txt").count("\n")
    assert states["38"] == "RUNNING" and states["36"] == "NODE_FAIL" and states["5"] == "CANCELLED"
    assert states["3_2"] == "PENDING"
    assert {n for n, state in states.items() if state == "PENDING"} == {"21", "24", "33", "39", "41", "43", "45", "46", "3_2"}


def test_squeue_times():
    jobs = text.squeue(recorded("squeue.txt"))
    running, ended, waiting = jobs["38"].status, jobs["32_6"].status, jobs["45"].status
    assert (running.started, running.ended) == (when("22:14:04"), None)
    assert (ended.started, ended.ended) == (when("22:13:07"), when("22:13:07"))
    assert (waiting.started, waiting.ended) == (None, None)


def test_squeue_keeps_a_comment_that_holds_the_separator():
    assert text.squeue(recorded("squeue.txt"))["45"].mark == "a|b"


def test_squeue_skips_lines_that_are_no_jobs():
    assert text.squeue("a warning of the site\n\n42|RUNNING|None|N/A|N/A|(null)\n").keys() == {"42"}


@pytest.mark.parametrize(
    "number, words",
    [
        ("45", "Resources: next in the queue, waiting for free nodes, expected to start on 27 November at 22:44"),
        ("46", "Priority: waiting behind jobs of higher priority, expected to start on 27 November at 23:14"),
        ("24", "QOSMaxWallDurationPerJobLimit: will not start, it asks for more time than the QoS allows a job: "
               "cancel it and ask for less"),
        ("21", "QOSMaxGRESPerUser: the QoS limits the GPUs in use at a time of one person: starts when other jobs have ended, "
               "expected to start on 27 November at 22:44"),
        ("43", "DependencyNeverSatisfied: will never start: the job it depends on did not end as required. "
               "Cancel it and submit again"),
        ("3_2", "JobArrayTaskLimit: waiting for other runs of its sweep: the number of runs at a time is limited"),
        ("33", "BeginTime: waiting for its start time (a requeued job restarts by itself), "
               "expected to start on 27 November at 22:13"),
        ("36", "one of its nodes failed"),
        ("38", ""),
        ("27", ""),
    ],
)
def test_squeue_reasons_in_words(number, words):
    assert text.squeue(recorded("squeue.txt"))[number].status.reason == words


@pytest.mark.parametrize(
    "word, part",
    [
        ("AssocGrpGRES", "your account limits the GPUs in use at a time"),
        ("AssocGrpGRESMinutes", "the GPU hours of your account are used up"),
        ("AssocGrpBillingMinutes", "hours of your account are used up"),
        ("AssocGrpCPURunMinutesLimit", "your account limits the cores in use at a time"),
        ("AssocMaxJobsLimit", "your account limits the jobs in use at a time"),
        ("AssocGrpMemLimit", "your account limits the memory in use at a time"),
        ("AssocMaxWallDurationPerJobLimit", "it asks for more time than your account allows a job"),
        ("QOSGrpNodeLimit", "the QoS limits the nodes in use at a time"),
        ("QOSMaxJobsPerUserLimit", "the QoS limits the jobs in use at a time of one person"),
        ("QOSMaxCpuPerUserLimit", "the QoS limits the cores in use at a time of one person"),
        ("QOSMaxGRESPerJob", "it asks for more GPUs than the QoS allows a job"),
        ("QOSMaxNodePerJobLimit", "it asks for more nodes than the QoS allows a job"),
        ("QOSMaxSubmitJobPerUserLimit", "the QoS limits the jobs"),
        ("ReqNodeNotAvail, UnavailableNodes:node[1-3]", "under maintenance"),
        ("ReqNodeNotAvail, Reserved for maintenance", "under maintenance"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions", "more urgent jobs"),
        ("(launch_failed_requeued_held)", "cancel it and submit again"),
        ("JobHeldUser", "scontrol release"),
        ("PartitionTimeLimit", "more time than its partition allows"),
    ],
)
def test_reasons_of_other_clusters(word, part):
    said = text.reason_in_words(word)
    assert part in said
    assert said.startswith(word.strip("()").replace("_", " ")[:20])


def test_an_unknown_reason_is_passed_on():
    assert text.reason_in_words("SomethingNew") == "SomethingNew"


def test_every_state_of_ours_is_one_that_jobs_have():
    assert {state for state, _ in text.STATES.values()} <= {"PENDING", "RUNNING", *ENDED}


@pytest.mark.parametrize(
    "word, state",
    [
        ("CANCELLED by 1000", "CANCELLED"), ("CANCELLED+", "CANCELLED"), ("COMPLETING", "RUNNING"), ("CONFIGURING", "PENDING"),
        ("REQUEUED", "PENDING"), ("PREEMPTED", "CANCELLED"), ("BOOT_FAIL", "NODE_FAIL"), ("DEADLINE", "TIMEOUT"),
        ("OUT_OF_MEMORY", "OUT_OF_MEMORY"), ("NEW_WORD", "RUNNING"), ("", "RUNNING"),
    ],
)
def test_states(word, state):
    assert text.state_of(word)[0] == state


def test_sacct():
    jobs = {number: seen.status for number, seen in text.sacct(recorded("sacct.txt")).items()}
    assert len(jobs) == recorded("sacct.txt").count("\n")
    assert (jobs["2"].state, jobs["2"].exit_code) == ("COMPLETED", 0)
    assert (jobs["27"].state, jobs["27"].exit_code, jobs["27"].reason) == ("FAILED", 3, "exit code 3")
    assert (jobs["29"].exit_code, jobs["29"].reason) == (137, "killed by SIGKILL: did the machine run out of memory?")
    assert (jobs["5"].state, jobs["5"].exit_code) == ("CANCELLED", None)
    assert (jobs["5"].started, jobs["5"].ended) == (None, when("22:12:30"))
    assert (jobs["32_6"].state, jobs["32_6"].exit_code) == ("FAILED", 1)
    assert jobs["21"].active


def test_scontrol():
    jobs = {number: seen.status for number, seen in text.scontrol(recorded("scontrol.txt")).items()}
    assert jobs.keys() == {"29", "30", "32_6"}
    assert (jobs["29"].state, jobs["29"].exit_code) == ("FAILED", 137)
    assert jobs["29"].reason.startswith("JobLaunchFailure: its script could not start or was killed")
    assert (jobs["30"].state, jobs["30"].exit_code) == ("CANCELLED", None)
    assert (jobs["32_6"].exit_code, jobs["32_6"].ended) == (1, when("22:13:07"))


def test_scontrol_is_not_misled_by_the_command():
    line = recorded("scontrol.txt").splitlines()[0].replace("kill -9 $$", "JobState=RUNNING ExitCode=0:0")
    assert text.scontrol(line)["29"].status.state == "FAILED"


@pytest.mark.parametrize(
    "state, code, expected",
    [("COMPLETED", "0:0", 0), ("FAILED", "3:0", 3), ("FAILED", "0:9", 137), ("CANCELLED", "0:15", None), ("TIMEOUT", "0:0", None),
     ("FAILED", "0:53", None), ("FAILED", "", None), ("RUNNING", "0:0", None)],
)
def test_exit_codes(state, code, expected):
    assert text.exit_code(state, code) == expected


def refusals():
    for block in recorded("sbatch_refusals.txt").split("$ ")[1:]:
        command, _, stderr = block.partition("\n")
        yield pytest.param(command, stderr, id=command.removeprefix("sbatch --parsable "))


@pytest.mark.parametrize("command, stderr", list(refusals()))
def test_refusals_say_what_slurm_said_and_what_to_do(command, stderr):
    line = text.refusal(stderr)
    said, _, advice = line.partition("): ")
    assert said.startswith("Slurm refused the job (") and len(advice) > 20, line
    assert "\n" not in line and "sbatch: " not in line
    first = re.sub(r"^sbatch: (error: )?(Batch job submission failed: )?", "", stderr.splitlines()[0]).rstrip(".")
    assert first.strip() in line
    assert not text.is_away(stderr)


@pytest.mark.parametrize(
    "stderr, advice",
    [
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
         "sacctmgr show assoc"),
        ("sbatch: error: Batch job submission failed: Invalid partition name specified", "sinfo -s"),
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", "for more nodes"),
        ("sbatch: error: CPU count per node can not be satisfied\nsbatch: error: Batch job submission failed: "
         "Requested node configuration is not available", "fewer cores"),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS "
         "policy (job submit limit, user's size and/or time limits)", "wait until some of yours have ended"),
        ("sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge encode failed: Failed to access "
         '"/run/munge/munge.socket.2": No such file or directory', "submit from a login node"),
        ("sbatch: fatal: Could not establish a configuration source", "SLURM_CONF"),
    ],
)
def test_advice_fits(stderr, advice):
    assert advice in text.refusal(stderr)


def test_a_refusal_that_is_not_known_is_passed_on():
    assert text.refusal("sbatch: error: The moon is full.\n") == "Slurm refused the job (The moon is full)"
    assert text.refusal("") == "Slurm refused the job (sbatch failed without a message)"


@pytest.mark.parametrize(
    "stderr",
    [
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        "scancel: error: Kill job error on job id 5: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying",
        "sbatch: error: Batch job submission failed: Slurm backup controller in standby mode",
        "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received",
    ],
)
def test_no_answer_is_told_from_a_refusal(stderr):
    assert text.is_away(stderr)


def test_a_refused_request_that_slurm_keeps_is_no_job():
    jobs = text.squeue(recorded("squeue.txt"))
    assert [number for number, seen in jobs.items() if seen.was_refused] == ["11"]
    found = text.sacct_search("11|FAILED|None assigned|sbatch --comment=t job.sh\n12|FAILED|node1|sbatch --comment=t a|b\n")
    assert [number for number, seen in found.items() if seen.was_refused] == ["11"]
    assert found["12"].mark == "sbatch --comment=t a|b"
