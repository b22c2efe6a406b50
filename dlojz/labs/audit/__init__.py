"""``dlojz audit SCRIPT``: a training script that we have never seen, run for a few steps under observers that know torch alone.

``traced``  ``dlojz trace``, which runs it as it is
``folder``  where it runs: what it writes there is gone afterwards
``ranks``   several processes of it
``child``   the process that runs it, with the observers
``judge``   what the facts say of each technique
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ...system import paths
from ...system.errors import UsageError
from ...ui.page import View
from ..probe.facts import Event, read
from . import folder, judge, sheet
from .ranks import places, wait
from .seen import WRONG, Finding

UPDATES, SECONDS = 12, 100.0
COMPILED = "compiled"  # the number of the run that compiles
LAST = 2000  # characters of the script's output that are read for what it lacks
NETWORK = ("gaierror", "URLError", "ConnectionError", "MaxRetryError", "ConnectTimeout", "ConnectError",
           "LocalEntryNotFoundError", "OfflineModeIsEnabled", "HfHubHTTPError", "NewConnectionError", "ProxyError")
NETWORK_WORDS = ("huggingface.co", "internet connection", "name resolution", "Connection refused", "Network is unreachable")
CUDA_WORDS = ("NVIDIA driver", "CUDA-capable", "not compiled with CUDA", "CUDA enabled", "invalid device ordinal", "No CUDA GPUs",
              "torch.cuda.is_available() is False", "no GPUs found", "NCCL backend")
OPTIONS = {"audit": ("--updates", "--seconds", "--ranks", "--pretend", "--json", "--html"),
           "trace": ("--updates", "--skip", "--ranks")}


@dataclass
class Audit:
    """``ended``: how the run ended, as a sentence; ``ran``: whether it went far enough. ``left``: files that the script has
    written outside of the audit's folder."""

    script: str
    findings: list[Finding]
    ended: str
    ran: bool
    updates: int
    cut: bool
    left: list[str]

    @property
    def code(self) -> int:
        """0: nothing is used wrongly, 1: something is, 2: the script could not be run."""
        return 2 if not self.ran else int(any(one.verdict == WRONG for one in self.findings))

    def json(self) -> str:
        found = {name: value for name, value in vars(self).items() if name != "findings"}
        return json.dumps(found | {"code": self.code, "findings": [one.json() for one in self.findings]}, indent=1)

    def view(self) -> View:
        title = f"Audit of {self.script}"
        said = [self.ended]
        if self.cut:
            said.append("Each pass over a DataLoader was ended early, so that validation and a second epoch could be seen.")
        if self.left:
            said.append(f"The script wrote outside of the audit's folder, and this is still there: {', '.join(self.left)}")
        return sheet.view(title, said, self.findings)


def own_command(verb: str, command: Sequence[str]) -> list[str]:
    """The script and its arguments, as `dlojz audit` or `dlojz trace` (``verb``) was given them, perhaps after --. Raises
    UsageError where there is no such script, and where an option of the verb comes after its name, and it does not have one so
    named."""
    marked, command = command[:1] == ["--"], list(command[1:] if command[:1] == ["--"] else command)
    if not command:
        raise UsageError(f"name a script, such as: dlojz {verb} train.py --epochs 1")
    script = command[0]
    if not Path(script).is_file():
        raise UsageError(f"there is no script {script}")
    text = "" if marked else Path(script).read_text(errors="replace")
    for name in (given.split("=")[0] for given in command[1:]):
        if not marked and name in OPTIONS[verb] and name not in text:
            raise UsageError(f"{name} after {script} goes to the script, which does not name it. For dlojz, put it before: "
                             f"dlojz {verb} {name} … {script}. For the script: dlojz {verb} -- {' '.join(command)}")
    return command


def audit(script: str | Path, arguments: Sequence[str] = (), updates: int = UPDATES, seconds: float = SECONDS, ranks: int = 1,
          pretend: bool = False) -> Audit:
    """Run ``python SCRIPT ARGUMENTS`` until ``updates`` updates of weights, but no longer than ``seconds``; each pass over a
    DataLoader ends one update before half of them, a validation after as many batches. ``ranks``: so many processes, as torchrun
    would start them on this machine. ``pretend``: the CPU plays a GPU for each. Raises UsageError where there is no such
    script."""
    path = Path(script).resolve()
    if not path.is_file():
        raise UsageError(f"there is no script {script}")
    if updates < 8:
        raise UsageError(f"--updates {updates}: a pattern shows in 8 updates or more; the default is {UPDATES}")
    with (places(ranks) as several,
          tempfile.TemporaryDirectory(prefix=folder.PREFIX, ignore_cleanup_errors=True) as own):
        own = Path(own).resolve()
        cwd = folder.stand_in(Path.cwd(), own / "above")
        (own / "tmp").mkdir()
        request = {"script": str(path), "shown": str(script), "arguments": list(arguments), "folder": str(cwd), "own": str(own),
                   "updates": updates, "path": os.environ.get("PYTHONPATH"), "ranks": ranks,
                   "gpus": ranks if pretend else 0, "compiled": False}
        environment = os.environ | {"PYTHONPATH": paths.python_path(), "TMPDIR": str(own / "tmp"), "PWD": str(cwd)}
        started = [_start(request, environment | place, own, rank) for rank, place in enumerate(several)]
        until = time.monotonic() + seconds
        first, status = wait(started, until)
        facts = [read(own / f"facts-{rank}.jsonl") for rank in range(ranks)]
        if ranks == 1 and not pretend and status == 0 and any(event.what == "compiled" for event in facts[0]):
            again = _start(request | {"compiled": True}, environment, own, COMPILED)
            if wait([again], until)[1] == 0:
                facts[0] += read(own / f"facts-{COMPILED}.jsonl")
        said = (own / f"output-{first}.txt").read_text(errors="replace")[-LAST:]
    for event in chain(*facts):
        if event.get("file") and Path(event.file).is_absolute() is False:
            event["file"] = os.path.relpath(path.parent / event.file)
    found = _audit(str(script), facts, status, said, seconds, str(own), first)
    found.ended += " The CPU played its GPUs." if pretend and found.ran else ""
    return found


def _start(request: dict, environment: dict, own: Path, rank: int | str) -> subprocess.Popen:
    request = request | {"facts": str(own / f"facts-{rank}.jsonl")}
    with open(own / f"output-{rank}.txt", "wb") as out:
        return subprocess.Popen([sys.executable, "-m", f"{__name__}.child", json.dumps(request)], stdin=subprocess.DEVNULL,
                                stdout=out, stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def _audit(script: str, facts: list[list[Event]], status: int | None, said: str, seconds: float, own: str,
           first: int = 0) -> Audit:
    """``facts`` of each rank; ``first`` is the one that ended with ``status``."""
    events = facts[first]
    kinds = {event.what for event in events}
    count = sum(event.what == "passed" for event in events)
    left = sorted({event.path for event in chain(*facts) if event.what == "wrote" and not event.path.startswith(own)
                   and os.path.exists(event.path)})
    failed = next((event for event in events if event.what == "error"), None)
    seen = f"after {count} updates" if count else "before its first update"
    ran = count > 2
    if "enough" in kinds:
        ended = f"It was watched for {count} updates, then stopped."
        ended = ended.replace("It was", f"Its {len(facts)} ranks were") if len(facts) > 1 else ended
    elif failed is not None and "end" in kinds:
        ran, ended = False, f"It stopped {seen}{_where(failed)}: {_lacks(failed)}"
    elif status is None:
        ended = f"It was stopped {seen}: its {seconds:.0f} seconds were over."
        if not ran:
            ended += " Give it a smaller model or less data, by its own arguments, or more time, with --seconds before its name."
    elif status:
        ran = False
        last = (said.strip().splitlines() or ["it printed nothing"])[-1]
        ended = f"It ended with code {status} ({seen}): {last}"
        if status == 2 and "usage" in said:
            ended = f"It needs other arguments, which come after its name: {last}"
    elif not ran:
        ended = (f"It ended by itself {seen}. The audit sees what updates weights in this very process, not in others that the "
                 "script starts. Is there an argument that makes it train, or longer?")
    else:
        ended = f"It ended by itself after {count} updates."
    return Audit(script, judge.judge(*facts) if count else [], ended, ran, count, "cut" in kinds, left)


def _where(event: Event) -> str:
    return f" at {event.file}:{event.line}" if event.get("line") else ""


def _lacks(failed: Event) -> str:
    """What stopped the script, and what to do about it where that is known."""
    said = f"{failed.kind}: {failed.message}"
    kinds = failed.get("kinds", [])
    own = os.path.join("dlojz", "labs")
    if any(own in frame for frame in failed.get("frames", [])):
        return f"{said}. This may be a fault of the audit, not of the script"
    if any(kind in NETWORK for kind in kinds) or any(word in failed.message for word in NETWORK_WORDS):
        return f"{said}. It needs a network: download what it wants first, or name local data"
    if "ModuleNotFoundError" in kinds:
        return f"{said}. Install the package into the environment of dlojz, or install dlojz into that of the script"
    if any(word in failed.message for word in CUDA_WORDS):
        return f"{said}. With --pretend before the script's name, the CPU plays a GPU for each rank"
    if "FileNotFoundError" in kinds:
        return f"{said}. It needs data that is not there: start the audit where the script runs, or name the data"
    return said
