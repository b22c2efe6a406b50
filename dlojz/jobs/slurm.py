"""The launcher for clusters: jobs that Slurm runs.

Slurm is asked through its commands, each with a time limit, in an environment without the ``SLURM_*`` of the notebook server.
What they print is read by `slurm_text`. One ``squeue`` answers for all jobs of the user and is kept for two seconds; what it no
longer shows is looked up in ``sacct``, else ``scontrol``, else in the file that job.sh leaves when it ends.

A submission whose answer is lost must not be repeated blindly, because the controller may have carried it out. So each one
has a token of its own, written to the run's folder before and given to Slurm as the job's comment: the queue is searched
for it before anything is tried again, now (`submit`) or by a later process (`recover`).
"""

from __future__ import annotations

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
from . import script
from . import slurm_text as text
from .states import Request, Status, Unreachable, judged, left_exit_code

if TYPE_CHECKING:
    from .job import Job

POLL_EVERY = 2.0  # s, the least time between two squeue of one process
AWAY_EVERY = 10.0  # s, the same while the controller does not answer: each attempt then takes its time
QUERY_LIMIT = 20.0  # s, for a command that only asks: they give up by themselves after 10 to 15, and say why
SUBMIT_LIMIT = 60.0  # s, for sbatch and scancel: a busy controller answers late, and cutting it off leaves us in doubt
PATIENCE = 45.0  # s, for trying again what the controller did not answer
SETTLE = 2.0  # s, for a request that had already arrived to show up in the queue
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
    except subprocess.TimeoutExpired:
        raise Unreachable(f"Slurm does not answer ({words[0]} took more than {limit:.0f} s): try again in a minute") from None
    if done.returncode and text.is_away(done.stderr):
        raise Unreachable(f"Slurm does not answer ({text.said(done.stderr)}): try again in a minute")
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


def ask_squeue() -> dict[str, text.Seen]:
    answer = run("squeue", "--me", "-r", "-h", "-t", "all", "-o", text.SQUEUE_FORMAT)
    if answer.code:
        raise Unreachable(f"squeue fails ({text.said(answer.err) or answer.code}): check with `squeue --me` in a terminal")
    return text.squeue(answer.out)


_queue = Queue()
_born: dict[str, float] = {}  # when this process had the answer of sbatch, by the queue's clock


# -------------------------------------------------------------------------------------------------- submit


def submit(folders: Sequence[Path], request: Request) -> list[str]:
    folders = [Path(folder).resolve() for folder in folders]
    workspace = folders[0].parent.parent
    token = "dlojz-" + secrets.token_hex(8)
    file, options = folders[0] / "job.sh", []
    try:
        for index, folder in enumerate(folders):
            (folder / TOKEN).write_text(f"{token} {index if len(folders) > 1 else '-'}\n")
        if len(folders) > 1:
            first = file.read_text(encoding="utf-8")
            file, options = folders[0] / "sweep.sh", [f"--array=0-{len(folders) - 1}"]
            file.write_text(sweep_script(folders, first), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to {folders[0].parent}: {error.strerror}. "
                         "Free some space or fix its permissions") from None
    # --export=ALL: the environment is clean by now, and carries what the user's Python lives in (PATH, conda, modules)
    words = ["sbatch", "--parsable", "--export=ALL", f"--comment={token}", f"--chdir={workspace}", *options, str(file)]

    number = _until_answered(lambda: _sbatch(words, workspace), lambda: _find([token]).get(token), "submit")
    ids = [number] if len(folders) == 1 else [f"{number}_{index}" for index in range(len(folders))]
    _born.update(dict.fromkeys(ids, _queue.clock()))
    return ids


def _sbatch(words: Sequence[str], workspace: Path) -> str:
    answer = run(*words, limit=SUBMIT_LIMIT, cwd=workspace)
    if answer.code:
        raise UsageError(text.refusal(answer.err))
    try:
        return text.job_id(answer.out)
    except ValueError as error:
        raise Unreachable(f"sbatch gave no answer that can be read ({error}): try again in a minute") from None


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
                raise Unreachable(f"{complaint}: {verb} again in a minute, nothing is done twice")
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


def _find(tokens: Sequence[str], since: float | None = None) -> dict[str, str]:
    """The ids (of arrays: without the task) of the jobs that carry these tokens. ``since``: seconds since 1970, look further
    back than the queue remembers."""
    jobs, _ = _queue.look(since=_queue.clock())
    found = {seen.mark: number for number, seen in jobs.items() if seen.mark in tokens and not seen.was_refused}
    if since is not None and len(found) < len(tokens):
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(since - 60))
        answer = run("sacct", "-nPX", "-S", start, "-o", text.SACCT_SEARCH)
        for number, seen in text.sacct_search(answer.out).items():
            for token in tokens:
                if token in seen.mark and not seen.was_refused:
                    found.setdefault(token, number)
    return {token: number.partition("_")[0] for token, number in found.items()}


def recover(folders: Sequence[Path]) -> dict[Path, str]:
    marks = {}
    for folder in folders:
        try:
            token, index = (Path(folder) / TOKEN).read_text().split()
            marks[folder] = token, index, (Path(folder) / TOKEN).stat().st_mtime
        except (OSError, ValueError):  # killed before sbatch was called
            continue
    if not marks:
        return {}
    numbers = _find([token for token, _, _ in marks.values()], min(since for _, _, since in marks.values()))
    return {
        folder: numbers[token] if index == "-" else f"{numbers[token]}_{index}"
        for folder, (token, index, _) in marks.items()
        if token in numbers
    }


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
    queue, asked = _queue.look()
    statuses, ended = {}, []
    for job in jobs:
        seen = queue.get(job.id)
        if seen is None and _born.get(job.id, float("-inf")) >= asked:
            statuses[job.id] = Status("PENDING")  # submitted after the queue was asked
        elif seen is None or not seen.status.active:
            ended.append(job)
        else:
            statuses[job.id] = seen.status
    if ended:
        accounts = _ask_sacct([job.id for job in ended])
        for job in ended:
            if (status := _judge(job, queue.get(job.id), accounts)) is not None:
                statuses[job.id] = status
    return statuses


def _ask_sacct(ids: Sequence[str]) -> dict[str, text.Seen] | None:
    """What the accounting knows; nothing where a cluster has none, None where it does not answer."""
    try:
        return text.sacct(run("sacct", "-nPX", "-j", ",".join(ids), "-o", text.SACCT_FIELDS).out)
    except Unreachable:
        return None
    except UsageError:  # no sacct here
        return {}


def _ask_scontrol(number: str) -> text.Seen | None:
    return text.scontrol(run("scontrol", "-o", "show", "job", number).out).get(number)


def _judge(job: Job, queued: text.Seen | None, accounts: dict[str, text.Seen] | None) -> Status | None:
    """The status of a job that the queue shows as ended, or no longer shows; None where it must be asked again later.

    The queue knows best whether a job has ended: the accounting lags behind it, and calls a job ended that was put back.
    """
    left = left_exit_code(job.folder)
    known = (accounts or {}).get(job.id)
    if queued is None:
        if known is None or known.status.active:
            known = _ask_scontrol(job.id) or known
        if known is not None and not (known.status.active and left is not None):
            status = known.status
        elif left is not None:
            status = judged(left, job.status.started)
        elif accounts is None:
            return None
        else:
            status = Status("FAILED", "Slurm no longer lists this job and there is no exit code: it was killed "
                                      "(time limit, memory, node failure) or never started", started=job.status.started)
    else:
        status = queued.status
        if left is None and (known is None or known.status.state != status.state):
            known = _ask_scontrol(job.id) or known
        if known is not None and known.status.state == status.state:
            status = replace(known.status, reason=status.reason or known.status.reason)
    if status.state in ("COMPLETED", "FAILED") and left is not None and bool(left) == (status.state == "FAILED"):
        # job.sh knows better: Slurm shows `exit 137` as 9
        slurms = "" if status.exit_code is None else judged(status.exit_code).reason
        status = replace(status, exit_code=left, reason=judged(left).reason if status.reason in ("", slurms) else status.reason)
    return status


# -------------------------------------------------------------------------------------------------- cancel


def cancel(ids: Sequence[str]) -> None:
    if ids:
        _until_answered(lambda: _scancel(ids), lambda: None, "cancel")


def _scancel(ids: Sequence[str]) -> None:
    answer = run("scancel", *ids, limit=SUBMIT_LIMIT)
    # an id that is unknown, or ended long ago, is no error of the person who cancels
    if answer.code and "nvalid job id" not in answer.err and "already completed" not in answer.err:
        raise UsageError(f"scancel failed ({text.said(answer.err) or answer.code}): check with `squeue --me` in a terminal")
