"""What a run measured, from its record: as numbers, and as the text that a terminal shows."""

from __future__ import annotations

import re
import statistics

from ..system import cards
from .records import Record

PHASES = ("idle", "copy", "forward", "backward", "update")
IMAGENET = 1_281_167  # training images: the epoch that random data stands for
USUAL_EPOCHS = 90  # of a training on ImageNet: what a --test run stands for
AT_THE_END = ("host_memory", "memory_allocated", "memory_reserved", "power", "joules_per_image")


def unit(start: dict) -> str:
    """What a run counts, in the plural, by its record's ``start``: images, where that does not say."""
    said = start.get("unit")
    return said if isinstance(said, str) and re.fullmatch(r"\w[\w -]{0,30}", said) else "images"


def numbers(record: Record) -> dict:
    """Averages over the timed steps (warm-up left out) of one record; what was not measured is missing.

    ``images_per_second`` (all processes, whole step), ``device_images_per_second`` (without ``idle``: were every batch there in
    time), ``step_seconds``, mean seconds of each phase and of ``loading``, ``timed_steps``, ``first_step_seconds``, the last
    ``loss``, ``validation_loss``, ``validation_accuracy``, ``validation_images``, and from the record's end peak memory in bytes,
    ``power`` in watts and ``joules_per_image``; ``memory_with_workers``: bytes that the process and its loader's workers held
    when the warm-up was over. At this pace an epoch of ``epoch_images`` would take ``epoch_seconds`` and
    ``training_epochs`` of them ``training_seconds``; the run itself took ``run_seconds``, all its attempts together.
    """
    found: dict = {}
    steps = record.timed_steps
    if steps:
        seconds = sum(step["seconds"] for step in steps)
        images = sum(step.get("images", 0) for step in steps)
        found |= {"timed_steps": len(steps), "step_seconds": seconds / len(steps)}
        for phase in (*PHASES, "loading"):
            measured = [step[phase] for step in steps if phase in step]
            if measured:
                found[phase] = sum(measured) / len(measured)
        if seconds > 0 and images:
            found["images_per_second"] = images / seconds
            busy = seconds - sum(step.get("idle", 0.0) for step in steps)
            if busy > 0:
                found["device_images_per_second"] = images / busy
    if record.steps and "seconds" in record.steps[0]:
        found["first_step_seconds"] = record.steps[0]["seconds"]
    held = [step["memory_with_workers"] for step in record.steps if step.get("memory_with_workers")]
    if held:
        found["memory_with_workers"] = max(held)
    losses = [step["loss"] for step in record.steps if step.get("loss") is not None]
    if losses:
        found["loss"] = losses[-1]
    if record.validations:
        last = record.validations[-1]
        found |= {f"validation_{name}": last[name] for name in ("loss", "accuracy", "bits", "images") if name in last}
    end = record.end or {}
    if record.end and record.run_seconds:
        found["run_seconds"] = record.run_seconds
    found |= _durations(record.start, found) | _flops(record.start, found)
    return found | {name: end[name] for name in AT_THE_END if end.get(name)}


def _flops(start: dict, found: dict) -> dict:
    """``flops``: operations per second of one device that the model needs, as counted before it ran; ``mfu``: their share of what
    the GPU can do in the formats that were asked for (model FLOPs utilization: Chowdhery et al. 2022, arXiv:2204.02311)."""
    if not (start.get("flops_per_image") and found.get("images_per_second")):
        return {}
    flops = start["flops_per_image"] * found["images_per_second"] / max(1, start.get("world_size") or 1)
    args, card = start.get("args") or {}, cards.card((start.get("machine") or {}).get("gpu") or "")
    kind = {"bf16": "bfloat16", "fp16": "half"}.get(args.get("amp"), "tf32" if args.get("tf32") else "float")
    peak = card.peak.get(kind) if card else None
    return {"flops": flops} | ({"mfu": flops / (peak * 1e12)} if peak else {})


def _durations(start: dict, found: dict) -> dict:
    """What an epoch and a whole training would take. Random data has no epoch of its own, and a --test run no number of them."""
    args = start.get("args") or {}
    if start.get("unit") == "tokens" and (args.get("test") or args.get("data") == "random"):
        return {}  # a language model has no usual number of epochs
    epochs = USUAL_EPOCHS if args.get("test") else start.get("epochs")
    if not found.get("images_per_second") or not epochs:
        return {}
    images = IMAGENET if args.get("data") == "random" else start.get("epoch_images")
    if not images:
        return {}
    seconds = images / found["images_per_second"]
    return {"epoch_images": images, "epoch_seconds": seconds, "training_epochs": epochs, "training_seconds": epochs * seconds}


SLOW = 3.0  # times as long as most steps: something else had the processor
FEW = 0.1  # of the steps: if more of them are slow, that is how the training goes
LOST = 0.2  # of the time that was measured


def disturbed(record: Record) -> str:
    """Where a few steps, for no lack of data, took so long that the averages are no measure of the training: a sentence that
    says so; else empty."""
    steps = [step for step in record.timed_steps if "idle" in step]  # else nobody knows whether it lacked data
    if len(steps) < 3:
        return ""
    worked = [step["seconds"] - step["idle"] for step in steps]
    middle = statistics.median(worked)
    slow = [seconds for seconds in worked if seconds > SLOW * middle]
    lost = sum(slow) - middle * len(slow)
    if not slow or len(slow) > max(1, FEW * len(steps)) or lost < LOST * sum(step["seconds"] for step in steps):
        return ""
    longest = f"{max(slow):.3g} s" if max(slow) >= 1 else f"{max(slow) * 1000:.3g} ms"
    usual = f"{middle:.3g} s" if middle >= 1 else f"{middle * 1000:.3g} ms"
    many = "1 step" if len(slow) == 1 else f"{len(slow)} steps"
    return (f"{many} of {len(steps)} took up to {longest}; most took {usual}. The averages are not reliable: was the machine "
            "busy with something else? Run it again (again=True).")


NO_TRACE = "no trace: "  # how `failures.trace_writer` begins the message of a trace that could not be written


def untraced(record: Record) -> str:
    """Why a run that was to be profiled has left no trace; empty where it has, or was not to be profiled."""
    end = record.end or {}
    if not (record.start.get("args") or {}).get("profile") or end.get("trace"):
        return ""
    for error in record.errors:
        if (message := str(error.get("message"))).startswith(NO_TRACE):
            return f"{message.removeprefix(NO_TRACE)} {error.get('advice') or ''}".rstrip()
    if any(todo.get("lab") == "profiler" for todo in record.todos):
        return "the profiler is not written yet"
    if end.get("status") == "completed":
        return ("there is no trace.json.gz in the run's folder. Does on_trace_ready write it there, and does the schedule end "
                "before the run does?")
    return "the run ended before the steps that were to be traced" if end else ""


def _count(parameters: int) -> str:
    return f"{parameters / 1e6:.1f} M" if parameters >= 100_000 else f"{parameters:,}"


def text(record: Record) -> str:
    """The same, for people. Says what is missing, and why a run ended."""
    start, found = record.start, numbers(record)
    if not start:
        return "nothing is recorded" + (f" ({record.torn} torn lines)" if record.torn else "")
    machine = start.get("machine", {})
    done, total = record.progress
    version, warmup = start.get("versions", {}).get("torch"), record.timed_start.get("warmup_steps")
    pixels = f", {start['image_size']} px" if start.get("image_size") else ""  # the scripts of the hunt have none
    many = unit(start)
    rows = f"x {start['length']} tokens" if many == "tokens" and "length" in start else many
    one = many.removesuffix("s")
    lines = [
        f"{start.get('model')}{pixels}, {start.get('world_size')} x {start.get('batch_size')} {rows} per step, "
        f"{_count(start.get('parameters', 0))} parameters",
        f"on {machine.get('gpu') or machine.get('cpu')}, {machine.get('cores_allowed')} cores, torch {version}",
        f"steps             {done} of {total}, {found.get('timed_steps', 0)} timed (the first {warmup} are warm-up)",
    ]
    if "images_per_second" in found:
        speed = f"{found['images_per_second']:.1f} {many}/s, {found['step_seconds'] * 1000:.1f} ms per step"
        lines.append(f"throughput        {speed}")
    if "flops" in found:
        share = f", {found['mfu']:.1%} of what the GPU can do (MFU)" if "mfu" in found else ""
        lines.append(f"arithmetic        {found['flops'] / 1e12:.4g} TFLOP/s that the model needs{share}")
    if "forward" in found:
        parts = ", ".join(f"{phase} {found[phase] / found['step_seconds']:.0%}" for phase in PHASES if phase in found)
        lines.append(f"per step          {parts}")
    if "loading" in found:
        lines.append(f"loading           the process waited {found['loading'] * 1000:.1f} ms per step for its loader")
    if "idle" in found and "device_images_per_second" in found:
        lines.append(f"the device alone  {found['device_images_per_second']:.1f} {many}/s, if every batch were ready in time")
    if "first_step_seconds" in found:
        lines.append(f"first step        {found['first_step_seconds']:.2f} s")
    if "memory_allocated" in found:
        whole = f" of {machine['gpu_memory'] / 1e9:.1f}" if machine.get("gpu_memory") else ""
        held = f", {found['memory_reserved'] / 1e9:.2f} reserved{whole}" if "memory_reserved" in found else ""
        lines.append(f"GPU memory        {found['memory_allocated'] / 1e9:.2f} GB at peak{held}")
    if "host_memory" in found:
        lines.append(f"host memory       {found['host_memory'] / 1e9:.2f} GB at peak")
    if machine.get("device") == "cuda":
        known = "power" in found and "joules_per_image" in found
        each = f"{found.get('joules_per_image', 0):{'.3f' if many == 'images' else '.2g'}} J per {one}"
        measured = f"{found['power']:.0f} W, {each}" if known else "not measured"
        lines.append(f"power             {measured}")
    measured = {"validation_loss", "validation_accuracy", "validation_images"} <= found.keys()
    if measured and (start.get("args") or {}).get("data") != "random":  # labels by chance: what it scores says nothing
        lines.append(f"validation        loss {found['validation_loss']:.4f}, accuracy {found['validation_accuracy']:.1%} "
                     f"of {found['validation_images']} {many}")
    if why := untraced(record):
        lines.append(f"trace             none: {why}")
    if {"validation_loss", "validation_bits"} <= found.keys() and (start.get("args") or {}).get("data") != "random":
        lines.append(f"validation        loss {found['validation_loss']:.4f}, {found['validation_bits']:.3f} bits per {one}, of "
                     f"{found['validation_images']:,} {many}")
    for error in record.errors:
        if not (why and str(error.get("message")).startswith(NO_TRACE)):
            lines.append(f"{error.get('kind', 'error'):<17} {error.get('message')} {error.get('advice', '')}".rstrip())
    if record.end is None:
        lines.append("not finished      still running, or killed")
    elif record.end.get("status") != "completed":
        lines.append(f"ended             {record.end.get('status')}")
    return "\n".join(lines)
