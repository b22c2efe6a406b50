"""The launcher for clusters: jobs that Slurm runs.

Slurm is asked through its commands, each with a time limit, in an environment without the ``SLURM_*`` of the notebook server.
What they print is read by `slurm_text`. One ``squeue`` answers for all jobs of the user and is kept for two seconds; what it no
longer shows is looked up in ``sacct``, else ``scontrol``, else in the file that job.sh leaves when it ends.

A submission whose answer is lost must not be repeated blindly, because the controller may have carried it out. So each one
has a token of its own, written to the run's folder before and given to Slurm as the job's comment: the queue is searched
for it before anything is tried again, now (`submit`) or by a later process (`recover`). What sbatch has taken (exit code 0) is
never submitted again, whatever it said.

A job of another cluster than the machine's own (``--clusters``, ``SLURM_CLUSTERS``) has its cluster's name in its job.json, and
that cluster is asked.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..system.errors import UsageError
from ..system.shown import say
from ..system.sites import clusters, own_queue
from . import script
from . import slurm_text as text
from .states import NO_EXIT_CODE, Request, Status, Unreachable, judged, left_exit_code, update, written

if TYPE_CHECKING:
    from .job import Job

POLL_EVERY = 2.0  # s, the least time between two squeue of one process
AWAY_EVERY = 10.0  # s, the same while the controller does not answer: each attempt then takes its time
QUERY_LIMIT = 20.0  # s, for a command that only asks: they give up by themselves after 10 to 15, and say why
SUBMIT_LIMIT = 60.0  # s, for sbatch and scancel: a busy controller answers late, and cutting it off leaves us in doubt
PATIENCE = 45.0  # s, for trying again what the controller did not answer
SETTLE = 2.0  # s, for a request that had already arrived to show up in the queue
NEWS = 60.0  # s, until each of Slurm's commands knows a new job, or that one has run again
TOKEN = ".submission"


# ------------------------------------------------------------------------------------------------ commands


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def run(*words: str, limit: float | None = None, cwd: Path | None = None) -> Answer:
    """One of Slurm's commands. Raises Unreachable when nobody answered, UsageError when the command is not installed."""
    limit = limit or QUERY_LIMIT
    try:
        # a session of its own: the notebook's interrupt button must not cut off an sbatch in flight
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=limit,
                              env=environment(os.environ), cwd=cwd, start_new_session=True, check=False)
    except FileNotFoundError:
        raise UsageError(f"there is no {words[0]} on this machine: work on a login node of the cluster, or choose another site "
                         "(`dlojz sites`)") from None
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be run here ({error.strerror}): try `{words[0]} --version` in a terminal, or choose "
                         "another site (`dlojz sites`)") from None
    except subprocess.TimeoutExpired:
        raise Unreachable(f"Slurm does not answer ({words[0]} took more than {limit:.0f} s): try again in a minute") from None
    if done.returncode and text.is_away(done.stderr, done.stdout):
        raise Unreachable(f"Slurm does not answer ({text.said(done.stderr, done.stdout)}): try again in a minute")
    return Answer(done.returncode, done.stdout, done.stderr)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Slurm's commands see, and the job with them: besides what no job may inherit, without the GPUs of the job that
    the notebook server may be, and without the user's own defaults for ``squeue`` and ``sacct``, which change what they print."""
    not_ours = re.compile("(SQUEUE|SACCT|SCONTROL)_.*|CUDA_VISIBLE_DEVICES")
    return {key: value for key, value in script.environment(environ).items() if not not_ours.fullmatch(key)}


class Queue:
    """The user's jobs as squeue shows them, asked for at most every two seconds however many ask. Safe to use from threads."""

    def __init__(self, ask=None, clock=time.monotonic):
        self.ask = ask or ask_squeue
        self.clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, text.Seen] = {}
        self._away: Unreachable | None = None
        self._asked = self._next = float("-inf")

    def look(self, since: float = float("-inf")) -> tuple[dict[str, text.Seen], float]:
        """The jobs by id, and when they were asked for (by the clock): at ``since`` or later, waiting for that if need be."""
        with self._lock:
            now = self.clock()
            if now < self._next and self._asked < since and self._away is None:
                time.sleep(self._next - now)
                now = self.clock()
            if now >= self._next:
                self._asked = now
                try:
                    self._jobs, self._away = self.ask(), None
                    self._next = now + POLL_EVERY
                except Unreachable as error:
                    self._away = error
                    self._next = self.clock() + AWAY_EVERY
            if self._away is not None:
                raise self._away.with_traceback(None)
            return self._jobs, self._asked


def ask_squeue(cluster: str = "") -> text.Listing:
    jobs = _squeue(*_on(cluster))
    if any(seen.word == "REVOKED" for seen in jobs.values()):  # a federation runs it on another of its clusters
        with contextlib.suppress(UsageError):
            jobs.update({number: seen for number, seen in _squeue("--federation").items() if seen.word != "REVOKED"})
    return jobs


def _squeue(*options: str) -> text.Listing:
    answer = run("squeue", *options, "--me", "-r", "-h", "-t", "all", "-o", text.SQUEUE_FORMAT)
    if answer.code:
        said = text.said(answer.err, answer.out) or answer.code
        raise Unreachable(f"squeue fails ({said}): check with `squeue --me` in a terminal")
    return text.squeue(answer.out)


def _on(cluster: str) -> list[str]:
    return [f"--clusters={cluster}"] if cluster else []


_queue = Queue()
_others: dict[str, Queue] = {}  # those of other clusters
_born: dict[tuple[str, str], float] = {}  # when this process had the answer of sbatch, by the queue's clock


def _queue_of(cluster: str) -> Queue:
    return _others.setdefault(cluster, Queue(lambda: ask_squeue(cluster))) if cluster else _queue


# -------------------------------------------------------------------------------------------------- submit


def submit(folders: Sequence[Path], request: Request) -> list[str]:
    folders = [Path(os.path.abspath(folder)) for folder in folders]  # and not where a link on the way leads to: runs may be one
    workspace = folders[0].parent.parent
    token, cluster = "dlojz-" + secrets.token_hex(8), clusters(request.directives)
    file, options = folders[0] / "job.sh", _on(cluster)
    try:
        for index, folder in enumerate(folders):
            (folder / TOKEN).write_text(f"{token} {index if len(folders) > 1 else '-'} {cluster or '-'}\n")
        if len(folders) > 1:
            first = file.read_text(encoding="utf-8")
            file = folders[0] / "sweep.sh"
            options.append(f"--array=0-{len(folders) - 1}")
            file.write_text(sweep_script(folders, first), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {folders[0].parent}: {error.strerror}. "
                         "Free some space or fix its permissions") from None
    # --export=ALL: the environment is clean by now, and carries what the user's Python lives in (PATH, conda, modules)
    words = ["sbatch", "--parsable", "--export=ALL", f"--comment={token}", f"--chdir={workspace}", *options, str(file)]

    def found() -> tuple[str, str] | None:
        return _find([token], cluster).get(token)

    number, where = _until_answered(lambda: _sbatch(words, workspace), found, "submit")
    if not number:
        number, where = _taken(folders, where, found)
    where = where or ("" if cluster == "all" or "," in cluster else cluster)
    ids = [number] if len(folders) == 1 else [f"{number}_{index}" for index in range(len(folders))]
    _born.update(dict.fromkeys([(where, identifier) for identifier in ids], _queue_of(where).clock()))
    for folder in folders if where else ():
        with contextlib.suppress(OSError):
            update(folder, cluster=where)
    return ids


def _sbatch(words: Sequence[str], workspace: Path) -> tuple[str, str]:
    """The id of the job and its cluster, where sbatch says that; ("", what it said) where it has taken the job and says no id."""
    answer = run(*words, limit=SUBMIT_LIMIT, cwd=workspace)
    output = f"{answer.out}\n{answer.err}"
    if answer.code and not text.was_submitted(output):
        raise UsageError(text.refusal(answer.err, answer.out))
    try:
        return text.job_id(output), text.cluster(output)
    except ValueError:
        return "", text.said(answer.err, answer.out)


def _taken(folders: Sequence[Path], said: str, found) -> tuple[str, str]:
    """Id and cluster of a job that sbatch has taken without saying its id. Raises Unreachable where the queue doesn't show it."""
    for _ in range(3):
        time.sleep(SETTLE)
        with contextlib.suppress(UsageError):
            if (result := found()) is not None:
                return result
    for folder in folders:  # so that it is not taken for a job that never reached the queue
        with contextlib.suppress(OSError), open(folder / TOKEN, "a") as file:
            file.write(TAKEN)
    raise Unreachable(f"sbatch has taken the job, but gave no job id (it said: {said or 'nothing'}): nothing is submitted again. "
                      f"See `squeue --me`; `dlojz jobs` shows {folders[0].name} as its files tell")


TAKEN = "taken\n"


def _until_answered(act, found, verb: str):
    """``act()``, again while nobody answers, unless ``found()`` shows that it was carried out after all.

    It counts as not carried out when two looks, some seconds apart, do not find it: a controller that wakes up answers
    what came to it meanwhile in any order.
    """
    end = time.monotonic() + PATIENCE
    told = False
    while True:
        try:
            return act()
        except Unreachable as error:
            away = error
        looks = 0
        while looks < 2:
            complaint = str(away).removesuffix(": try again in a minute")
            if time.monotonic() > end:
                instead = f"; {own_queue()}" if verb == "submit" else ""
                raise Unreachable(f"{complaint}: {verb} again in a minute, nothing is done twice{instead}")
            if not told:
                say(f"dlojz: {complaint}; trying again for {PATIENCE:.0f} s", file=sys.stderr)
                told = True
            time.sleep(SETTLE)
            try:
                if (result := found()) is not None:
                    return result
                looks += 1
            except Unreachable as error:
                away = error


def _find(tokens: Sequence[str], cluster: str = "", since: float | None = None) -> dict[str, tuple[str, str]]:
    """The ids (of arrays: without the task) and clusters of the jobs that carry these tokens. ``since``: seconds since 1970, look
    further back than the queue remembers."""
    queue = _queue_of(cluster)
    jobs, _ = queue.look(since=queue.clock())
    found = {seen.mark: (number, seen.cluster) for number, seen in jobs.items() if seen.mark in tokens and not seen.was_refused}
    if since is not None and len(found) < len(tokens):
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - 60))
        with contextlib.suppress(UsageError):  # no sacct here, or its data base is away: the queue has answered
            answer = run("sacct", *_on(cluster), "-nPX", "-S", start, "-o", text.SACCT_SEARCH)
            for number, seen in text.sacct_search(answer.out).items():
                for token in tokens:
                    if token in seen.mark and not seen.was_refused:
                        found.setdefault(token, (number, ""))
    return {token: (number.partition("_")[0], where) for token, (number, where) in found.items()}


def recover(folders: Sequence[Path]) -> dict[Path, str]:
    marks: dict[str, dict[Path, tuple]] = {}  # by cluster
    for folder in folders:
        try:
            token, index, *more = (Path(folder) / TOKEN).read_text().split()
            cluster = more[0] if more and more[0] not in ("-", TAKEN.strip()) else ""
            taken = TAKEN.strip() in more
            marks.setdefault(cluster, {})[folder] = token, index, taken, (Path(folder) / TOKEN).stat().st_mtime
        except (OSError, ValueError):  # killed before sbatch was called
            continue
    ids = {}
    for cluster, there in marks.items():
        numbers = _find([token for token, *_ in there.values()], cluster, min(since for *_, since in there.values()))
        for folder, (token, index, taken, _) in there.items():
            if token in numbers:
                number, where = numbers[token]
                ids[folder] = number if index == "-" else f"{number}_{index}"
                if where := where or ("" if cluster == "all" or "," in cluster else cluster):
                    with contextlib.suppress(OSError):
                        update(folder, cluster=where)
            elif taken:
                ids[folder] = ""
    return ids


def sweep_script(folders: Sequence[Path], first: str) -> str:
    """The script of an array: each task runs the job.sh of its own folder. ``first`` is the text of the first job.sh, whose
    directives are taken over but for the places of the logs."""
    options = [option for option in script.directives(first) if not re.match(r"--(output|error|open-mode)\b", option)]
    log = str(folders[0] / "sweep.log").replace("%", "%%").replace("\\", r"\\").replace('"', r"\"")
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {option}" for option in options),
        f'#SBATCH --output="{log}"',
        "#SBATCH --open-mode=append",
        "# A sweep: Slurm runs this script once for each run, with the run's number in SLURM_ARRAY_TASK_ID.",
        "runs=(",
        *(f"    {shlex.quote(str(folder))}" for folder in folders),
        ")",
        "run=${runs[$SLURM_ARRAY_TASK_ID]}",
        'exec bash "$run/job.sh" >> "$run/out.log" 2>> "$run/err.log"',
    ]
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------------------------------------- poll


def poll(jobs: Sequence[Job]) -> dict[str, Status]:
    if not jobs:
        return {}
    cluster = jobs[0].cluster
    queue, asked = _queue_of(cluster).look()
    statuses, ended = {}, []
    for job in jobs:
        seen = queue.get(job.id)
        if seen is None and _born.get((cluster, job.id), float("-inf")) >= asked:
            statuses[job.id] = Status("PENDING")  # submitted after the queue was asked
        elif seen is None or not seen.status.active:
            ended.append(job)
        else:
            statuses[job.id] = seen.status
    if ended:
        accounts = _ask_sacct([job.id for job in ended], cluster)
        for job in ended:
            statuses[job.id] = _judge(job, queue, accounts)
    return statuses


def _ask_sacct(ids: Sequence[str], cluster: str = "") -> text.Listing:
    """What the accounting knows; where it can't be asked, nothing, with the reason."""
    try:
        answer = run("sacct", *_on(cluster), "-nPX", "-j", ",".join(ids), "-o", text.SACCT_FIELDS)
    except UsageError as error:  # no sacct here, or nobody answers
        found = text.Listing()
        found.unread = str(error)
        return found
    found = text.sacct(answer.out)
    if answer.code and not found:
        found.unread = text.said(answer.err, answer.out) or f"sacct ends with {answer.code}"
    return found


def _ask_scontrol(number: str, cluster: str = "") -> tuple[text.Seen | None, bool]:
    """What the controller knows of a job, and whether it says that there is no such job."""
    try:
        answer = run("scontrol", *_on(cluster), "-o", "show", "job", number)
    except UsageError:
        return None, False
    return text.scontrol(answer.out).get(number), bool(answer.code) and "nvalid job id" in answer.err + answer.out


def _judge(job: Job, queue: text.Listing, accounts: text.Listing) -> Status:
    """The status of a job that the queue shows as ended, or no longer shows; the last known one where nobody can tell now.

    The queue knows best whether a job has ended: the accounting lags behind it, and calls a job ended that was put back.
    """
    left, queued = left_exit_code(job.folder), queue.get(job.id)
    known = accounts.get(job.id)
    denied = not accounts.unread
    if queued is None:
        if known is None or known.status.active:
            controllers, none_there = _ask_scontrol(job.id, job.cluster)
            known, denied = controllers or known, denied or none_there
        if known is not None and not (known.status.active and left is not None):
            seen, status = known, known.status
        elif left is not None:
            return judged(left, job.status.started)
        elif time.time() - (job.submitted or 0) < NEWS:
            return job.status  # a new job: the queue may be another server than the one that took it
        elif accounts.unread.startswith("Slurm does not answer"):
            return replace(job.status, reason=f"last known state: {accounts.unread}")
        elif queue.unread and not denied:
            return replace(job.status, reason=f"last known state: squeue's answer cannot be read ({queue.unread[:80]})")
        else:
            return Status("FAILED", f"Slurm no longer lists this job and there is {NO_EXIT_CODE}: it was killed "
                                    "(time limit, memory, node failure) or never started", started=job.status.started)
    else:
        seen, status = queued, queued.status
        if left is None and (known is None or known.status.state != status.state):
            known = _ask_scontrol(job.id, job.cluster)[0] or known
        if known is not None and known.status.state == status.state:
            status = replace(known.status, reason=status.reason or known.status.reason)
    if seen.word in RUNS_AGAIN and left is not None:
        # job.sh removes its exit code when it begins: one that is there is of the last run, which Slurm may not have counted
        # Where a node fails, srun may end with 0: then only the time tells.
        after = written(job.folder / "exit_code")
        if (left == 0 and not seen.word.endswith("_FAIL")) or (seen.ended and after > seen.ended + NEWS):
            return judged(left, job.status.started, after)
    if status.state in ("COMPLETED", "FAILED") and left is not None and bool(left) == (status.state == "FAILED"):
        # job.sh knows better: Slurm shows `exit 137` as 9
        slurms = "" if status.exit_code is None else judged(status.exit_code).reason
        status = replace(status, exit_code=left, reason=judged(left).reason if status.reason in ("", slurms) else status.reason)
    return status


RUNS_AGAIN = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "REQUEUED", "REVOKED")  # states of a job that Slurm may run once more


# -------------------------------------------------------------------------------------------------- cancel


def cancel(ids: Sequence[str], cluster: str = "") -> None:
    if ids:
        _until_answered(lambda: _scancel(ids, cluster), lambda: None, "cancel")


def _scancel(ids: Sequence[str], cluster: str) -> None:
    answer = run("scancel", *_on(cluster), *ids, limit=SUBMIT_LIMIT)
    # an id that is unknown, or ended long ago, is no error of the person who cancels
    if answer.code and "nvalid job id" not in answer.err and "already completed" not in answer.err:
        said = text.said(answer.err, answer.out) or answer.code
        raise UsageError(f"scancel failed ({said}): check with `squeue --me` in a terminal")
