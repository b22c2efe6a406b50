"""`compare`: one table of runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from ..jobs import runs
from ..jobs.runs import Run
from ..system import suggest
from ..system.errors import UsageError
from ..training import summary
from ..ui import charts, page, words
from ..ui.charts import Bar
from ..ui.notebook import plain_wanted
from ..ui.page import View
from ..ui.palette import BAD, GREY, SPEED
from .dashboard import COLOURS
from .timeline import median

SPREAD = "bars: the mean of the timed steps; whiskers: 8 of 10 steps, without the slowest and the fastest tenth"
COLUMNS = 3  # more switches than these share one column, as those that are on
FEW = 5  # timed steps: fewer say nothing of how they vary
SAME = 0.005  # runs that differ by less are equally fast
NOT_A_SWITCH = ("run_dir", "resume", "device", "chronometer", "test_steps")
# What is measured -> (heading, how it is said, whether a higher number is the better one)
MEASURES = {
    "images_per_second": ("images/s", words.number, True),
    "ratio": ("ratio", words.ratio, True),
    "low_ms": ("10 % ms", words.number, False),
    "median_ms": ("median ms", words.number, False),
    "high_ms": ("90 % ms", words.number, False),
    "waiting": ("waiting", words.share, False),
    "memory_gb": ("GB", lambda value: f"{value:.2f}" if value < 10 else f"{value:.1f}", False),
    "power_w": ("W", words.number, False),
    "joules_per_image": ("J/image", words.number, False),
    "validation_accuracy": ("accuracy", lambda value: f"{value:.1%}", True),
    "step_ms": ("ms/step", words.number, False),
    "variation": ("±", words.share, False),
    "loading_ms": ("loading ms", words.number, False),
    "first_step_s": ("first step s", words.number, False),
    "with_workers_gb": ("GB with workers", lambda value: f"{value:.2f}", False),
}
USUAL = tuple(MEASURES)[:10]  # the others are for those who ask: a table is to fit on a page


class Comparison(View):
    """A table of runs. ``rows``: a dict for each, with plain numbers. `sort` orders them, ``by`` a column, `csv` writes them."""

    by = ""

    def __init__(self, rows: list[dict], switches: list[str], notes: list[str], base: str, measures: Sequence[str] = USUAL,
                 unit: str = "images"):
        self.unit = unit
        self.rows, self.switches, self.notes, self.base = rows, switches, notes, base
        self.asked = measures
        self.measures = [name for name in measures if any(row.get(name) is not None for row in rows)]
        head, cells = self._cells()
        title = f"comparison of {words.counted(len(rows), 'run')}"
        about = self._about()
        text = "\n".join([", ".join(filter(None, (title, about))), page.table(head, cells), *notes])
        super().__init__(title, text, lambda: self._page(title, about))

    def _about(self) -> str:
        if "ratio" in self.measures:
            return f"ratios to {self.base}"
        if not any(row.get("images_per_second") for row in self.rows):
            return "nothing was timed"
        if not self.measures:
            return "nothing of that was measured"
        return f"no ratios to {self.base}" if "ratio" in self.asked else ""

    @property
    def columns(self) -> list[str]:
        """What can be sorted by."""
        return ["run", "state", *self.switches, *self.measures]

    def heading(self, name: str) -> str:
        """What stands above a column: ``images/s``, ``batch size``."""
        if name not in MEASURES:
            return name.replace("_", " ")
        return MEASURES[name][0].replace("images", self.unit).replace("image", self.unit.removesuffix("s"))

    def sort(self, by: str, descending: bool | None = None) -> Comparison:
        """The same table in another order, the best first; ``by``: a name of ``columns`` or a heading. Raises UsageError."""
        headings = {self.heading(name): name for name in self.measures}
        name = headings.get(by, by)
        if name not in self.columns:
            raise UsageError(f"there is no column {by!r}: {suggest.hint(by, self.columns)}Sort by {', '.join(self.columns)}")
        down = MEASURES[name][2] if descending is None and name in MEASURES else bool(descending)
        known = [row for row in self.rows if row.get(name) is not None]
        unknown = [row for row in self.rows if row.get(name) is None]
        numeric = all(isinstance(row[name], (int, float)) for row in known)
        known.sort(key=lambda row: row[name] if numeric else str(row[name]), reverse=down)
        ordered = Comparison(known + unknown, self.switches, self.notes, self.base, self.asked, self.unit)
        ordered.by = name
        if self.following is not None:
            ordered.following = self.following.then(lambda view: view.sort(by, descending))
        return ordered

    def csv(self, file: str | Path | None = None) -> str | Path:
        """The table as CSV with plain numbers: into the file, whose path it returns, else as text. Raises UsageError."""
        out = io.StringIO()
        writer = csv.DictWriter(out, self.columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in self.rows)
        if file is None:
            return out.getvalue()
        return page.write_text(file, out.getvalue(), 'csv("runs.csv")')

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        spread = self.switches if len(self.switches) <= COLUMNS else []
        gathered = [name for name in self.switches if name not in spread]
        states = any(row["state"] != "completed" for row in self.rows)
        head = ["run", *(["state"] if states else []), *(name.replace("_", " ") for name in spread),
                *(self.heading(name) for name in self.measures), *(["switches"] if gathered else [])]
        cells = []
        for row in self.rows:
            measured = ["-" if row.get(name) is None else MEASURES[name][1](row[name]) for name in self.measures]
            on = [words.switch(name, row[name]) for name in gathered]
            cells.append([row["run"], *([row["state"]] if states else []), *(words.difference(row[name]) for name in spread),
                          *measured, *([", ".join(filter(None, on)) or "-"] if gathered else [])])
        return head, cells

    def _page(self, title: str, about: str) -> str:
        head, cells = self._cells()
        colours = {"state": [COLOURS.get(row["state"].upper().replace(" ", "_"), BAD) for row in self.rows]}
        return (page.headline(title.capitalize(), about) + self._chart() + page.table_html(head, cells, colours=colours)
                + "".join(page.quiet(note) for note in self.notes))

    def _chart(self) -> str:
        """Images/s beside each other, with what most steps of a run do, and a line at the run that they are compared with. What
        was recorded elsewhere has a scale of its own."""
        timed = [row for row in self.rows if row.get("images_per_second") and "images_per_second" in self.measures]
        if len(timed) < 2:
            return ""
        groups = [[row for row in timed if row["recorded"] == card] for card in dict.fromkeys(row["recorded"] for row in timed)]
        bars = [self._bars(group) for group in groups]
        drawn = charts.grid(*(charts.bars(some, unit=f"{self.unit}/s", baseline=self._line(group), say=words.number, high=22)
                              for some, group in zip(bars, groups)), columns=1).html()
        return drawn + (page.quiet(SPREAD) if any(bar.low is not None for some in bars for bar in some) else "")

    def _line(self, group: Sequence[dict]) -> str | None:
        """The run of this chart that the others are compared with."""
        if "ratio" not in self.measures:
            return None
        return next((row["run"] for row in group if row["run"] == row["base"]), None)

    def _bars(self, group: Sequence[dict]) -> list[Bar]:
        bars, base = [], self.base if "ratio" in self.measures else None
        for row in group:
            speed, mean, slow, fast = (row.get(name) for name in ("images_per_second", "step_ms", "high_ms", "low_ms"))
            note = words.ratio(row["ratio"]) if row["ratio"] else "not comparable" if base else ""
            spread = {"low": speed * mean / slow, "high": speed * mean / fast} if slow and fast and slow > fast else {}
            bars.append(Bar(row["run"], speed, GREY if row["run"] == row["base"] else SPEED, note, **spread))
        return bars

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        plain = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if plain_wanted():
            return plain
        from ..ui.sortable import sortable

        return plain | {name: value for name, value in sortable(self)._repr_mimebundle_().items() if name not in plain}


def compare(*jobs, against=None, measures: Sequence[str] | None = None) -> Comparison:
    """One table of runs: the switches in which they differ, numbers, ratios to ``against`` (left out: the first of them).

    ``measures``: which numbers, by the names of `MEASURES`, or one of them. ``.sort("images/s")`` orders the table,
    ``.csv("runs.csv")`` writes it. Raises UsageError where there is no such run or measure.
    """
    measures = [measures] if isinstance(measures, str) else measures
    if unknown := [name for name in measures or () if name not in MEASURES]:
        guess = suggest.hint(unknown[0], MEASURES)
        raise UsageError(f"there is no measure {unknown[0]!r}: {guess}They are {', '.join(MEASURES)}")
    found = runs.several(*jobs)
    timed = [run for run in found if "images_per_second" in run.numbers]
    first = runs.one(against) if against is not None else (timed or found)[0]
    notes, rows = [], []
    differing = switches(found)
    if not any(_same(run, first) for run in found):
        notes.append(_outside(first, found))
    for run in found:
        base = _base(run, first, found)
        why = runs.not_comparable(run, base)
        if not run.start:
            notes.append(f"{run.name}: {_nothing(run)}")
        elif why and base.start:
            notes.append(f"{run.name} is {why}")
        if run.unwritten:
            notes.append(f"{run.name} ran without {', '.join(sorted(run.unwritten))}: not written yet")
        if disturbed := summary.disturbed(run.record):
            notes.append(f"{run.name}: {disturbed}")
        rows.append(_row(run, base, differing, not why))
        if not why and run is not base and (unclear := _unclear(run, base)):
            notes.append(unclear)
    elsewhere = [base for run in found if (base := _base(run, first, found)) is not first]
    notes += dict.fromkeys(f"ratios of what was recorded on {runs.about(base)} are to {base.name}: "
                           f"{runs.what(base).partition(', on ')[0]}" for base in elsewhere)
    return Comparison(rows, differing, notes, first.name, measures or USUAL, first.unit)


def _base(run: Run, base: Run, found: Sequence[Run]) -> Run:
    """What a run is compared with: one that was recorded elsewhere with the one of the base's name that was recorded there."""
    if not run.recorded or run.recorded == base.recorded:
        return base
    return next((other for other in found if other.recorded == run.recorded and other.asked == base.asked), base)


def percentiles(run: Run) -> tuple[float | None, float | None, float | None]:
    """The 10th, 50th and 90th percentile of the timed steps' seconds; of fewer than `FEW` steps the 50th only."""
    timed = [step for step in run.record.timed_steps if step.get("seconds")]
    took = sorted(step["seconds"] for step in timed)
    low, high = (took[round(part * (len(took) - 1))] if len(took) >= FEW else None for part in (0.1, 0.9))
    return low, median(timed) if timed else None, high


def variation(run: Run) -> float | None:
    """Half the distance between the 10th and the 90th percentile, as a share of the 50th. None where few steps were timed."""
    low, middle, high = percentiles(run)
    return None if low is None else (high - low) / 2 / middle


def _unclear(run: Run, base: Run) -> str:
    """Whether steps of these runs vary by more than the runs differ."""
    mine, other = run.numbers.get("images_per_second"), base.numbers.get("images_per_second")
    widths = variation(run), variation(base)
    if not mine or not other or None in widths or not SAME < abs(mine / other - 1) < max(widths):
        return ""
    return (f"{run.name} differs from {base.name} by {words.share(abs(mine / other - 1))}, less than single steps do "
            f"(±{words.share(max(widths))}): repeat both runs before you believe it")


def _same(run: Run, other: Run) -> bool:
    return run.record is other.record or (run.folder is not None and run.folder == other.folder)


def _nothing(run: Run) -> str:
    """Of a run without a start in its record: why."""
    state = run.state.lower().replace("_", " ")
    return run.unreadable or f"nothing is recorded ({state}{': ' * bool(run.reason)}{run.reason})"


def _outside(base: Run, found: Sequence[Run]) -> str:
    """What the runs are compared with, where that is no row of the table: its speed, and in what it is unlike all of them."""
    if not base.start:
        return f"baseline {base.name}: {_nothing(base)}"
    values = {name: base.start.get("world_size") if name == "processes" else base.args.get(name)
              for name in switches([*found, base])}
    said = [f"{name.replace('_', ' ')} {'off' if words.difference(value) == '-' else words.difference(value)}"
            for name, value in values.items()]
    speed = base.numbers.get("images_per_second")
    said.append("no step of it was timed" if speed is None else f"{words.number(speed)} {base.unit}/s")
    return f"baseline {base.name}: {', '.join(said)}"


def switches(found: Sequence[Run]) -> list[str]:
    """The switches in which these runs differ, and the number of processes where that does. What was recorded elsewhere has the
    sizes of its machine: it is compared with what was recorded there."""
    known = [run for run in found if run.start]
    groups = [[run for run in known if run.recorded == card] for card in dict.fromkeys(run.recorded for run in known)]
    names = dict.fromkeys(name for run in known for name in run.args if name not in NOT_A_SWITCH)
    differing = [name for name in names if any(len({repr(given(run, name, group)) for run in group}) > 1 for group in groups)]
    return differing + ["processes"] * any(len({run.start.get("world_size") for run in group}) > 1 for group in groups)


def given(run: Run, name: str, others: Sequence[Run]):
    """The value of a switch. A run from before the script had it did what others do that were not given it."""
    if name in run.args:
        return run.args[name]
    asked = [(other.start.get("switches"), other.args[name]) for other in others if name in other.args]
    return next((value for switches, value in asked if isinstance(switches, dict) and name not in switches), None)


def _row(run: Run, base: Run, differing: Sequence[str], comparable: bool) -> dict:
    found = run.numbers
    speed, other = found.get("images_per_second"), base.numbers.get("images_per_second")
    low, middle, high = (seconds if seconds is None else seconds * 1000 for seconds in percentiles(run))
    row = {"run": run.name, "state": run.state.lower().replace("_", " "), "recorded": run.recorded, "base": base.name}
    row |= {name: run.args.get(name) for name in differing}
    if "processes" in differing:
        row["processes"] = run.start.get("world_size")
    return row | {
        "images_per_second": speed,
        "variation": variation(run) if speed else None,
        "ratio": speed / other if speed and other and comparable else None,
        "low_ms": low, "median_ms": middle, "high_ms": high,
        "step_ms": found["step_seconds"] * 1000 if "step_seconds" in found else None,
        "waiting": run.share("idle"),
        "memory_gb": run.memory / 1e9 if run.memory else None,
        "power_w": found.get("power"),
        "joules_per_image": found.get("joules_per_image"),
        "validation_accuracy": found.get("validation_accuracy") if run.args.get("data") != "random" else None,
        "loading_ms": found["loading"] * 1000 if "loading" in found else None,
        "first_step_s": found.get("first_step_seconds"),
        "with_workers_gb": found["memory_with_workers"] / 1e9 if "memory_with_workers" in found else None,
    }
