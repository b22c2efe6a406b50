"""`communications`: what processes send each other in a step, how long it takes, and how much of that hides behind computing."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..jobs import runs
from ..ui import charts, page, words
from ..ui.charts import Lane, Span
from ..ui.page import View
from ..ui.palette import COLLECTIVE, GREY, SPEED
from .trace import about, drawn, facts_of, is_file, named, nothing, operators, streams

if TYPE_CHECKING:
    from ..traces import Facts
    from ..traces.facts import Collective

MOST = 12  # collectives of a step that get a row of their own in the picture
ALONE, BESIDE = "collective, nothing computed beside it", "collective, hidden behind computing"


def communications(job) -> View:
    """The collectives of a step by kind: how many, bytes, time, how fast, and what of it is hidden behind computing.

    ``job``: a job, a run's name or folder, or the file of a trace. Raises UsageError where there is no such run or file; a run
    without a trace, or of one process, gives a view that says so.
    """
    name, found, why = facts_of(job)
    title = f"communications of {name}"
    if found is None:
        return nothing(title, why)
    if not found.collectives:
        return nothing(title, [none(found.trace.processes or recorded(job)), *why])
    head, cells = table(found)
    said = findings(found)
    text = "\n".join([f"{title}: {about(found)}", page.table(head, cells), *said, *(f"note: {line}" for line in why)])
    body = [page.headline(f"Communications of {name}", about(found)), *(page.note(line, COLLECTIVE) for line in why)]
    body += [_bar(found), _step(found), page.table_html(head, cells, {"time": _lengths(found)})]
    body += [f'<div style="margin: 3px 0">{html.escape(line)}</div>' for line in said]
    return View(title, text, "".join(body))


def none(processes: int | None) -> str:
    """Why a trace holds no collective, of so many processes."""
    if processes == 1:
        return "only one process trained here, so nothing was sent. Run it with more (--gpus 2 or --processes 2)"
    if processes is None:
        return "no collective is in the trace, and neither it nor a record says how many processes trained: if it was one, " \
               "run it with more (--gpus 2 or --processes 2)"
    return "no collective is in the trace: none was under way in the steps that it holds"


def recorded(job) -> int | None:
    """How many processes trained, as the record says; None where there is none, or it was not written so far."""
    if isinstance(job, (str, Path)) and is_file(Path(job).expanduser()):
        return None
    return runs.one(job).start.get("world_size")


# --- in words ------------------------------------------------------------------------------------------------------------


def groups(facts: Facts) -> list[tuple[str, str, list[Collective]]]:
    """By kind and phase, those that take most first."""
    found: dict[tuple[str, str], list[Collective]] = {}
    for one in facts.collectives:
        found.setdefault((one.kind, one.phase), []).append(one)
    return sorted(((*key, some) for key, some in found.items()), key=lambda group: -sum(one.seconds for one in group[2]))


def table(facts: Facts) -> tuple[list[str], list[list[str]]]:
    from ..traces.diagnosis import megabytes

    steps = facts.steps
    head = ["collective", "phase", facts.per, "bytes", "time", "hidden", "GB/s", "largest"]
    cells = []
    for kind, phase, some in groups(facts):
        seconds = sum(one.seconds for one in some)
        hidden = sum(one.hidden for one in some)
        known = [one.bytes for one in some if one.bytes is not None]
        whole = len(known) == len(some)
        speed = sum(known) / seconds / 1e9 if whole and seconds else 0.0
        cells.append([kind, phase or "-", words.count(len(some) / steps), megabytes(sum(known) / steps) if whole else "-",
                      words.seconds(seconds / steps), part(hidden, seconds), words.number(speed) if speed > 0.001 else "-",
                      megabytes(max(known)) if known else "-"])
    return head, cells


def part(some: float, whole: float) -> str:
    return words.share(round(some / whole, 3)) if whole else "-"


def _lengths(facts: Facts) -> list[float]:
    times = [sum(one.seconds for one in some) for _, _, some in groups(facts)]
    return [time / max(times) if max(times) else 0.0 for time in times]


def findings(facts: Facts) -> list[str]:
    """The same in sentences."""
    from ..traces.diagnosis import megabytes, some
    from ..traces.stragglers import waiting

    steps, found, per, whole = facts.steps, facts.collectives, facts.per, facts.whole
    seconds, hidden = facts.under_way
    known = [one.bytes for one in found if one.bytes is not None]
    backends = sorted({one.backend for one in found})
    size = f", {megabytes(sum(known) / steps)}" if len(known) == len(found) else ""
    asked = "" if facts.on_gpu else "asked for or "  # the call that asks takes the process's own time
    out = [f"{some(len(found) / steps, 'collective')} {per}{size}, by {' and '.join(backends)}; one is {asked}under way for "
           f"{words.seconds(seconds)} of the {words.seconds(facts.seconds)} of {whole}."]
    alone = f"{words.seconds(facts.shares['communication'])} {per} ({words.share(facts.share('communication'))})"
    out.append(f"{part(hidden, seconds)} of that is hidden behind computing; for {alone} the device does nothing else.")
    for kind, unit in (("all_reduce", "bucket"), ("reduce_scatter", "reduce-scatter")):  # of DDP, of FSDP
        backward = [one for one in found if one.phase == "backward" and one.kind == kind]
        if backward:
            inside = part(sum(one.hidden for one in backward), sum(one.seconds for one in backward))
            out.append(f"Gradients go in {some(len(backward) / steps, unit)} {per} beside the backward pass: {inside} of their "
                       "time is hidden.")
    if waiting(facts):
        out.append("Most of these take longer than any network needs for the bytes: this process waits for a slower one.")
    if backends == ["nccl"]:
        out.append("An NCCL kernel starts when its process is ready and then waits for the others: its time includes the wait.")
    if len(known) < len(found):
        out.append("The bytes of some are not recorded: record_shapes=True in torch.profiler.profile.")
    if facts.trace.world_size > 1:
        out.append(f"This is rank {facts.trace.rank} of {facts.trace.world_size}: others may wait elsewhere.")
    return out


# --- the picture ---------------------------------------------------------------------------------------------------------


def _bar(facts: Facts) -> str:
    """A step: computing alone, both at once, communication alone, neither."""
    _, both = facts.under_way
    computing, alone = computed(facts), facts.shares["communication"]
    beside = "computes and communicates"
    parts = {"computes": computing - both, beside: both, "communicates, computes nothing": alone,
             "neither": facts.seconds - computing - alone}
    colours = dict(zip(parts, (SPEED, COLLECTIVE, COLLECTIVE, GREY)))
    drawn_ = charts.stacked([("", parts)], colours=colours, inside="share", total=False, faint=[beside], say=words.seconds)
    title = f'<div style="font-size: 13px"><span style="{page.QUIET}">{facts.whole}</span> ' \
            f'<span style="font-weight: 600">{words.seconds(facts.seconds)}</span></div>'
    names = [(f"{name} {words.seconds(parts[name])}", colour) for name, colour in drawn_.names
             if parts[name] > 0.002 * facts.seconds]
    return title + replace(drawn_, names=names).html()


def computed(facts: Facts) -> float:
    """Seconds of a step in which something is computed."""
    from ..traces import intervals

    return intervals.total(intervals.common(facts.compute_spans, facts.spans)) / facts.steps


def _step(facts: Facts) -> str:
    """One step: above what is computed, below a row for each collective, solid where nothing is computed beside it."""
    from ..traces import intervals

    begin, end, number = drawn(facts)
    there = sorted((one for one in facts.collectives if one.begin < end and one.end > begin), key=lambda one: one.begin)
    largest = sorted(there, key=lambda one: -one.seconds)[:MOST]
    shown = [one for one in there if one in largest]
    if not shown:
        return ""
    name = f"step {number + 1:,}" if number is not None else "all of it"
    lanes = [Lane(title, spans) for title, spans in working(facts, begin, end)]
    for one in shown:
        span = intervals.within([(one.begin, one.end)], begin, end)
        tip = f"{label(one)}: {words.seconds(one.seconds)}, {part(one.hidden, one.seconds)} hidden"
        least = (end - begin) / 1000  # the moments between two kernels are too short to be seen
        alone = [(first, last) for first, last in intervals.minus(span, facts.compute_spans) if last - first > least]
        lanes.append(Lane(label(one), [*(Span(*both, BESIDE, COLLECTIVE, True, tip) for both in span),
                                       *(Span(*both, ALONE, COLLECTIVE, False, tip) for both in alone)], 16))
    chart = charts.timeline(lanes, title=f"{name} in detail: {words.seconds(end - begin)}", begin=begin, end=end)
    names = named([name for name in chart.names if name[0] not in (ALONE, BESIDE)])
    left = f", the {len(there) - len(shown)} shortest left out" if len(there) > len(shown) else ""
    how = f"The other rows: one collective each{left}. Solid: nothing is computed beside it. Faint: hidden behind computing."
    return replace(chart, label="the collectives of one step on a time axis", names=names).html() + page.quiet(how)


def working(facts: Facts, begin: float, end: float) -> list[tuple[str, list[Span]]]:
    """What is computed: of a GPU its busiest stream without collectives, of a CPU its operators."""
    if not facts.on_gpu:
        return [("operators", [span for span in operators(facts) if span.begin < end and span.end > begin])]
    lanes = [(title, spans) for title, spans in streams(facts, begin, end)
             if title != "GPU copies" and any(span.what != "collective" for span in spans)]
    return sorted(lanes, key=lambda lane: -sum(span.end - span.begin for span in lane[1]))[:1]


def label(one: Collective) -> str:
    from ..traces.diagnosis import megabytes

    return f"{one.kind} {megabytes(one.bytes)}" if one.bytes is not None and one.bytes >= 1e4 else one.kind
