"""`trace`: what a few steps did on CPU and GPU, from a torch.profiler trace, and why they are not faster."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ..jobs import runs
from ..jobs.runs import Run
from ..system import paths
from ..system.errors import UsageError
from ..training import records, summary
from ..ui import charts, page, words
from ..ui.charts import Lane, Span
from ..ui.page import View
from ..ui.palette import CARE, COLLECTIVE, GREY, LAUNCH, NAMES, PHASE, SPEED, SYNC

if TYPE_CHECKING:
    from ..traces import Diagnosis, Facts

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

    verdict = diagnose(found, *_switches(job))
    title = f"trace of {name}"
    rows = listing(found)
    text = "\n".join([page.listed(f"{title}: {about(found)}", rows), *(f"  note: {line}" for line in why), str(verdict)])
    return View(title, text, _page(name, found, rows, verdict, why))


def facts_of(job) -> tuple[str, Facts | None, list[str]]:
    """The name of a run, what its trace tells, and what is to be said about it: why there is none, or notes.

    Raises UsageError where there is no such run or file.
    """
    if isinstance(job, (str, Path)) and is_file(paths.given(job)):
        found = analysed(Path(job).expanduser())
        return Path(job).name, found, found.notes
    run = runs.one(job)
    try:
        if run.folder is None:
            raise UsageError("this record is in no folder, so there is no trace next to it: give the run or its folder")
        found = analysed(run.folder)
    except UsageError as error:
        why = _instead(run)
        return run.name, None, why if why and _to_be_profiled(run) and not _left(run) else [*why, str(error)]
    return run.name, found, found.notes


def _switches(job) -> tuple[frozenset[str], frozenset[str]]:
    """Those that a run had on, and all that its script has, by its record; of a trace's file, by the record beside it."""
    from ..traces.advice import turned_on

    where = Path(job).expanduser() if isinstance(job, (str, Path)) else None
    if where is not None and is_file(where):
        if not (where.parent / records.NAME).exists():
            return frozenset(), frozenset()
        job = where.parent
    run = runs.one(job)
    args = run.record.start.get("args")
    args = args if isinstance(args, dict) else {}
    on = turned_on(args, [name for name, lab in words.LAB.items() if lab in run.unwritten])
    return on, frozenset(f"--{name.replace('_', '-')}" for name in args)


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
    why = summary.untraced(run.record) or "it was stopped before it could write one"
    if not run.start:
        why = run.reason or f"it was stopped before it started ({run.state.lower().replace('_', ' ')})"
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
                                     f"for {words.seconds(run.runs)}, {words.number(run.depth)} are queued"))
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
    if classes := by_class(facts):
        named = [f"{name} {words.share(flops)} and {words.share(part)}" for name, flops, part in classes if part >= 0.005]
        rows.append((FLOPS_AND_TIME, ", ".join(named)))
    return rows


FLOPS_AND_TIME = "FLOPs and time"


def by_class(facts: Facts) -> list[tuple[str, float, float]]:
    """Each class of operators with its share of the FLOPs and of a step's time; nothing without sizes."""
    from ..traces import bounds
    from ..traces.work import CLASSES

    try:
        step = bounds.step_of(facts)
    except UsageError:
        return []
    flops = {kind: sum(one.flops for one in step.works if one.kind == kind) for kind in CLASSES}
    every = sum(flops.values())
    if not (every and facts.seconds):
        return []
    return [(kind, flops[kind] / every, step.took[kind] / facts.seconds) for kind in CLASSES if step.took.get(kind)]


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
    said = [row for row in rows if row[0] not in ("busy", facts.per, "kernels", "operators", "phases", "", FLOPS_AND_TIME)]
    parts = [page.headline(f"Trace of {name}", about(facts)), *(page.note(line, CARE) for line in notes)]
    parts.append('<div style="display: flex; flex-wrap: wrap; gap: 8px 28px; align-items: center; margin: 8px 0">'
                 f'<div style="flex: 0 1 200px">{_busy(facts)}</div>'
                 f'<div style="flex: 1 1 480px; min-width: 300px">{_bar(facts)}</div></div>')
    parts += [_step(facts), _tops(facts), _classes(facts), page.rows(said), diagnosis_page(verdict)]
    return "".join(parts)


def _busy(facts: Facts) -> str:
    who, what = ("GPU", "kernels") if facts.on_gpu else ("CPU", "operators")
    return (f'<div style="font-size: 34px; font-weight: 650; line-height: 1.2">{words.share(facts.busy)}</div>'
            + page.quiet(f"of the time the {who} runs {what}"))


def _bar(facts: Facts) -> str:
    parts = {SHARES[name][0]: facts.shares[name] for name in facts.shares if facts.share(name) >= 0.002}
    colours = dict(SHARES.values())
    drawn = charts.stacked([("", parts)], colours=colours, inside="share", total=False, width=560, say=words.seconds,
                           legend=False)
    names = [(f"{SHARES[name][0]} {words.share(facts.share(name))}", SHARES[name][1]) for name in facts.shares
             if SHARES[name][0] in parts]
    who = "the GPU" if facts.on_gpu else "the CPU"
    title = f'<div style="font-size: 13px"><span style="{page.QUIET}">{facts.whole} of {who}</span> ' \
            f'<span style="font-weight: 600">{words.seconds(facts.seconds)}</span></div>'
    return title + drawn.html() + charts.legend(names)


def _tops(facts: Facts) -> str:
    """Kernels and operators by their own time, on a CPU operators and phases."""
    from ..traces.kernels import kind

    rows = {}
    for name, some in (("kernel", facts.kernels), ("operator", facts.operators)):
        rows[name] = [(kind(row.name).short if row.kind else row.name, words.count(row.count), "TC" if row.tensor_cores else "",
                       row.seconds) for row in some[:TOP]]
    if not facts.on_gpu:
        rows["phase"] = [(name, "", "", seconds) for name, seconds, _ in by_phase(facts)]
    out = []
    for name, some in rows.items():
        if not some:
            continue
        longest = max(seconds for *_, seconds in some) or 1.0
        cells = [[cut(title), count, cores, words.seconds(seconds), words.share(round(seconds / facts.seconds, 3))]
                 for title, count, cores, seconds in some]
        head = [name, "times", "cores", f"own time in {facts.whole}", "share"]
        shown = [at for at in range(len(head)) if at not in (1, 2) or any(row[at] for row in cells)]
        out.append(page.table_html([head[at] for at in shown], [[row[at] for at in shown] for row in cells],
                                   {head[3]: [seconds / longest for *_, seconds in some]}))
    note = "TC: computes on tensor cores." if any(row[2] for some in rows.values() for row in some) else ""
    boxes = "".join(f'<div style="flex: 0 1 auto; max-width: 100%">{box}</div>' for box in out)
    boxes = f'<div style="display: flex; flex-wrap: wrap; gap: 4px 28px; margin: 6px 0">{boxes}</div>'
    return boxes + (page.quiet(note) if note else "")


def _classes(facts: Facts) -> str:
    """FLOPs are not time: both, by class of operator."""
    if not (classes := by_class(facts)):
        return ""
    head = ["class of operators", "share of the FLOPs", f"share of {facts.whole}"]
    cells = [[name, words.share(flops), words.share(part)] for name, flops, part in classes]
    most = max(part for _, _, part in classes)
    return page.table_html(head, cells, {head[2]: [part / most for _, _, part in classes]})


def cut(name: str, most: int = 42) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


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
    name = f"step {number + 1:,}" if number is not None else "all of it"
    chart = charts.timeline(lanes, title=f"{name} in detail: {words.seconds(end - begin)}", begin=begin, end=end, left=118)
    how = "Solid: convolutions and matrix products. Faint: what mostly waits for memory."
    how += " Height: share of the time." if any(len(lane.spans) > charts.EACH for lane in lanes) else ""
    return replace(chart, names=named(chart.names)).html() + page.quiet(how)


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


def lanes_of(facts: Facts, begin: float, end: float) -> list[Lane]:
    """What each thread and each stream did from one moment to another."""
    from ..traces.gpu import waits as gpu_waits
    from ..traces.loop import loader

    trace_ = facts.trace
    cpu = [span_of(first, last, name, f"{name}: {words.seconds(last - first)}") for name, first, last in facts.phases
           if name != "idle"]
    cpu += [span_of(first, last, "idle", f"waits for its loader: {words.seconds(last - first)}")
            for first, last in loader(trace_)]
    lanes = [("CPU", cpu)]
    if not facts.on_gpu:
        lanes.append(("operators", operators(facts)))
    else:
        over = trace_.steps[-1].end if trace_.steps else end  # after the last step the profiler itself waits for the GPU
        lanes.append(("CPU waits", [Span(call.begin, call.end, WAITS, SYNC, tip=f"{call.name}: {words.seconds(call.seconds)}")
                                    for call in gpu_waits(trace_) if call.begin < over]))
        lanes += streams(facts, begin, end)
    lanes.append(("collectives", [Span(one.begin, one.end, "collective", tip=f"{one.kind}: {words.seconds(one.seconds)}")
                                  for one in facts.collectives if one.backend != "nccl"]))
    inside = [(name, [span for span in sorted(spans) if span.begin < end and span.end > begin]) for name, spans in lanes]
    return [Lane(name, spans) for name, spans in inside if spans or name in ("CPU", "operators")]


WAITS, NO_PHASE = "the CPU waits for the GPU", "in no phase"
WORDS = {"idle": "waits for the loader", "copy": "copy", "forward": "forward", "backward": "backward", "update": "update"}


def span_of(begin: float, end: float, phase: str | None, tip: str, faint: bool = False) -> Span:
    """A span in the colour of its phase."""
    return Span(begin, end, WORDS.get(phase, NO_PHASE), PHASE[phase] if phase in WORDS else GREY, faint, tip)


def operators(facts: Facts) -> list[Span]:
    """Operators of a CPU by their own time: the innermost, in the colour of their phase."""
    from ..traces.loop import Phases
    from ..traces.products import is_product

    phase = Phases(facts.phases)
    return [span_of(call.begin, call.end, phase(call.begin), f"{call.name}: {words.seconds(call.seconds)}",
                    not is_product(call.name)) for call in facts.trace.calls
            if call.kind == "op" and call.own >= 0.5 * call.seconds
            and not call.name.startswith(("c10d::", "record_param_comms"))]


def streams(facts: Facts, begin: float, end: float) -> list[tuple[str, list[Span]]]:
    """The busiest streams of a GPU, and its copies."""
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
            copies.append(span_of(item.begin, item.end, "copy", said))
            continue
        kind = kernels.kind(item.name)
        where = phase(item.call.begin if item.call else item.begin)
        if kind.name == "collective":
            found.setdefault(item.stream, []).append(Span(item.begin, item.end, "collective", COLLECTIVE, tip=said))
        else:
            where = "copy" if where == "idle" else where
            found.setdefault(item.stream, []).append(span_of(item.begin, item.end, where, said, not kind.arithmetic))
    order = sorted(found, key=lambda stream: -sum(span.end - span.begin for span in found[stream]))[:4]
    order.sort(key=lambda stream: (len(str(stream)), str(stream)))
    lanes = [(f"GPU stream {stream}", found[stream]) for stream in order]
    return lanes + ([("GPU copies", copies)] if copies else [])


def named(names: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The legend in the order of a step."""
    order = [*WORDS.values(), "collective", WAITS, NO_PHASE]
    return sorted(names, key=lambda name: order.index(name[0]))
