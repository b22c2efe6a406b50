"""``dlojz audit SCRIPT``: a training script that we have never seen, run for a few steps under observers that know torch alone.

``folder``  where it runs: what it writes there is gone afterwards
``child``   the process that runs it, with the observers
``judge``   what the facts say of each technique
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...system import paths
from ...system.errors import UsageError
from ...ui import page
from ...ui.page import View
from ..probe.facts import Event, read
from . import folder, judge

UPDATES, SECONDS = 12, 110.0
LAST = 2000  # characters of the script's output that are read for what it lacks
NETWORK = ("gaierror", "URLError", "ConnectionError", "MaxRetryError", "ConnectTimeout", "ConnectError",
           "LocalEntryNotFoundError", "OfflineModeIsEnabled", "HfHubHTTPError", "NewConnectionError", "ProxyError")
NETWORK_WORDS = ("huggingface.co", "internet connection", "name resolution", "Connection refused", "Network is unreachable")


@dataclass
class Audit:
    """``ended``: how the run ended, as a sentence; ``ran``: whether it went far enough. ``left``: files that the script has
    written outside of the audit's folder."""

    script: str
    findings: list[judge.Finding]
    ended: str
    ran: bool
    updates: int
    cut: bool
    left: list[str]

    @property
    def code(self) -> int:
        """0: nothing is used wrongly, 1: something is, 2: the script could not be run."""
        return 2 if not self.ran else int(any(one.verdict == judge.WRONG for one in self.findings))

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
        head = ["technique", "verdict", "where", "lab"]
        shown = [one for one in self.findings if one.verdict != judge.NOT_APPLICABLE]
        rest = ", ".join(one.technique for one in self.findings if one.verdict == judge.NOT_APPLICABLE)
        cells = [[one.technique, one.verdict, one.place, one.lab] for one in shown]
        text, html = [title, *said], page.headline(title) + "".join(map(page.quiet, said))
        for verdict in judge.VERDICTS[:-1]:
            several = [one for one in shown if one.verdict == verdict and one.evidence != judge.NO_GPU]
            if several:
                text += ["", f"{verdict.capitalize()}"]
                text += [line for one in several for line in (
                    f"  {one.technique}" + (f"  ({one.place})" if one.place else ""), f"    {one.evidence}",
                    *([f"    {' '.join(self._more(one))}"] if verdict != judge.USED else []))]
        if shown:
            evidence = [(f"{one.technique}: {one.verdict}", " ".join([one.evidence, *self._more(one)[:-1]])) for one in shown]
            html += page.table_html(head, cells) + page.rows(evidence)
        if hidden := [one for one in shown if one.evidence == judge.NO_GPU]:
            text += ["", judge.NO_GPU]
            text += [f"  {one.technique}{f'  ({one.place})' if one.place else ''}: {' '.join(self._more(one))}" for one in hidden]
        if rest:
            text += ["", f"Not applicable: {rest}"]
            html += page.quiet(f"Not applicable: {rest}")
        return View(title, "\n".join(text), html)

    @staticmethod
    def _more(one: judge.Finding) -> list[str]:
        return [*([f"Where we measured it, it brought {one.brings}."] if one.brings else []), f"Lab: {one.lab}."]


def audit(script: str | Path, arguments: Sequence[str] = (), updates: int = UPDATES, seconds: float = SECONDS) -> Audit:
    """Run ``python SCRIPT ARGUMENTS`` until ``updates`` updates of weights, but no longer than ``seconds``; each pass over a
    DataLoader ends after half of the updates. Raises UsageError where there is no such script."""
    path = Path(script).resolve()
    if not path.is_file():
        raise UsageError(f"there is no script {script}")
    if updates < 8:
        raise UsageError(f"--updates {updates}: a pattern shows in 8 updates or more; the default is {UPDATES}")
    with tempfile.TemporaryDirectory(prefix=folder.PREFIX, ignore_cleanup_errors=True) as own:
        own = Path(own).resolve()
        cwd = folder.stand_in(Path.cwd(), own / "above")
        (own / "tmp").mkdir()
        facts, output = own / "facts.jsonl", own / "output.txt"
        request = {"script": str(path), "shown": str(script), "arguments": list(arguments), "folder": str(cwd), "own": str(own),
                   "facts": str(facts), "updates": updates, "path": os.environ.get("PYTHONPATH")}
        environment = os.environ | {"PYTHONPATH": paths.python_path(), "TMPDIR": str(own / "tmp"), "PWD": str(cwd)}
        status = _run([sys.executable, "-m", f"{__name__}.child", json.dumps(request)], environment, output, seconds)
        events = read(facts)
        said = output.read_text(errors="replace")[-LAST:]
    for event in events:
        if event.get("file") and Path(event.file).is_absolute() is False:
            event["file"] = os.path.relpath(path.parent / event.file)
    return _audit(str(script), events, status, said, seconds, str(own))


def _run(command: list[str], environment: dict, output: Path, seconds: float) -> int | None:
    """Its status; None where time was up. Nothing that it has started is left."""
    with open(output, "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, env=environment,
                                   start_new_session=True)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _audit(script: str, events: list[Event], status: int | None, said: str, seconds: float, own: str) -> Audit:
    kinds = {event.what for event in events}
    count = sum(event.what == "passed" for event in events)
    left = sorted({event.path for event in events if event.what == "wrote" and not event.path.startswith(own)
                   and os.path.exists(event.path)})
    failed = next((event for event in events if event.what == "error"), None)
    seen = f"after {count} updates" if count else "before its first update"
    ran = count > 2
    if "enough" in kinds:
        ended = f"It was watched for {count} updates, then stopped."
    elif failed is not None and "end" in kinds:
        ran, ended = False, f"It stopped {seen}{_where(failed)}: {_lacks(failed)}"
    elif status is None:
        ended = f"It was stopped {seen}, for {seconds:.0f} seconds were over."
        if not ran:
            ended += " Give it a smaller model or less data, by its own arguments."
    elif status:
        ran = False
        last = (said.strip().splitlines() or ["it printed nothing"])[-1]
        needs = f"It ended with code {status}"
        if status == 2 and "usage" in said:
            needs = "It needs arguments: put them after the script"
        ended = f"{needs} ({seen}): {last}"
    elif not ran:
        ended = (f"It ended by itself {seen}. The audit sees what updates weights in this very process, not in others that the "
                 "script starts. Is there an argument that makes it train, or longer?")
    else:
        ended = f"It ended by itself after {count} updates."
    return Audit(script, judge.judge(events) if count else [], ended, ran, count, "cut" in kinds, left)


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
    if "FileNotFoundError" in kinds:
        return f"{said}. It needs data that is not there: start the audit where the script runs, or name the data"
    return said
