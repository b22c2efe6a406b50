"""`progress`: how a trainee stands in each lab, from progress.jsonl and the records of their runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..system import workspace
from ..system.errors import UsageError
from ..ui import messages
from . import catalogue, events, goals, predictions, questions, verbs
from .catalogue import Lab

COLOURS = {"solved": messages.GOOD, "wrong": messages.BAD, "can't be checked": messages.CARE}
HEAD = ["lab", "state", "tries", "hints", "quiz", "predicted", "measured", "goal"]


@dataclass(frozen=True)
class Standing:
    """One lab. ``tries``: checks with a verdict, up to the first that said solved. ``right`` of ``asked`` questions were answered
    rightly the first time. ``looked``: the solution was seen before the lab was solved. ``prediction`` was made before the run
    began that it is compared with, unless ``late``. ``peak``: the run's memory, where the lab asks for that."""

    lab: Lab
    state: str
    tries: int
    hints: int
    looked: bool
    answered: int
    right: int
    asked: int
    prediction: float | None
    late: bool
    goal: goals.Verdict
    peak: predictions.Peak | None = None

    def cells(self) -> list[str]:
        hints = f"{self.hints} of {len(self.lab.hints)}" if self.hints else ""
        answered = f"{self.right} of {self.asked} right" if self.answered else ""
        if 0 < self.answered < self.asked:
            answered = f"{self.right} right, {self.asked - self.answered} to go"
        late = " (afterwards)" if self.late else ""
        predicted = "" if self.prediction is None else predictions.said(self.lab.prediction, self.prediction) + late
        measured = "" if self.goal.ratio is None else f"{self.goal.ratio:.2f}x {self.lab.goal.against}"
        measured = self.peak.text if self.peak else measured
        said = self.goal.state if self.goal.limit is None else f"{self.goal.state} ({self.goal.limit:g}x)"
        looked = ", solution seen" if self.looked else ""
        tries = str(self.tries) if self.tries else ""
        return [self.lab.id, self.state + looked, tries, hints, answered, predicted, measured, "" if said == "no goal" else said]


def standing(lab: Lab, said: list[dict], here: Path) -> Standing:
    """How things stand in one lab; ``said`` are all events of progress.jsonl."""
    mine = [event for event in said if event["lab"] == lab.id]
    checks = [event for event in mine if event["event"] == "check"]
    verdicts = [event for event in checks if event.get("outcome") in ("solved", "wrong")]
    first = next((i for i, event in enumerate(verdicts) if event["outcome"] == "solved"), None)
    hints = [event["step"] for event in mine if event["event"] == "hint" and "step" in event]
    asked = questions.read(lab)
    known = {question.id for question in asked}
    firsts: dict[str, bool] = {}
    for event in mine:
        if event["event"] == "quiz" and event.get("question") in known:
            firsts.setdefault(event["question"], event.get("right") is True)
    until = verdicts[first]["time"] if first is not None else float("inf")
    goal = goals.judge(lab, here)
    peak = predictions.latest_peak(lab, here)
    compared = peak or goal.run
    prediction, late = predictions.latest(mine, lab, compared.began if compared else None)
    return Standing(
        lab, _state(lab, mine, here), len(verdicts) if first is None else first + 1,
        hints=max(hints, default=0),
        looked=any(event["event"] == "looked" and event["time"] <= until for event in mine),
        answered=len(firsts), right=sum(firsts.values()), asked=len(asked),
        prediction=prediction, late=late, goal=goal, peak=peak)


WORDS = {"solved": "solved", "wrong": "wrong", "not_attempted": "not attempted", "cannot_check": "can't be checked"}


def _state(lab: Lab, mine: list[dict], here: Path) -> str:
    """What stands in the fences now: as the last check of that very text has found, else what can be told without a check.

    Checks from before the last reset don't count. One that could not check says nothing where another one could.
    """
    since = max((i for i, event in enumerate(mine) if event["event"] == "reset"), default=-1) + 1
    checks = [event for event in mine[since:] if event["event"] == "check" and event.get("outcome") in WORDS]
    at = verbs.Target(lab, here, tuple(lab.fences))
    try:
        found = at.found(at.read())
    except UsageError:  # the file is gone or damaged: what was said last is all that is known
        found = None
    now = None
    if found:
        now = verbs.fingerprint(found)
        checks = [event for event in checks if event.get("fences") != ""]  # there was nothing to read then, and now there is
        same = [event for event in checks if event.get("fences") == now]
        if same := [event for event in same if event["outcome"] != "cannot_check"] or same[-1:]:
            return WORDS[same[-1]["outcome"]]
        if at.same_as_kit(found):
            return "solved"
    sure = [event for event in checks if event["outcome"] != "cannot_check"]
    if not checks:
        return "not checked"
    last = (sure or checks)[-1]
    said = WORDS[last["outcome"]]
    if now is None or last.get("fences") in (None, now):
        return said
    if at.untouched(found):
        return "not attempted"
    return f"{said}, changed since" if last["outcome"] in ("solved", "wrong") else "not checked"


class Progress(messages.Shown):
    """The table of labs; ``rows`` are its `Standing`s."""

    def __init__(self, rows: list[Standing], note: str = ""):
        self.rows = rows
        cells = [row.cells() for row in rows]
        used = [i for i in range(len(HEAD)) if i < 2 or any(row[i] for row in cells)]
        head, cells = [HEAD[i] for i in used], [[row[i] for i in used] for row in cells]
        solved, reached = (sum(row.state == "solved" for row in rows), sum(row.goal.state == "reached" for row in rows))
        notes = [f"{row.lab.id}: {row.goal.text}" for row in rows if row.goal.state == "no goal" and row.goal.text]
        notes += [note] if note else []
        title = f"{solved} of {len(rows)} labs solved, {reached} goals reached" if reached != 1 else \
            f"{solved} of {len(rows)} labs solved, 1 goal reached"
        page = messages.table_html(head, cells, [COLOURS.get(row.state, messages.QUIET) for row in rows])
        super().__init__("\n".join([messages.table(head, cells), "", title, *notes]),
                         messages.headline(title) + page + messages.lines(*notes))


def progress() -> Progress:
    """How the trainee of this workspace stands: each lab's state, tries, hints, quiz, prediction, what was measured, the goal."""
    here = workspace.find()
    workspace.refuse_newer(here)
    said = events.read(here)
    return Progress([standing(lab, said, here) for lab in catalogue.labs().values()], workspace.older(here))
