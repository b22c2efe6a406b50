"""`snapshot`: what `torch.cuda.memory._dump_snapshot` wrote, drawn offline: memory over time by who allocated it, and holes."""

from __future__ import annotations

import gzip
import pickle
from collections import Counter
from pathlib import Path

from ..jobs import runs
from ..system import paths
from ..system.errors import UsageError
from ..ui import charts, page, words
from ..ui.page import View
from ..ui.palette import GREY, RUNS

NAMES = ("snapshot.pickle", "snapshot.pickle.gz")
MOST = 6  # places that have a colour of their own
POINTS = 300
OURS = ("/torch/", "\\torch\\", "<frozen", "<string>", "??")


class _Plain(pickle.Unpickler):
    """Of lists, dicts and numbers: a snapshot holds nothing else, and a pickle from elsewhere might run anything."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it holds {module}.{name}")


def snapshot(job) -> View:
    """Memory over time by the line of Python that allocated it, its peak, and what the allocator holds and does not use.

    ``job``: a job, a run's name or its folder, with a ``snapshot.pickle``; or such a file. To record one: call
    ``torch.cuda.memory._record_memory_history()`` first, and ``torch.cuda.memory._dump_snapshot("snapshot.pickle")`` at the end.
    Raises UsageError where there is none.
    """
    file = _file(job)
    try:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as opened:
            found = _Plain(opened).load()
        trace = max(found["device_traces"], key=len)
        segments = found["segments"]
    except (OSError, pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UsageError(f"{file} is no snapshot of torch's allocator ({error})") from None
    live, before = replay(trace)
    title = f"Allocator snapshot {file.name}"
    if not live:
        return View(title, f"{title}: no allocation is recorded", page.quiet(f"{title}: no allocation is recorded"))
    peak = max(range(len(live)), key=lambda at: sum(live[at].values()))
    places = [place for place, _ in live[peak].most_common()]
    whole = sum(live[peak].values())
    said = [f"Peak of what was allocated while it was recorded: {words.gigabytes(whole)}, event {peak + 1:,} of {len(live):,}."]
    said += [f"{words.gigabytes(live[peak][place])} of the peak ({words.share(live[peak][place] / whole)}): {place}"
             for place in places[:MOST]]
    if before:
        said.append(f"{words.gigabytes(before)} were freed that had been allocated before the recording began.")
    if segments:
        said.append(_at_the_end(segments))

    def body() -> str:
        return page.headline(title) + _figure(live, places[:MOST]).html() + "".join(map(page.quiet, said))

    return View(title, "\n".join([title, *(f"  {line}" for line in said)]), body)


def _at_the_end(segments: list[dict]) -> str:
    reserved = sum(segment["total_size"] for segment in segments)
    used = sum(segment["allocated_size"] for segment in segments)
    free = [block["size"] for segment in segments for block in segment["blocks"] if block["state"] == "inactive"]
    hole = f"; the largest hole has {words.gigabytes(max(free))}" if free else ""
    return (f"At the end {words.gigabytes(reserved)} are reserved and {words.gigabytes(used)} of them in use{hole}. Holes that "
            "no request fits into are fragmentation: expandable_segments:True lets a segment grow instead.")


def _file(job) -> Path:
    if isinstance(job, (str, Path)) and paths.given(job).is_file():
        return paths.given(job)
    folder = runs.one(job).folder
    for name in NAMES if folder else ():
        if (folder / name).is_file():
            return folder / name
    raise UsageError(f"there is no {NAMES[0]} in {folder or job}: the script has to write it, see help(views.snapshot)")


def replay(trace: list[dict]) -> tuple[list[Counter], int]:
    """Bytes by place after each allocation or free of a device's trace; and the bytes of frees of what nobody saw allocated."""
    held: dict[int, tuple[str, int]] = {}
    now: Counter = Counter()
    out, before = [], 0
    for event in trace:
        action, address, size = event.get("action"), event.get("addr"), event.get("size", 0)
        if action == "alloc":
            place = where(event.get("frames") or [])
            held[address] = place, size
            now[place] += size
        elif action in ("free", "free_requested"):
            if address not in held:  # of before, or requested already
                before += size if action == "free_requested" else 0
                continue
            place, size = held.pop(address)
            now[place] -= size
            if not now[place]:
                del now[place]
        else:
            continue
        out.append(now.copy())
    return out, before


def where(frames: list[dict]) -> str:
    """``lm.py(84): forward``: the innermost line of Python that is not torch's own."""
    for frame in frames:
        file, name = str(frame.get("filename", "")), str(frame.get("name", ""))
        if file.endswith(".py") and not any(part in file for part in OURS):
            return f"{Path(file).name}({frame.get('line')}): {name}"
    return "backward pass" if not frames or any("backward" in str(frame.get("name")) for frame in frames) else "torch"


def _figure(live: list[Counter], places: list[str]) -> charts.Chart:
    step = max(1, len(live) // POINTS)
    at = sorted({*range(0, len(live), step), max(range(len(live)), key=lambda index: sum(live[index].values()))})
    lower, lines = [0.0] * len(at), []
    for number, place in enumerate([*places, "others"]):
        named = [live[index][place] if place != "others" else sum(live[index].values()) - sum(live[index][one] for one in places)
                 for index in at]
        upper = [low + size / 1e9 for low, size in zip(lower, named)]
        if any(named):
            lines.append(charts.Line(place, [], GREY if place == "others" else RUNS[number % len(RUNS)],
                                     list(zip(at, lower, upper)), width=0, opacity=0.8))
        lower = upper
    return charts.lines(lines, x="allocations and frees, in order", y="GB", height=260, y_range=(0, 1.05 * max(lower)))
