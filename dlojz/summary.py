"""What a run measured, from its record: as numbers, and as the text that a terminal shows."""

from __future__ import annotations

from .records import Record

PHASES = ("idle", "copy", "forward", "backward", "update")


def numbers(record: Record) -> dict:
    """Averages over the timed steps (warm-up left out) of one record; what was not measured is missing.

    ``images_per_second`` (all processes, whole step), ``device_images_per_second`` (without ``idle``: were every batch there in time),
    ``step_seconds``, mean seconds of each phase and of ``loading``, ``timed_steps``, and from the record's end peak memory in
    bytes, ``power`` in watts and ``joules_per_image``.
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
                found[phase] = sum(measured) / len(steps)
        if seconds > 0:
            found["images_per_second"] = images / seconds
            busy = seconds - sum(step.get("idle", 0.0) for step in steps)
            if busy > 0:
                found["device_images_per_second"] = images / busy
    if record.steps:
        found["first_step_seconds"] = record.steps[0].get("seconds")
        found["loss"] = next((step["loss"] for step in reversed(record.steps) if "loss" in step), None)
    if record.validations:
        found |= {f"validation_{name}": record.validations[-1].get(name) for name in ("loss", "accuracy", "images")}
    end = record.end or {}
    found |= {name: end[name] for name in ("host_memory", "memory_allocated", "memory_reserved", "power", "joules_per_image") if end.get(name)}
    return found


def text(record: Record) -> str:
    """The same, for people. Says what is missing, and why a run ended."""
    start, found = record.start, numbers(record)
    if not start:
        return "nothing is recorded" + (f" ({record.torn} torn lines)" if record.torn else "")
    machine = start.get("machine", {})
    done, total = record.progress
    lines = [
        f"{start.get('model')}, {start.get('image_size')} px, {start.get('world_size')} x {start.get('batch_size')} images a step, "
        f"{start.get('parameters', 0) / 1e6:.1f} M parameters",
        f"on {machine.get('gpu') or machine.get('cpu')}, {machine.get('cores_allowed')} cores, torch {start.get('versions', {}).get('torch')}",
        f"steps             {done} of {total}, {found.get('timed_steps', 0)} timed (the first {start.get('warmup_steps')} are warm-up)",
    ]
    if "images_per_second" in found:
        lines.append(f"throughput        {found['images_per_second']:.1f} images/s, {found['step_seconds'] * 1000:.1f} ms a step")
    if "forward" in found:
        parts = ", ".join(f"{phase} {found[phase] / found['step_seconds']:.0%}" for phase in PHASES if phase in found)
        lines.append(f"a step            {parts}")
        lines.append(f"loading           the process waited {found['loading'] * 1000:.1f} ms a step for its loader")
        lines.append(f"the device alone  {found['device_images_per_second']:.1f} images/s, were every batch there in time")
    if found.get("first_step_seconds") is not None:
        lines.append(f"first step        {found['first_step_seconds']:.2f} s")
    if "memory_allocated" in found:
        whole = f" of {machine['gpu_memory'] / 1e9:.1f}" if machine.get("gpu_memory") else ""
        lines.append(f"GPU memory        {found['memory_allocated'] / 1e9:.2f} GB at most, {found['memory_reserved'] / 1e9:.2f} reserved{whole}")
    if "host_memory" in found:
        lines.append(f"host memory       {found['host_memory'] / 1e9:.2f} GB at most")
    if machine.get("device") == "cuda":
        measured = f"{found['power']:.0f} W, {found['joules_per_image']:.3f} J an image" if "power" in found else "not measured"
        lines.append(f"power             {measured}")
    if "validation_accuracy" in found:
        lines.append(f"validation        loss {found['validation_loss']:.4f}, accuracy {found['validation_accuracy']:.1%} "
                     f"of {found['validation_images']} images")
    if start.get("args", {}).get("profile") and record.end and not record.end.get("trace"):
        lines.append("trace             none: the run ended before the steps that were to be traced")
    for error in record.errors:
        lines.append(f"{error.get('kind', 'error'):<17} {error.get('message')} {error.get('advice', '')}".rstrip())
    if record.end is None:
        lines.append("not ended         the run goes on, or it was killed")
    elif record.end.get("status") != "completed":
        lines.append(f"ended             {record.end.get('status')}")
    return "\n".join(lines)
