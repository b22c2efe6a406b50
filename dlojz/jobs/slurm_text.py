"""What Slurm's commands print, read and put into words. Pure functions: no command is run here.

``squeue``, ``sacct`` and ``scontrol`` are read in their line formats, never as JSON, which differs from one version to the next.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from .states import ACTIVE, Status, judged

# What may hold the separator comes last.
SQUEUE_FORMAT = "%i|%T|%r|%S|%e|%k"
SACCT_FIELDS = "JobID,State,ExitCode,Start,End"
SACCT_SEARCH = "JobID,State,NodeList,SubmitLine"  # Slurm 21.08 and newer

# Slurm's word -> our state, and what there is to add
STATES = {
    "PENDING": ("PENDING", ""),
    "CONFIGURING": ("PENDING", "its nodes are getting ready"),
    "REQUEUED": ("PENDING", "stopped by Slurm and put back into the queue"),
    "REQUEUE_FED": ("PENDING", "stopped by Slurm and put back into the queue"),
    "REQUEUE_HOLD": ("PENDING", "stopped by Slurm and held: `scontrol release` lets it start again"),
    "SPECIAL_EXIT": ("PENDING", "stopped by Slurm and held: `scontrol release` lets it start again"),
    "RESV_DEL_HOLD": ("PENDING", "held: its reservation is gone"),
    "RUNNING": ("RUNNING", ""),
    "COMPLETING": ("RUNNING", "ending"),
    "STAGE_OUT": ("RUNNING", "ending"),
    "SIGNALING": ("RUNNING", ""),
    "RESIZING": ("RUNNING", ""),
    "SUSPENDED": ("RUNNING", "suspended by Slurm"),
    "STOPPED": ("RUNNING", "suspended by Slurm"),
    "COMPLETED": ("COMPLETED", ""),
    "FAILED": ("FAILED", ""),
    "TIMEOUT": ("TIMEOUT", "reached its time limit"),
    "DEADLINE": ("TIMEOUT", "reached its deadline"),
    "CANCELLED": ("CANCELLED", ""),
    "REVOKED": ("CANCELLED", "moved to another cluster"),
    "PREEMPTED": ("CANCELLED", "stopped to make room for a job of higher priority, and not put back into the queue"),
    "OUT_OF_MEMORY": ("OUT_OF_MEMORY", "used more host memory (not GPU memory) than it requested"),
    "NODE_FAIL": ("NODE_FAIL", "one of its nodes failed"),
    "BOOT_FAIL": ("NODE_FAIL", "a node did not start"),
}

REASONS = {
    "Priority": "waiting behind jobs of higher priority",
    "Resources": "next in the queue, waiting for free nodes",
    "BeginTime": "waiting for its start time (a requeued job restarts by itself)",
    "Cleaning": "its last run is being cleaned up",
    "Prolog": "its nodes are getting ready",
    "Dependency": "waits for another job to end",
    "DependencyNeverSatisfied": "will never start: the job it depends on did not end as required. Cancel it and submit again",
    "JobArrayTaskLimit": "waiting for other runs of its sweep: the number of runs at a time is limited",
    "JobHeldUser": "held: `scontrol release` lets it start",
    "JobHeldAdmin": "held by the cluster's administrators: ask them",
    "Licenses": "waits for a licence",
    "Reservation": "waits for its reservation to begin",
    "ReservationDeleted": "will never start, its reservation is gone: cancel it and submit again",
    "ReqNodeNotAvail": "the nodes that it needs are down, reserved, or soon under maintenance",
    "Nodes required for job are DOWN": "the nodes that it needs are down, drained or kept for more urgent jobs",
    "NodeDown": "one of its nodes failed",
    "PartitionDown": "its partition is closed at the moment",
    "PartitionInactive": "its partition is closed at the moment",
    "PartitionNodeLimit": "will not start, it asks for more nodes than its partition allows: cancel it and ask for fewer",
    "PartitionTimeLimit": "will not start, it asks for more time than its partition allows: cancel it and ask for less",
    "BadConstraints": "will never start, there are no such nodes: cancel it and ask for less",
    "InvalidAccount": "will not start, its account is not valid: cancel it and submit with another",
    "InvalidQOS": "will not start, its QoS is not valid: cancel it and submit with another",
    "AssociationJobLimit": "your account's limit is reached: starts when other jobs of the account have ended",
    "QOSJobLimit": "the QoS's limit is reached: starts when other jobs have ended",
    "QOSNotAllowed": "will not start, its QoS may not be used there: cancel it and submit with another",
    "JobLaunchFailure": "its script could not start or was killed: are its folder and its log files writable on the nodes?",
    "launch failed requeued held": "its script could not start, and Slurm holds it: cancel it and submit again",
    "SystemFailure": "the cluster failed, not the script: submit again",
    "FrontEndDown": "the cluster's front end is down",
    "BurstBufferResources": "waits for room in the burst buffer",
}

# QOSMaxGRESPerUser, AssocGrpGRESMinutes, QOSMaxWallDurationPerJobLimit, AssocMaxJobsLimit, …
_LIMIT = re.compile(
    r"(?P<who>QOS|Assoc)(Grp|Max|Min)(?P<what>GRES|CPU|Cpu|Node|Mem|Memory|Wall|WallDuration|SubmitJobs?|Jobs?|Billing|Energy|BB|"
    r"License)(?P<hours>Run)?(?P<minutes>Minutes|Mins)?s?(?P<scope>Per\w+?)?(Limit)?$"
)
_AMOUNTS = {"GRES": "GPUs", "CPU": "cores", "Cpu": "cores", "Node": "nodes", "Mem": "memory", "Memory": "memory",
            "Wall": "time", "WallDuration": "time", "SubmitJobs": "jobs", "SubmitJob": "jobs", "Jobs": "jobs", "Job": "jobs",
            "Billing": "billing", "Energy": "energy", "BB": "burst buffer", "License": "licences"}


@dataclass(frozen=True)
class Seen:
    """A job as one of Slurm's commands shows it.

    ``word`` is Slurm's state, ``why`` its reason, ``code`` its ``EXIT:SIGNAL``; times are seconds since 1970 or None.
    ``mark`` is text that the submission chose, by which a job can be found whose id is not known. ``cluster`` is the one that it
    was listed under, where several were asked.
    """

    word: str
    why: str = ""
    code: str = ""
    started: float | None = None
    ended: float | None = None
    mark: str = ""
    cluster: str = ""

    @property
    def was_refused(self) -> bool:
        """Slurm keeps a job for a request that sbatch reported as refused: such a job never was in the queue."""
        return self.word == "FAILED" and self.why == "BadConstraints"

    @property
    def status(self) -> Status:
        state, added = state_of(self.word)
        code = exit_code(state, self.code)
        if state == "PENDING":
            start = time.strftime(", expected to start on %d %B at %H:%M", time.localtime(self.started)) if self.started else ""
            return Status(state, (added or reason_in_words(self.why)) + start)
        if state == "FAILED":
            added = reason_in_words(self.why) or ("" if code is None else judged(code).reason)
        never_ran = state == "CANCELLED" and self.started == self.ended
        return Status(state, added, code, None if never_ran else self.started, None if state in ACTIVE else self.ended)


class Listing(dict):
    """Jobs by id. ``unread``: the first line that is no job's, or why there is no list at all; empty where all could be read."""

    unread = ""


def job_id(output: str) -> str:
    """The id in what sbatch printed: ``4242`` or ``4242;cluster`` with ``--parsable``, else a sentence. ValueError: none."""
    return _submitted(output)[0]


def cluster(output: str) -> str:
    """The cluster that sbatch says it has submitted to; empty where it says none."""
    return _submitted(output)[1]


def was_submitted(output: str) -> bool:
    """Whether sbatch says in as many words that it has submitted the job, whatever its exit code is."""
    return bool(_SENTENCE.search(output))


_SENTENCE = re.compile(r"\bSubmitted batch job (\d+)\b(?: on cluster ([^\s.,;]+))?")
_NAMED = re.compile(r"\bjob(?:[ _-]?(?:id|number))?(?: is)?\s*[:=#]?\s*(\d+)\b", re.IGNORECASE)  # as wrappers of sbatch put it


def _submitted(output: str) -> tuple[str, str]:
    if match := _SENTENCE.search(output):
        return match[1], match[2] or ""
    for line in output.splitlines():  # a site's own plugin may print before it
        if match := re.fullmatch(r"(\d+)(?:;(\S*))?", line.strip()):
            return match[1], match[2] or ""
    named = set(_NAMED.findall(output))
    if len(named) == 1:
        return named.pop(), ""
    raise ValueError(f"no job id in {output[:200]!r}")


def squeue(output: str) -> Listing:
    """``squeue -r -h -o SQUEUE_FORMAT``: jobs by id, those of an array as ``ID_TASK``."""
    jobs, cluster = Listing(), ""
    for line in output.splitlines():
        fields = line.split("|", SQUEUE_FORMAT.count("|"))
        if len(fields) == SQUEUE_FORMAT.count("|") + 1 and _is_id(fields[0]):
            number, word, why, start, end, mark = fields
            jobs[number] = Seen(word, why, "", seconds(start), seconds(end), mark, cluster)
        elif line.startswith("CLUSTER: "):
            cluster = line.removeprefix("CLUSTER: ").strip()
        elif line.strip():
            jobs.unread = jobs.unread or line.strip()
    return jobs


def _is_id(text: str) -> bool:
    return re.fullmatch(r"\d+(_\S+|\+\d+)?", text) is not None


def sacct(output: str) -> Listing:
    """``sacct -nPX -o SACCT_FIELDS``: jobs by id, those of an array as ``ID_TASK``."""
    jobs = Listing()
    for line in output.splitlines():
        fields = line.split("|")
        if len(fields) == SACCT_FIELDS.count(",") + 1:
            number, word, code, start, end = fields
            jobs[number] = Seen(word, "", code, seconds(start), seconds(end))
        elif line.strip():
            jobs.unread = jobs.unread or line.strip()
    return jobs


def sacct_search(output: str) -> dict[str, Seen]:
    """``sacct -nPX -o SACCT_SEARCH``: jobs by id with the line that submitted them as their mark."""
    jobs = {}
    for line in output.splitlines():
        fields = line.split("|", SACCT_SEARCH.count(","))
        if len(fields) == SACCT_SEARCH.count(",") + 1:
            number, word, nodes, mark = fields
            jobs[number] = Seen(word, "BadConstraints" if nodes == "None assigned" else "", mark=mark)
    return jobs


def scontrol(output: str) -> dict[str, Seen]:
    """``scontrol -o show job ID``: one job a line; the id of an array shows all its tasks."""
    jobs = {}
    for line in output.splitlines():
        # the first of a name counts: the command, which comes late, may hold anything
        fields = dict(reversed(re.findall(r"(\w+)=(\S*)", line)))
        if "JobId" not in fields:
            continue
        number = f"{fields['ArrayJobId']}_{fields.get('ArrayTaskId')}" if "ArrayJobId" in fields else fields["JobId"]
        jobs[number] = Seen(
            fields.get("JobState", ""),
            fields.get("Reason", ""),
            fields.get("ExitCode", ""),
            seconds(fields.get("StartTime", "")),
            seconds(fields.get("EndTime", "")),
            fields.get("Comment", ""),
        )
    return jobs


def state_of(word: str) -> tuple[str, str]:
    """Our state for Slurm's, and words to add: ``CANCELLED by 1000`` and ``CANCELLED+`` are CANCELLED.

    A word that is not known (of a newer Slurm) reads as RUNNING, so that the job is asked after again.
    """
    first = word.split()[0].rstrip("+") if word.strip() else ""
    return STATES.get(first) or ("RUNNING", f"Slurm says {word}")


def exit_code(state: str, code: str) -> int | None:
    """Slurm's ``EXIT:SIGNAL`` as a shell would say it: 128 + the signal for a script that was killed.

    None where the script did not end by itself: what Slurm gives for a job that it stopped differs from second to second.
    """
    match = re.fullmatch(r"(\d+):(\d+)", code)
    if not match or state not in ("COMPLETED", "FAILED"):
        return None
    number, killed_by = int(match[1]), int(match[2])
    if number or not killed_by:
        return number
    return 128 + killed_by if killed_by < 32 else None  # above are Slurm's own: 53 for a log file that cannot be opened


def seconds(text: str) -> float | None:
    """``2026-11-27T22:13:06``, in local time, as seconds since 1970; None for N/A, Unknown and None."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def reason_in_words(why: str) -> str:
    """Why a job waits or failed: Slurm's own word, which one can look up or tell the support team, then what it means."""
    why = why.strip().strip("()").replace("_", " ")
    if why in ("", "None", "NonZeroExitCode") or why.startswith("RaisedSignal"):
        return ""
    for word, meaning in REASONS.items():
        if why == word or why.startswith((f"{word},", f"{word} ")):
            return f"{why}: {meaning}"
    meaning = _limit_in_words(why)
    return f"{why}: {meaning}" if meaning else why


def _limit_in_words(why: str) -> str:
    """For the limits that Slurm names by composition: who sets it, on what, and whether waiting helps."""
    match = _LIMIT.match(why)
    if not match:
        return ""
    who = "the QoS" if match["who"] == "QOS" else "your account"
    what, scope = _AMOUNTS[match["what"]], match["scope"] or ""
    if match["minutes"] and not match["hours"]:
        return f"will not start, the {what.removesuffix('s')} hours of {who} are used up: cancel it and submit with another"
    if "PerJob" in scope or "PerNode" in scope or what == "time":
        return f"will not start, it asks for more {what} than {who} allows a job: cancel it and ask for less"
    whose = " of one person" if "PerUser" in scope else ""
    return f"{who} limits the {what} in use at a time{whose}: starts when other jobs have ended"


# words of what sbatch says -> what to do; the first that are found count. A * stands for the rest of a word.
ADVICE = (
    ("account or account/partition", "give an account that may use this partition, `sacctmgr show assoc user=$USER "
                                     "format=account,partition,qos` lists yours"),
    ("Invalid account", "give an account of yours, `sacctmgr show assoc user=$USER format=account,partition,qos` lists them"),
    ("Invalid partition", "give a partition of this cluster, `sinfo -s` lists them"),
    ("partition not available", "its partition is closed at the moment: choose another (`sinfo -s`) or come back later"),
    ("not permitted to use this partition", "choose another partition (`sinfo -s`) or ask the support team for access"),
    ("Invalid qos", "give a QoS that your account may use, `sacctmgr show assoc user=$USER format=account,qos` lists them"),
    ("Invalid --time", "write the time as MINUTES, H:MM:SS or D-HH:MM:SS"),
    ("time limit is invalid", "ask for less time, `sinfo -o '%P %l'` shows each partition's limit"),
    ("generic resource", "name the GPUs as this cluster does, `sinfo -o '%P %G'` shows it"),
    ("Memory specification", "ask for less memory, `sinfo -o '%P %m'` shows the megabytes of a node"),
    ("CPU count per node", "ask for fewer cores, `sinfo -o '%P %c %G'` shows the cores and GPUs of a node"),
    ("node configuration is not available", "no node has that many GPUs or cores or that much memory: ask for less, or for more "
                                            "nodes, `sinfo -o '%P %D %c %m %G'` shows what there is"),
    ("More processors requested", "ask for less, `sinfo -o '%P %D %c %G'` shows the nodes of a partition and what they have"),
    ("Node count specification", "ask for fewer nodes, `sinfo -o '%P %D'` shows how many a partition has"),
    ("Invalid node name", "`sinfo -N` lists the nodes"),
    ("feature specification", "no node has what the constraint names, `sinfo -o '%P %f'` lists what there is"),
    ("job array", "the sweep is longer than this cluster allows (MaxArraySize of `scontrol show config`): split it"),
    ("reservation", "`scontrol show reservation` lists those there are and who may use them"),
    ("license", "`scontrol show licenses` lists those there are"),
    ("licenses", "`scontrol show licenses` lists those there are"),
    ("Job dependency", "the job that it should wait for is not known"),
    ("accounting/QOS policy", "too many jobs, or too much in one: wait until some of yours have ended, or ask for less"),
    ("*SubmitJob*", "too many jobs in the queue: wait until some of yours have ended"),
    ("permission denied", "your login may not submit here: ask the support team"),
    ("Invalid user id", "your login is not known to this cluster: ask the support team"),
    ("Unable to open file", "the run's folder is gone: submit again"),
    ("DOS line breaks", "save the script with UNIX line ends (`dos2unix`)"),
    ("look like a batch script", "its first line must be #!/bin/bash"),
    ("unrecognized option", "this Slurm does not know an option of the site's profile, `sbatch --help` lists those it knows"),
    ("parameter too long", "the script or one of its paths is too long"),
    ("configuration source", "this machine has no Slurm configuration: submit from a login node, or set SLURM_CONF"),
    ("munge", "this machine is not part of the cluster (its key service, munge, fails): submit from a login node"),
    ("authentication", "this machine is not part of the cluster (its key is refused): submit from a login node"),
)

_AWAY = re.compile(
    "Unable to contact slurm controller|Socket timed out|Connection (refused|timed out|reset)|Zero Bytes were transmitted|"
    "Transport endpoint is not connected|temporarily unable to accept|in standby mode|Message (send|receive) failure|"
    "(Unable|Failed) to connect to .*database",
    re.IGNORECASE,
)


def is_away(stderr: str, stdout: str = "") -> bool:
    """Whether nobody answered, so that it is not known what became of the request, and a second try may do better."""
    return bool(_AWAY.search("\n".join(_complaints(stderr, stdout)[0])))


_OWN = r"\s*(?:sbatch|srun|scancel|squeue|sacct|scontrol|sinfo|slurm\w*)"  # whose words a line begins with
_ERROR = re.compile(rf"{_OWN}:? (?:error|fatal): |{_OWN}: (?:unrecognized|invalid|option|ambiguous) ")
EMPTY_WORDS = ("Unspecified error", "Batch job submission failed")


def _complaints(stderr: str, stdout: str) -> tuple[list[str], bool]:
    """The lines that say what is wrong, and whether they are a command's own: its lines marked as errors come first, on stderr or
    on stdout. Else all that was said: banners are printed by what a site puts before its commands, and the end counts."""
    errors = []
    for line in [*stderr.splitlines(), *stdout.splitlines()]:
        if _ERROR.match(line):
            errors.append(line)
    plain = [_without_prefix(line) for line in errors]
    if any(line and line.rstrip(".: ") not in EMPTY_WORDS for line in plain):
        return errors, True
    return [*stderr.splitlines(), *stdout.splitlines()], False


def _without_prefix(line: str) -> str:
    line = re.sub(rf"^{_OWN}:? (error|fatal): |^{_OWN}: ", "", line).strip()
    return re.sub(r"^(Batch job submission failed|Kill job error on job id \S+|slurm_\w+ error): ", "", line).strip()


LONGEST = 400  # characters of what a command said


def said(stderr: str, stdout: str = "") -> str:
    """What a command complained of, on one line and without the prefixes."""
    lines, own = _complaints(stderr, stdout)
    parts: list[str] = []
    for line in map(_without_prefix, lines):
        if line and not line.startswith("Try ") and re.search(r"\w", line) and line.rstrip(".") not in parts:
            parts.append(line.rstrip("."))
    text = "; ".join(parts)
    if len(text) <= LONGEST:
        return text
    return text[:LONGEST - 1] + "…" if own else "…" + text[1 - LONGEST:]


def refusal(stderr: str, stdout: str = "") -> str:
    """One line for a submission that sbatch refused: what it said, and what to do about it."""
    text = said(stderr, stdout) or "sbatch failed without a message"
    lines, own = _complaints(stderr, stdout)
    for words, advice in ADVICE if own else ():
        pattern = re.escape(words).replace(r"\*", r"\w*")
        if re.search(rf"(?<!\w){pattern}(?!\w)", "\n".join(lines), re.IGNORECASE):
            return f"Slurm refused the job ({text}): {advice}"
    return f"Slurm refused the job ({text})"
