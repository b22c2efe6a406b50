"""`trace`: what a few steps did on CPU and GPU, from a torch.profiler trace, and why they are not faster."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ..jobs import runs
from ..jobs.runs import Run
from ..system.errors import UsageError
from ..training import records, summary
from ..ui import page, words
from ..ui.page import View
from ..ui.svg import CARE, COLLECTIVE, GREY, LAUNCH, NAMES, PHASE, SPEED, SYNC, Panel, Svg, arc, legend, on, short
from . import steps

if TYPE_CHECKING:
    from ..traces import Diagnosis, Facts
    from ..traces.facts import Row

WIDTH, LEFT, ACROSS = 900, 118, 766
PALE = 0.45
EACH = 300  # spans that are drawn one by one
USUAL = 0.2  # a step whose length differs from that in the middle by this part at most may be drawn for all
TOP = 8  # kernels and operators that are shown
# What a moment of a step may be, in the order of the bar: how it is called and drawn.
SHARES = {
    "compute": ("computes", SPEED),
    "communication": ("communicates, computes nothing", COLLECTIVE),
    "copy": ("copies, computes nothing", PHASE["copy"]),
    "loader": ("waits for the loader", PHASE["idle"]),
    "synchronisation": ("idle after a synchronisation", SYNC),
    "launch": ("waits for a launch", LAUNCH),
    "between": ("between two kernels", GREY),
    "calls": ("calls operators that do little", LAUNCH),
    "other": ("Python and the rest", GREY),
}


def trace(job) -> View:
    """One step on a time axis, busy share, kernels, operators, copies, synchronisations, and a diagnosis with what to try next.

    ``job``: a job, a run's name or folder, or the file of a trace. Raises UsageError where there is no such run or file; a run
    without a trace, or with one that can't be read, gives a view that says so.
    """
    name, found, why = facts_of(job)
    if found is None:
        return nothing(f"trace of {name}", why)
    from ..traces import diagnose

    verdict = diagnose(found, _on(job))
    title = f"trace of {name}"
    rows = listing(found)
    text = "\n".join([page.listed(f"{title}: {about(found)}", rows), *(f"  note: {line}" for line in why), str(verdict)])
    return View(title, text, _page(name, found, rows, verdict, why))


def facts_of(job) -> tuple[str, Facts | None, list[str]]:
    """The name of a run, what its trace tells, and what is to be said about it: why there is none, or notes.

    Raises UsageError where there is no such run or file.
    """
    if isinstance(job, (str, Path)) and is_file(Path(job).expanduser()):
        found = analysed(Path(job).expanduser())
        return Path(job).name, found, found.notes
    run = runs.one(job)
    try:
        if run.folder is None:
            raise UsageError("this record is in no folder, so there is no trace beside it: give the run or its folder")
        found = analysed(run.folder)
    except UsageError as error:
        why = _instead(run)
        return run.name, None, why if why and _to_be_profiled(run) and not _left(run) else [*why, str(error)]
    return run.name, found, found.notes


def _on(job) -> frozenset[str]:
    """The switches that a run had, as far as its record says; of a trace's file, the record beside it."""
    from ..traces.advice import turned_on

    where = Path(job).expanduser() if isinstance(job, (str, Path)) else None
    if where is not None and is_file(where):
        if not (where.parent / records.NAME).exists():
            return frozenset()
        job = where.parent
    run = runs.one(job)
    args = run.record.start.get("args")
    return turned_on(args if isinstance(args, dict) else {}, [name for name, lab in words.LAB.items() if lab in run.unwritten])


def analysed(where: Path) -> Facts:
    """What a trace tells, read once for the views that show the same one. Raises UsageError."""
    from ..traces.reading import locate

    file = locate(where)
    try:
        file = file.resolve()
        state = file.stat()
    except (OSError, RuntimeError) as error:  # a link to nowhere, or to itself
        raise UsageError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return _analysed(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _analysed(file: Path, changed: int, size: int) -> Facts:
    from .. import traces

    return traces.analyse(traces.read(file))


def is_file(path: Path) -> bool:
    """Whether this names the file of a trace, and not a run."""
    return path.is_file() if path.suffix != ".jsonl" else False


def has_trace(folder: Path) -> bool:
    return any(folder.glob("trace.json*")) or any(folder.glob("*.pt.trace.json*"))


def _instead(run: Run) -> list[str]:
    """Why a run may have no trace."""
    if run.state in ("PENDING", "RUNNING"):
        return [f"{run.name} has not ended: the trace is written after the profiled steps"]
    said = [event.get("message") for event in run.record.todos if event.get("lab") == "profiler"]
    if said := [message for message in said if isinstance(message, str)]:
        return said
    if not _to_be_profiled(run) or _left(run):
        return []
    why = summary.untraced(run.record) or "it was ended before it could write one"
    if not run.start:
        why = run.reason or f"it was ended before it began ({run.state.lower().replace('_', ' ')})"
    return [f"{run.name} was to be profiled, but has left no trace: {why}"]


def _to_be_profiled(run: Run) -> bool:
    """As its record says or, where it ended before that, its command."""
    return bool(run.args.get("profile") if run.start else run.job and "--profile" in run.job.request.command)


def _left(run: Run) -> bool:
    return run.folder is not None and has_trace(run.folder)


def nothing(title: str, why: Sequence[str]) -> View:
    return View(title, page.listed(f"{title}: nothing to show", [("", line) for line in why]),
                page.headline(title.capitalize()) + page.note(why[0], CARE, " ".join(why[1:])))


# --- in words ------------------------------------------------------------------------------------------------------------


def about(facts: Facts) -> str:
    """``4 steps of 31.6 ms on NVIDIA H100 80GB HBM3``, ``6.41 ms without a marked step on CPU``"""
    took = words.seconds(facts.seconds)
    count = f"{words.counted(facts.steps, 'step')} of {took}" if facts.marked else f"{took} without a marked step"
    rank = f", rank {facts.trace.rank} of {facts.trace.world_size}" if facts.trace.world_size > 1 else ""
    return f"{count} on {facts.trace.device}{rank}"


def listing(facts: Facts) -> list[tuple[str, str]]:
    """Everything that is shown, as name and words."""
    from ..traces.diagnosis import megabytes, reached, said_sync, some

    who = "the GPU" if facts.on_gpu else "the CPU"
    parts = [f"{SHARES[name][0]} {words.share(facts.share(name))}" for name in facts.shares if facts.share(name) >= 0.005]
    what = "kernels" if facts.on_gpu else "operators"
    rows = [("busy", f"{what} run {words.share(facts.busy)} of the time"), (facts.per, f"{who} " + ", ".join(parts))]
    rows += [(("kernels" if not at else ""), line) for at, line in enumerate(_top(facts.kernels, facts))]
    rows += [(("operators" if not at else ""), line) for at, line in enumerate(_top(facts.operators, facts))]
    if facts.on_gpu:
        rows.append(("tensor cores", f"{words.share(facts.tensor_cores)} of the kernels' time"))
        rows += [("could use them", f"{row.operator}: {words.seconds(row.seconds)} {facts.per}, {row.why}")
                 for row in facts.missed[:3]]
        for row in facts.copies[:4]:
            said = f"{DIRECTION.get(row.direction, row.direction)}, {row.memory} memory: {megabytes(row.bytes)} {facts.per}"
            rows.append(("copies", f"{said}, {words.number(row.speed / 1e9)} GB/s"))
        rows += [("synchronises", said_sync(row, facts.per)) for row in facts.syncs[:4]]
        if not facts.syncs:
            rows.append(("synchronises", "never"))
        if run := facts.launches:
            rows.append(("launches", f"{some(run.kernels, 'kernel')} {facts.per}, one every {words.seconds(run.every)}; one runs "
                                     f"{words.seconds(run.runs)}, {words.number(run.depth)} wait their turn"))
    if not facts.on_gpu and (parts := by_phase(facts)):
        rows.append(("phases", ", ".join(f"{name} {words.seconds(seconds)}" for name, seconds, _ in parts)))
    rows.append(("loader", f"the process waits {words.seconds(facts.loader)} {facts.per}"))
    if facts.collectives:
        whole, hidden = facts.under_way
        beside = words.share(hidden / whole if whole else 0.0)
        count = words.count(len(facts.collectives) / facts.steps)
        rows.append(("collectives", f"{count} {facts.per}, {words.seconds(whole)}, {beside} of it beside computing"))
    if facts.achieved.get("flops"):
        rows.append(("arithmetic", f"convolutions and products reach {reached(facts)}"))
    return rows


def by_phase(facts: Facts) -> list[tuple[str, float, str]]:
    """The phases of a step as the CPU went through them: name, seconds in a step, colour."""
    from ..traces import intervals

    found: dict[str, list] = {}
    for name, first, last in facts.phases:
        found.setdefault(name, []).append((first, last))
    return [(NAMES.get(name, name), seconds, PHASE.get(name, GREY)) for name, spans in found.items()
            if (seconds := intervals.total(intervals.common(intervals.union(spans), facts.spans)) / facts.steps)]


DIRECTION = {"HtoD": "to the GPU", "DtoH": "from the GPU", "DtoD": "on the GPU", "PtoP": "between GPUs"}


def _top(rows: Sequence, facts: Facts, most: int = 5) -> list[str]:
    from ..traces.kernels import kind

    out = []
    for row in rows[:most]:
        name = kind(row.name).short if row.kind else row.name
        cores = ", tensor cores" if row.tensor_cores else ""
        out.append(f"{words.share(row.seconds / facts.seconds)} {name} ({words.seconds(row.seconds)}, "
                   f"{words.count(row.count)} {facts.per}{cores})")
    return out


# --- the page ------------------------------------------------------------------------------------------------------------


def _page(name: str, facts: Facts, rows: Sequence[tuple[str, str]], verdict: Diagnosis, notes: Sequence[str]) -> str:
    said = [row for row in rows if row[0] not in ("busy", facts.per, "kernels", "operators", "phases", "")]
    parts = [page.headline(f"Trace of {name}", about(facts)), *(page.note(line, CARE) for line in notes)]
    parts.append('<div style="display: flex; flex-wrap: wrap; gap: 8px 28px; align-items: center; margin: 8px 0">'
                 f'<div style="flex: 0 1 220px; min-width: 180px">{_gauge(facts)}</div>'
                 f'<div style="flex: 1 1 480px; min-width: 300px">{_bar(facts)}</div></div>')
    parts += [_step(facts), _tops(facts), page.rows(said), diagnosis_page(verdict)]
    return "".join(parts)


def _gauge(facts: Facts) -> str:
    who = "GPU" if facts.on_gpu else "CPU"
    svg = Svg(220, 150, f"{who} busy {words.share(facts.busy)}")
    svg.path(arc(110, 104, 82, -110, 110), "currentColor", width=18, opacity=0.13, cap="butt")
    end = -110 + 220 * min(1.0, max(facts.busy, 0.001))
    svg.path(arc(110, 104, 82, -110, end), SPEED, width=18, cap="butt")
    svg.text(110, 104, words.share(facts.busy), size=34, anchor="middle", weight=650)
    svg.text(110, 126, f"of the time the {who}", anchor="middle", opacity=0.8)
    svg.text(110, 142, "runs kernels" if facts.on_gpu else "runs operators", anchor="middle", opacity=0.8)
    return str(svg)


def _bar(facts: Facts) -> str:
    svg = Svg(560, 34, f"what {facts.whole} is made of")
    x, names = 0.0, []
    for name in facts.shares:
        part = facts.share(name)
        said, colour = SHARES[name]
        if part < 0.002:
            continue
        svg.rect(x, 0, part * 560, 34, colour, f"{said}: {words.share(part)}, {words.seconds(facts.shares[name])}")
        if part > 0.08:
            svg.text(x + part * 280, 22, words.share(part), size=13, anchor="middle", weight=600, fill=on(colour))
        x += part * 560
        names.append((f"{said} {words.share(part)}", colour))
    who = "the GPU" if facts.on_gpu else "the CPU"
    title = f'<div style="font-size: 13px"><span style="{page.QUIET}">{facts.whole} of {who}</span> ' \
            f'<span style="font-weight: 600">{words.seconds(facts.seconds)}</span></div>'
    return title + str(svg) + legend(names)


def _tops(facts: Facts) -> str:
    """Kernels and operators side by side, on a CPU operators and phases."""
    boxes = [(f"kernels, own time in {facts.whole}", [_bar_of(row, facts.per) for row in facts.kernels[:TOP]]),
             (f"operators, own time in {facts.whole}", [_bar_of(row, facts.per) for row in facts.operators[:TOP]])]
    if not facts.on_gpu:
        found = by_phase(facts)
        boxes.append((f"phases of {facts.whole}", [(name, seconds, colour, 1.0, "", False) for name, seconds, colour in found]))
    shown = "".join(f'<div style="flex: 1 1 400px; min-width: 300px">{_bars(title, bars, facts.seconds)}</div>'
                    for title, bars in boxes if bars)
    return f'<div style="display: flex; flex-wrap: wrap; gap: 4px 28px; margin: 6px 0">{shown}</div>'


def _bar_of(row: Row, per: str) -> tuple[str, float, str, float, str, bool]:
    """Name, seconds, colour, how strong, what the pointer shows, whether it computes on tensor cores."""
    from ..traces.kernels import ARITHMETIC, kind
    from ..traces.products import is_product

    strong = row.kind in (*ARITHMETIC, "collective") if row.kind else is_product(row.name)
    return (kind(row.name).short if row.kind else row.name, row.seconds, COLLECTIVE if row.kind == "collective" else SPEED,
            1.0 if strong else PALE, f"{row.name}: {words.count(row.count)} times {per}", row.tensor_cores)


def _bars(title: str, bars: Sequence[tuple[str, float, str, float, str, bool]], step: float) -> str:
    svg = Svg(430, 26 + 32 * len(bars), title)
    svg.text(0, 14, title, 13, weight=600)
    longest = max(seconds for _, seconds, *_ in bars) or 1.0
    for at, (name, seconds, colour, strong, tip, cores) in enumerate(bars):
        y = 26 + 32 * at
        if cores:
            svg.text(0, y + 11, "TC", 11, weight=700)
        svg.text(20 if cores else 0, y + 11, name if len(name) <= 42 else f"{name[:41]}…", 12)
        part = words.share(round(seconds / step, 3)) if step else "-"
        svg.text(430, y + 11, f"{words.seconds(seconds)}, {part}", 12, "end", opacity=0.85)
        svg.rect(0, y + 15, 430, 8, "currentColor", opacity=0.08, radius=2)
        svg.rect(0, y + 15, seconds / longest * 430, 8, colour, tip, opacity=strong, radius=2)
    return str(svg) + (page.quiet("TC: computes on tensor cores.") if any(cores for *_, cores in bars) else "")


def diagnosis_page(verdict: Diagnosis) -> str:
    """The diagnosis in a box: pattern, evidence, what to try, what is not known."""
    name = verdict.pattern.replace("_", " ")
    line = '<div style="margin-top: 3px">{}</div>'
    body = "".join(line.format(html.escape(text[:1].upper() + text[1:] + ".")) for text in verdict.evidence)
    body += "".join(line.format(f'<span style="{page.QUIET}">also</span> {html.escape(text)}') for text in verdict.also)
    tries = "".join(f'<li style="margin: 2px 0">{html.escape(text)}</li>' for text in verdict.next)
    body += '<div style="margin-top: 8px; font-weight: 600">Try next</div>' \
            f'<ol style="margin: 2px 0 0; padding-left: 22px">{tries}</ol>'
    if verdict.unknown:
        body += f'<div style="{page.QUIET}; font-size: 12.5px; margin-top: 8px">Not known from this trace: ' \
                f'{html.escape("; ".join(verdict.unknown))}.</div>'
    head = f'<div style="font-size: 17px; font-weight: 600"><span style="{page.QUIET}; font-weight: 400">Diagnosis</span> ' \
           f'{html.escape(name)}<span style="font-weight: 400">: {html.escape(verdict.title)}</span></div>'
    style = f"border-left: 5px solid {SPEED}; background: rgba(128, 128, 128, .1); padding: 10px 16px; margin: 12px 0"
    return f'<div style="{style}; font-size: 14px">{head}{body}</div>'


# --- one step on a time axis ---------------------------------------------------------------------------------------------


def _step(facts: Facts) -> str:
    """The step whose length is in the middle: what each thread and each stream did."""
    begin, end, number = drawn(facts)
    lanes = lanes_of(facts, begin, end)
    if end <= begin or not lanes:
        return ""
    unit, second = ("ms", 1e-3) if end - begin < 1 else ("s", 1.0)
    svg = Svg(WIDTH, 50 + 34 * len(lanes), "one step on a time axis")
    name = f"step {number + 1:,}" if number is not None else "all of it"
    svg.text(LEFT, 16, f"{name} from near: {words.seconds(end - begin)}", 13, weight=600)
    for row, (title, spans) in enumerate(lanes):
        panel = Panel(svg, LEFT, 28 + 34 * row, ACROSS, 24, (0, (end - begin) / second), (0, 1))
        svg.text(LEFT - 10, panel.top + 16, title, 12, "end", 600)
        draw(panel, spans, begin, end)
    panel.axis_x("", say=lambda value: f"{short(value)} {unit}")
    how = "Solid: convolutions and matrix products. Faint: what mostly waits for memory."
    how += " Height: share of the time." if any(len(spans) > EACH for _, spans in lanes) else ""
    return str(svg) + legend(named(lanes)) + page.quiet(how)


Span = tuple[float, float, str, bool, str]  # from, to, colour, strong, what the pointer shows


def drawn(facts: Facts) -> tuple[float, float, int | None]:
    """From when to when, and which step."""
    from ..traces.gpu import step_ends

    ends, marked = step_ends(facts.trace), facts.trace.steps
    if facts.on_gpu and len(ends) > 1:
        known = sorted(ends)
        whole = [(at, after) for at, after in pairwise(known) if after == at + 1 and ends[after] > ends[at]]
        if whole:
            middle = sorted(ends[after] - ends[at] for at, after in whole)[len(whole) // 2]
            usual = [(at, after) for at, after in whole if abs(ends[after] - ends[at] - middle) <= USUAL * middle]
            # Of those as long as most, the one in which most is seen of the CPU: it may be steps ahead of the GPU.
            at, after = max(usual, key=lambda pair: seen(facts, ends[pair[0]], ends[pair[1]]))
            return ends[at], ends[after], marked[after].number
    if not marked:
        return facts.begin, facts.end, None
    chosen = sorted(marked[1:] or marked, key=lambda step: step.end - step.begin)
    step = chosen[len(chosen) // 2]
    return step.begin, max([step.end, *ends.values()]) if len(marked) == 1 else step.end, step.number


def seen(facts: Facts, begin: float, end: float) -> float:
    """How much of a stretch the CPU spends in marked phases."""
    return sum(max(0.0, min(last, end) - max(first, begin)) for _, first, last in facts.phases)


def lanes_of(facts: Facts, begin: float, end: float) -> list[tuple[str, list[Span]]]:
    from ..traces.gpu import waits as gpu_waits
    from ..traces.loop import loader

    trace_ = facts.trace
    phases = [(first, last, PHASE.get(name, GREY), True, f"{name}: {words.seconds(last - first)}")
              for name, first, last in facts.phases if first < end and last > begin and name != "idle"]
    waits = [(first, last, PHASE["idle"], True, f"waits for its loader: {words.seconds(last - first)}")
             for first, last in loader(trace_) if first < end and last > begin]
    lanes = [("CPU", sorted([*phases, *waits]))]
    if not facts.on_gpu:
        lanes.append(("operators", operators(facts, begin, end)))
    else:
        over = trace_.steps[-1].end if trace_.steps else end  # after the last step the profiler itself waits for the GPU
        syncs = [(call.begin, call.end, SYNC, True, f"{call.name}: {words.seconds(call.seconds)}")
                 for call in gpu_waits(trace_) if call.begin < min(end, over) and call.end > begin]
        if syncs:
            lanes.append(("CPU waits", syncs))
        lanes += streams(facts, begin, end)
    sent = [(one.begin, one.end, COLLECTIVE, True, f"{one.kind}: {words.seconds(one.seconds)}") for one in facts.collectives
            if one.backend != "nccl" and one.begin < end and one.end > begin]
    return [*lanes, *([("collectives", sorted(sent))] if sent else [])]


def operators(facts: Facts, begin: float, end: float) -> list[Span]:
    """Operators of a CPU by their own time: the innermost, in the colour of their phase."""
    from ..traces.loop import Phases
    from ..traces.products import is_product

    phase = Phases(facts.phases)
    out = []
    for call in facts.trace.calls:
        if call.kind == "op" and call.begin < end and call.end > begin and call.own >= 0.5 * call.seconds \
                and not call.name.startswith(("c10d::", "record_param_comms")):
            colour = PHASE.get(phase(call.begin), GREY)
            out.append((call.begin, call.end, colour, is_product(call.name), f"{call.name}: {words.seconds(call.seconds)}"))
    return out


def streams(facts: Facts, begin: float, end: float) -> list[tuple[str, list[Span]]]:
    from ..traces import kernels
    from ..traces.loop import Phases

    phase = Phases(facts.phases)
    found: dict[object, list[Span]] = {}
    copies: list[Span] = []
    for item in facts.trace.work:
        if item.begin >= end or item.end <= begin:
            continue
        said = f"{item.name[:80]}: {words.seconds(item.seconds)}"
        if item.kind != "kernel":
            copies.append((item.begin, item.end, PHASE["copy"], True, said))
            continue
        kind = kernels.kind(item.name)
        where = phase(item.call.begin if item.call else item.begin)
        colour = COLLECTIVE if kind.name == "collective" else PHASE.get(where, GREY) if where != "idle" else PHASE["copy"]
        strong = kind.arithmetic or kind.name == "collective"
        found.setdefault(item.stream, []).append((item.begin, item.end, colour, strong, said))
    order = sorted(found, key=lambda stream: -sum(last - first for first, last, *_ in found[stream]))[:4]
    order.sort(key=lambda stream: (len(str(stream)), str(stream)))
    lanes = [(f"GPU stream {stream}", found[stream]) for stream in order]
    return lanes + ([("GPU copies", copies)] if copies else [])


def draw(panel: Panel, spans: Sequence[Span], begin: float, end: float) -> None:
    """A lane. Many spans become columns of two pixels, filled as far as their time is taken, each kind of span in its colour."""
    svg, scale = panel.svg, panel.width / (end - begin)
    svg.rect(panel.left, panel.top, panel.width, panel.height, "currentColor", opacity=0.06)
    inside = [span for span in spans if span[0] < end and span[1] > begin]
    if len(inside) <= EACH:
        for first, last, colour, strong, tip in inside:
            x0, x1 = (panel.left + (min(max(moment, begin), end) - begin) * scale for moment in (first, last))
            svg.rect(x0, panel.top, max(x1 - x0, 0.5), panel.height, colour, tip, opacity=1 if strong else PALE)
        return
    columns = round(panel.width / 2)
    kinds = {f"{colour}{strong}": (colour, strong) for _, _, colour, strong, _ in inside}
    moments = [steps.Span(f"{colour}{strong}", max(first, begin) - begin, min(last, end) - begin, 0)
               for first, last, colour, strong, _ in inside]
    low = [0.0] * columns
    for kind, taken in steps.shares(moments, end - begin, columns).items():
        high = [min(1.0, round(a + b, 4)) for a, b in zip(low, taken)]
        colour, strong = kinds[kind]
        svg.path(steps.area(Panel(svg, panel.left, panel.top, panel.width, panel.height, (0, 1), (0, 1)), low, high), fill=colour,
                 width=0, opacity=1 if strong else PALE)
        low = high


def named(lanes: Sequence[tuple[str, Sequence[Span]]]) -> list[tuple[str, str]]:
    used = {span[2] for _, spans in lanes for span in spans}
    names = [("waits for the loader", PHASE["idle"]), ("copy", PHASE["copy"]), ("forward", PHASE["forward"]),
             ("backward", PHASE["backward"]), ("update", PHASE["update"]), ("collective", COLLECTIVE),
             ("the CPU waits for the GPU", SYNC), ("in no phase", GREY)]
    return [(name, colour) for name, colour in names if colour in used]
