"""`dashboard`: one run at a glance."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path

from ..jobs import runs
from ..jobs.runs import Run
from ..jobs.watch import COLOURS as OF_JOBS
from ..jobs.watch import duration
from ..system.errors import UsageError
from ..training import summary
from ..ui import charts, page, words
from ..ui.charts import Bar
from ..ui.page import View
from ..ui.palette import BAD, CARE, GOOD, GREY, MEMORY, NAMES, PHASE, SPEED, VERMILLION

COLOURS = {**OF_JOBS, "STOPPED": CARE, "NOT_ENDED": GREY}
TITLES = {
    "PENDING": "waits in the queue",
    "RUNNING": "running",
    "FAILED": "failed",
    "OUT_OF_MEMORY": "out of memory",
    "TIMEOUT": "reached its time limit",
    "CANCELLED": "cancelled",
    "NODE_FAIL": "its node failed",
    "STOPPED": "stopped after saving a checkpoint: run it again with --resume",
    "NOT_ENDED": "not finished: still running, or killed",
    "UNKNOWN": "nothing is known about how it ended",
    "COMPLETED": "completed",
}
GOING = ("PENDING", "RUNNING", "NOT_ENDED")  # or it may go on, as far as a record tells
# Drawn in a square of 24: a bar that runs over its box, a cross, a clock, a square that says stop, an hourglass.
ICONS = {
    "OUT_OF_MEMORY": "M3 9h13v8H3zM16 11h6M16 15h6M6 12v2M10 12v2",
    "FAILED": "M5 5l14 14M19 5L5 19",
    "NODE_FAIL": "M5 5l14 14M19 5L5 19",
    "TIMEOUT": "M12 3a9 9 0 1 0 .01 0M12 7v5l4 3",
    "CANCELLED": "M6 6h12v12H6z",
    "PENDING": "M7 3h10M7 21h10M8 3c0 9 8 9 8 18M16 3c0 9-8 9-8 18",
    "RUNNING": "M7 4l12 8-12 8z",
    "STOPPED": "M8 5v14M16 5v14",
    "NOT_ENDED": "M12 3a9 9 0 1 0 .01 0M8 12h.01M12 12h.01M16 12h.01",
    "UNKNOWN": "M8 9a4 4 0 1 1 5 4c-1 .4-1 1-1 2M12 19h.01",
}


@dataclass
class Standing:
    """How a run compares: with another, with what was predicted, with its lab's goal."""

    base: Run | None = None
    ratio: float | None = None
    said: list[tuple[str, str]] = field(default_factory=list)
    reached: bool | None = None


def dashboard(job, against=None, scale: float = 0.0) -> View:
    """One run at a glance: speed, what it was made of, memory, energy, and how it compares.

    ``job``: a job, a run's name (its latest run), a run's folder or a record. ``against``: the run to compare with, given
    likewise; left out, the one that its lab's goal is a multiple of. ``scale``: images/s at the end of the bars at least, so that
    those of several runs can be compared. Raises UsageError where there is no such run.
    """
    run = runs.one(job)
    standing = compared(run, runs.one(against) if against is not None else None, explicit=against is not None)
    rows = facts(run, standing)
    face = face_of(run)
    title = f"{run.name}: {face[0]}"
    text = page.listed(title, [*(("", line) for line in face[1:]), *rows])
    return View(f"dashboard of {run.name}", text, lambda: _page(run, face, rows, standing, scale))


# --- how it ended --------------------------------------------------------------------------------------------------------


def face_of(run: Run) -> list[str]:
    """How the run stands, then what is to be said about it: the message, the advice."""
    state = run.state
    title = TITLES.get(state, state.lower().replace("_", " "))
    if state == "RUNNING":
        title += f": {runs.steps(run)}" if run.start else ": nothing is recorded yet"
    elif state == "COMPLETED":
        title += f": {runs.steps(run)}" if run.start or run.record.steps else ", but nothing is recorded"
    elif run.record.steps:
        title += f" ({runs.steps(run)} were done)"
    said = [title]
    error = run.error if state not in ("COMPLETED", "RUNNING", "PENDING") else None
    if error:
        rank = f" (rank {error['rank']})" if error.get("rank") else ""
        said.append(f"{error.get('message') or error.get('kind') or 'an error without a message'}{rank}")
        if error.get("advice"):
            said.append(error["advice"])
        elif error.get("kind") == "out_of_memory":
            said.append(MEMORY_ADVICE)
    elif run.reason and state != "COMPLETED":
        said.append(run.reason)
    if not error and (advice := _advice(run)):
        said.append(advice)
    if run.unreadable:
        said.append(run.unreadable)
    elif not run.start and state not in ("PENDING", "RUNNING") and not (run.job and run.job.never_ran):
        torn = f" ({words.counted(run.record.torn, 'torn line')})" if run.record.torn else ""
        nothing = f"its start is not recorded{torn}" if run.record.steps else "it ended before its first step" if error \
            else f"nothing is recorded{torn}"
        said.append(nothing + (f": dlojz log --err {run.name}" if run.folder and _written(run.folder / "err.log") else ""))
    if state == "COMPLETED" and (disturbed := summary.disturbed(run.record)):
        said.append(disturbed)
    for event in run.record.errors:
        if event.get("fatal") is False:
            said.append(" ".join(filter(None, [event.get("message"), event.get("advice")])))
    return said


def _written(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except OSError:
        return False


NO_TIMES = "their seconds or images are not in the record"
FEW_STEPS = 5  # fewer timed ones say little of what a whole training would take
MEMORY_ADVICE = "Use a smaller --batch-size, half precision (--amp), or --checkpoint-activations."


def _advice(run: Run) -> str:
    """For what the queue did to a run that could say nothing about it itself."""
    done, total = run.record.progress
    if run.state == "OUT_OF_MEMORY":
        return MEMORY_ADVICE
    if run.state == "TIMEOUT":
        limit, before = run.job.request.seconds if run.job else None, run.start.get("resumed_at") or 0
        if limit and total and done > before:
            which = f"of the {total - before:,} steps that were left" if before else f"of {total:,} steps"
            needed = limit + SPARE * (total - done) * _pace(run, limit)
            return (f"{duration(limit)} was enough for {done - before:,} {which}; all of them need about {duration(needed)}: "
                    "request more time, or run fewer steps.")
        return "Request more time, or run fewer steps."
    return ""


SPARE = 1.1  # the steps that are left may take somewhat longer than those before


def _pace(run: Run, limit: float) -> float:
    """Seconds from one step to the next, what lies between steps counted in, and what comes before the timed ones left out."""
    at = [(step["time"], step["step"]) for step in run.record.timed_steps if isinstance(step.get("time"), (int, float))]
    if len(at) > 1 and at[-1][0] > at[0][0]:
        return (at[-1][0] - at[0][0]) / (at[-1][1] - at[0][1])
    done = run.record.progress[0] - (run.start.get("resumed_at") or 0)
    return run.numbers.get("step_seconds") or limit / done


# --- how it compares -----------------------------------------------------------------------------------------------------


def compared(run: Run, base: Run | None, explicit: bool) -> Standing:
    standing = Standing(base)
    lab, here = _lab(run)
    if base is None and lab is not None and lab.goal:
        standing.base = base = _latest(here, lab.goal.against, run)
    if base is not None:
        _against(run, base, standing, explicit)
    if lab is not None:
        _predicted(run, lab, here, standing)
    return standing


def _against(run: Run, base: Run, standing: Standing, explicit: bool) -> None:
    mine, other = run.numbers.get("images_per_second"), base.numbers.get("images_per_second")
    if why := runs.not_comparable(run, base) if mine and other else "":
        if explicit:
            standing.said.append(("compared", why))
        return
    if mine and other:
        standing.ratio = mine / other
        processes = run.start.get("world_size"), base.start.get("world_size")
        scaled = f", with {processes[0]} processes for {processes[1]}" if processes[0] != processes[1] else ""
        profiled = [one.name for one in (run, base) if one.args.get("profile")]
        slowed = f"; {profiled[0]} was profiled, which takes time" if len(profiled) == 1 else ""
        said = f"{words.ratio(standing.ratio)} the {words.number(other)} {run.unit}/s of {base.name}{scaled}{slowed}"
        standing.said.append(("compared", said))
    elif explicit:
        who = run if not mine else base
        standing.said.append(("compared", f"not with {base.name}: {who.name} has no timed steps{_to_do(who)}"))


def _to_do(run: Run) -> str:
    """How a run that has no timed steps may come to some."""
    if run.state in GOING:
        return " yet"
    if run.state in ("FAILED", "OUT_OF_MEMORY"):
        return f": it {'failed' if run.state == 'FAILED' else 'ran out of memory'}. Fix that first"
    if run.state == "TIMEOUT":
        return ": it reached its time limit. Give it more time"
    if run.state == "STOPPED":
        return " yet: run it again with --resume"
    if run.job and run.job.never_ran:
        return ": it was cancelled before it started. Submit it again"
    if run.state == "COMPLETED" and run.record.steps:
        warm = all(step.get("warmup") for step in run.record.steps)
        return ": all steps are warm-up. Run more steps" if warm else f": {NO_TIMES}"
    return ": run it again, with submit(…, again=True)"


def _lab(run: Run):
    """The lab whose goal or name is this run's, and its workspace; (None, None) where there is none."""
    from ..labs import catalogue

    if run.job is None or run.folder is None or run.folder.parent.name != "runs":
        return None, None
    try:
        labs = catalogue.labs().values()
    except UsageError:
        return None, None
    lab = next((lab for lab in labs if lab.goal and lab.goal.run == run.job.name), None) \
        or next((lab for lab in labs if lab.id == run.job.name), None)
    return lab, run.folder.parent.parent


def _latest(here, name: str, run: Run) -> Run | None:
    from ..labs import goals

    found = goals.latest(here, name)
    return None if found is None or found.run == run.name else runs.of_folder(here / "runs" / found.run)


def _predicted(run: Run, lab, here, standing: Standing) -> None:
    """The prediction and the goal of the run's lab, in the words of `progress`."""
    from ..labs import events, goals, predictions

    try:
        said = events.read(here)
    except UsageError:
        said = []
    verdict = None
    if lab.goal and run.folder is not None and lab.goal.run == (run.job.name if run.job else ""):
        own, base = goals.measured(run.folder, lab.goal.measure), goals.latest(here, lab.goal.against, lab.goal.measure)
        verdict = goals.compare(lab.goal, own, base) if own and base else None
    value, late = predictions.latest(said, lab, run.start.get("time"))
    if value is not None:
        when = " (after it had begun)" if late else ""
        measured = ""
        if lab.prediction.measure == "memory" and (peak := predictions.peak(run.folder)):
            measured = f", measured {peak.text} at its peak"
        elif lab.prediction.measure == "ratio" and verdict and verdict.ratio is not None:
            measured = f", measured {words.ratio(verdict.ratio)}"
        standing.said.append(("predicted", f"{predictions.said(lab.prediction, value)}{when}{measured}"))
    if verdict:
        standing.reached = {"reached": True, "not reached": False}.get(verdict.state)
        if verdict.state != "no goal":
            standing.said.append(("goal", f"{verdict.state}: {verdict.text}"))


# --- what there is to say ------------------------------------------------------------------------------------------------


def facts(run: Run, standing: Standing) -> list[tuple[str, str]]:
    """Everything that is shown, as name and words, in the order of the text."""
    start, found, args = run.start, run.numbers, run.args
    if not start:
        return list(standing.said)
    rows = [("run", runs.what(run))]
    if "images_per_second" in found:
        speed = words.number(found["images_per_second"])
        rows.append(("speed", f"{speed} {run.unit}/s, {words.seconds(found['step_seconds'])} per step"))
        if "idle" in found and "device_images_per_second" in found:
            alone = words.number(found["device_images_per_second"])
            rows.append(("device alone", f"{alone} {run.unit}/s, if every batch were ready in time"))
        if "flops" in found:
            of = f", {words.share(found['mfu'])} of what this GPU can do in this precision (MFU)" if "mfu" in found else ""
            rows.append(("arithmetic", f"{words.number(found['flops'] / 1e12)} TFLOP/s that the model needs per device{of}"))
    else:
        rows.append(("speed", f"no timed steps{' yet' if run.state in GOING else ''}{_untimed(run)}"))
    rows += standing.said
    rows += [("todo", event["message"]) for event in run.record.todos if isinstance(event.get("message"), str)]
    if "step_seconds" in found:
        if parts := phases(run):
            rows.append(("per step", ", ".join(f"{NAMES[name]} {words.share(part)}" for name, part in parts)))
        if "loading" in found:
            rows.append(("loading", f"the process waits {words.seconds(found['loading'])} per step for its loader "
                                    f"({words.share(run.share('loading') or 0)} of the step)"))
    if "first_step_seconds" in found:
        rows.append(("first step", words.seconds(found["first_step_seconds"])))
    rows += [("devices", devices(run)), ("batch", batch(run)), ("precision", words.precision(args, run.unwritten))]
    rows.append(("switches", ", ".join(words.switches(args, run.unwritten)) or "none"))
    rows.append(("optimizer", words.optimizer(args)))
    rows.append(("memory", memory(run)))
    rows.append(("power", power(run)))
    if "training_seconds" in found and found["timed_steps"] < FEW_STEPS:
        rows.append(("full training", f"{words.counted(found['timed_steps'], 'timed step')}: too few to tell"))
    elif "training_seconds" in found:
        rows += [("per epoch", epoch(found, args, run.unit)), ("full training", training(found))]
    if "run_seconds" in found:
        rows.append(("this run", f"took {words.seconds(found['run_seconds'])}"))
    known = [f"accuracy {found['validation_accuracy']:.1%}"] if "validation_accuracy" in found else []
    known += [f"loss {words.loss(found['validation_loss'])}"] if "validation_loss" in found else []
    if known and "validation_bits" not in found and args.get("data") != "random":  # labels by chance: accuracy says nothing
        said = ", ".join(known)
        if "validation_images" in found:
            said += f" of {words.counted(found['validation_images'], run.unit.removesuffix('s'), run.unit)}"
        rows.append(("validation", said))
    if {"validation_bits", "validation_loss"} <= found.keys() and args.get("data") != "random":
        rows.append(("validation", f"loss {words.loss(found['validation_loss'])}, {found['validation_bits']:.3f} bits per token"
                                   + (f" of {found['validation_images']:,} tokens" if "validation_images" in found else "")))
    return rows


def _untimed(run: Run) -> str:
    """Why no step is timed."""
    warm = run.record.timed_start.get("warmup_steps")
    if any(not step.get("warmup") for step in run.record.steps):
        return f": {NO_TIMES}"
    return f": the first {words.counted(warm, 'step')} warm up" if warm else ""


def phases(run: Run) -> list[tuple[str, float]]:
    """The phases of a step with their shares of it; none where only whole steps were timed."""
    parts = [(name, run.share(name)) for name in summary.PHASES]
    return [(name, part) for name, part in parts if part is not None] if run.share("forward") is not None else []


def devices(run: Run) -> str:
    world = run.start.get("world_size", 1)
    return words.counted(world, "GPU") if run.on_gpu else f"CPU, {words.counted(world, 'process', 'processes')}"


def batch(run: Run) -> str:
    start, accumulate = run.start, run.args.get("accumulate", 1)
    each, world = start.get("batch_size", 0), start.get("world_size", 1)
    whole = start.get("global_batch", each * world)
    factors = [f"{words.counted(world, 'process', 'processes')} x {each}"] if world > 1 else []
    factors += [f"{accumulate} batches accumulated"] if accumulate != 1 else []
    what = f"rows of {start['length']:,} tokens" if isinstance(start.get("length"), int) else run.unit
    return f"{whole:,} {what}" + (f" ({', '.join(factors)})" if factors else "")


def _of_one(run: Run) -> str:
    """Whose memory it is: rank 0 writes the record."""
    world = run.start.get("world_size", 1)
    return f" (rank 0 of {world})" if world > 1 else ""


def memory(run: Run) -> str:
    found = run.numbers
    if not run.on_gpu:
        return f"{words.gigabytes(found['host_memory'])} of host memory at peak{_of_one(run)}" if "host_memory" in found \
            else _not_measured(run)
    whole = run.machine.get("gpu_memory")
    card = f" of the card's {words.gigabytes(whole)}" if whole else ""
    if "memory_allocated" not in found:
        if (error := run.error) and "allocated" in error:
            return f"{words.gigabytes(error['allocated'])}{card} were allocated when it ran out of memory"
        return _not_measured(run)
    said = f"{words.gigabytes(found['memory_allocated'])} at peak"
    if "memory_reserved" in found:
        said += f", {words.gigabytes(found['memory_reserved'])} reserved"
        said += f": {words.share(found['memory_reserved'] / whole)}{card}" if whole else ""
    return said + _of_one(run)


def _not_measured(run: Run) -> str:
    return "not measured yet" if run.state in GOING else "not measured"


def power(run: Run) -> str:
    found = run.numbers
    if "power" not in found or "joules_per_image" not in found:
        return _not_measured(run) if run.on_gpu else "not measured"
    return f"{words.number(found['power'])} W, {words.number(found['joules_per_image'])} J per {run.unit.removesuffix('s')}"


def epoch(found: dict, args: dict, unit: str) -> str:
    of = "ImageNet's " if args.get("data") == "random" else ""
    return f"{words.seconds(found['epoch_seconds'])} ({of}{found['epoch_images']:,} {unit})"


def training(found: dict) -> str:
    return f"{words.seconds(found['training_seconds'])} ({words.counted(found['training_epochs'], 'epoch')})"


# --- the page ------------------------------------------------------------------------------------------------------------

WIDTH = 520  # pixels of the bars
BREAKS = "overflow-wrap: anywhere"  # a long name or word must not make the page wider
TILES = (("devices", "devices"), ("batch", "global batch"), ("precision", "precision"), ("switches", "switches"),
         ("optimizer", "optimizer"), ("arithmetic", "arithmetic"), ("power", "power"), ("per epoch", "per epoch"),
         ("full training", "full training"),
         ("validation", "validation"), ("first step", "first step"), ("this run", "this run"))


def _page(run: Run, face: list[str], rows: list[tuple[str, str]], standing: Standing, scale: float) -> str:
    said = dict(rows)
    parts = [f'<div style="display: flex; align-items: baseline; gap: 10px; flex-wrap: wrap">'
             f'<span {page.HEADING} style="font-size: 19px; font-weight: 600; {BREAKS}">{html.escape(run.name)}</span>'
             f'<span style="{page.QUIET}; font-size: 13px; {BREAKS}">{html.escape(said.get("run", ""))}</span></div>']
    parts.append(face_page(run, face))
    parts += [page.note(event["message"], CARE) for event in run.record.todos if isinstance(event.get("message"), str)]
    if not run.start:
        return "".join(parts + [page.note(words_, GREY) for _, words_ in standing.said])
    left = _speed(run, standing) if "images_per_second" in run.numbers else page.quiet(said["speed"])
    right = _compared(standing) + _bars(run, standing, said, scale)
    parts.append('<div style="display: flex; flex-wrap: wrap; gap: 8px 28px; align-items: center; margin: 8px 0">'
                 f'<div style="flex: 0 1 200px">{left}</div>'
                 f'<div style="flex: 1 1 520px; min-width: 300px">{right}</div></div>')
    tiles = [(title, said[name]) for name, title in TILES if name in said]
    parts.append('<div style="display: grid; grid-template-columns: repeat(auto-fill, minmax(200px, 1fr)); gap: 12px 24px; '
                 f'border-top: 1px solid {page.LINE}; padding-top: 10px">{"".join(_tile(*tile) for tile in tiles)}</div>')
    return "".join(parts)


def _tile(title: str, words_: str) -> str:
    return (f'<div><div style="{page.QUIET}; font-size: 12px">{html.escape(title)}</div>'
            f'<div style="{BREAKS}">{html.escape(words_)}</div></div>')


def face_page(run: Run, face: list[str]) -> str:
    colour = COLOURS.get(run.state, BAD)
    if run.state == "COMPLETED":
        more = "".join(page.note(line, CARE) for line in face[1:])
        return f'<div style="font-weight: 600; font-size: 13px">{page.dot(colour)}{html.escape(face[0])}</div>{more}'
    shape = ICONS.get(run.state, ICONS["FAILED"])
    icon = (f'<svg viewBox="0 0 24 24" width="34" height="34" style="flex: none" aria-hidden="true"><path d="{shape}" '
            f'fill="none" stroke="{colour}" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round"/></svg>')
    lines = "".join(f'<div style="margin-top: 3px; {BREAKS}">{html.escape(line)}</div>' for line in face[1:])
    title = f'<div style="font-size: 17px; font-weight: 600">{html.escape(face[0])}</div>'
    return (f'<div style="display: flex; gap: 14px; align-items: center; border-left: 5px solid {colour}; padding: 10px 14px; '
            f'margin: 8px 0; background: rgba(128, 128, 128, .1)">{icon}<div>{title}{lines}</div></div>')


def _compared(standing: Standing) -> str:
    out = []
    for name, said in standing.said:
        mark = page.dot(GOOD if standing.reached else CARE) if name == "goal" and standing.reached is not None else ""
        style = f"{page.QUIET}; display: inline-block; min-width: 76px; font-size: 13px"
        label = f'<span style="{style}">{html.escape(name)}</span>'
        words_ = f'<span style="font-weight: 600; {BREAKS}">{mark}{html.escape(said)}</span>'
        out.append(f'<div style="margin: 2px 0">{label}{words_}</div>')
    return f'<div style="margin-bottom: 10px">{"".join(out)}</div>' if out else ""


def scale_of(found: list[Run], against=None) -> float:
    """Images/s up to which bars must go to show any of these runs, and what each is compared with."""
    base = runs.one(against) if against is not None else None
    return max((fastest for run in found if "images_per_second" in run.numbers
                for fastest in _shown(run, compared(run, base, explicit=base is not None)) if fastest), default=0.0)


def _shown(run: Run, standing: Standing) -> tuple[float, float | None, float | None]:
    """Images/s: of the whole step, of the device alone, of the run that it is compared with."""
    found = run.numbers
    alone = found.get("device_images_per_second") if "idle" in found else None
    base = standing.base.numbers.get("images_per_second") if standing.base and standing.ratio is not None else None
    return found["images_per_second"], alone, base


def _speed(run: Run, standing: Standing) -> str:
    """Images/s in large figures."""
    ratio = ""
    if standing.ratio is not None:
        mark = page.dot(GOOD if standing.ratio >= 1 else CARE)
        ratio = f'<div style="font-size: 18px; font-weight: 600; margin-top: 6px">{mark}{words.ratio(standing.ratio)}</div>'
    return (f'<div style="font-size: 42px; font-weight: 650; line-height: 1.1">{words.number(run.numbers["images_per_second"])}'
            f'<span style="{page.QUIET}; font-size: 14px; font-weight: 400"> {run.unit}/s</span></div>{ratio}')


def _labelled(name: str, words_: str) -> str:
    return (f'<div style="font-size: 13px; margin-top: 8px"><span style="{page.QUIET}">{html.escape(name)}</span> '
            f'<span style="font-weight: 600">{html.escape(words_)}</span></div>')


def _bars(run: Run, standing: Standing, said: dict, scale: float) -> str:
    """The speed beside the baseline's, a step's phases, the card's memory."""
    found, out, error = run.numbers, [], run.error or {}
    if "images_per_second" in found:
        speed, alone, base = _shown(run, standing)
        rows = [Bar("this run", speed, SPEED)]
        rows += [Bar("device alone", alone, VERMILLION, faint=True)] if alone else []
        rows += [Bar(standing.base.name, base, GREY)] if base else []
        if len(rows) > 1:
            out.append(charts.bars(rows, unit=f"{run.unit}/s", top=scale, say=words.number, high=20, width=WIDTH).html())
    if parts := phases(run):
        step = {NAMES[name]: found[name] for name, _ in parts}
        drawn = charts.stacked([("", step)], inside="share", total=False, high=30, width=WIDTH, say=words.seconds, legend=False)
        names = charts.legend((f"{NAMES[name]} {words.share(part)}", PHASE[name]) for name, part in parts)
        out.append(_labelled("per step", words.seconds(found["step_seconds"])) + drawn.html() + names)
        out.append(page.quiet(said["loading"]) if "loading" in said else "")
    out.append(_labelled("memory", said["memory"]))
    whole = run.machine.get("gpu_memory")
    if run.on_gpu and whole and (taken := run.memory or error.get("allocated")):
        held = found.get("memory_reserved") or error.get("reserved") or 0
        memory_ = {"taken by tensors": min(taken, whole), "reserved": max(0.0, min(held, whole) - taken)}
        colours = {"taken by tensors": BAD if run.state == "OUT_OF_MEMORY" else MEMORY, "reserved": MEMORY}
        out.append(charts.stacked([("", memory_)], top=whole, colours=colours, faint=["reserved"], total=False, high=16,
                                  width=WIDTH, say=words.gigabytes, legend=False).html())
    return "".join(out)
