"""What makes a training faster, and where its decay is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import median

from ...ui import words
from .seen import NO_GPU, NOT_APPLICABLE, NOT_USED, UNSEEN, USED, Seen

QUICK, LITTLE = 1e-3, 0.05  # seconds, and part of a step, below which a wait for a batch is not worth a worker
MUCH = 0.2  # of a step: there a wait is what we measured, in a run with a slow loader


def mixed(seen: Seen) -> tuple:
    regions = seen.all("autocast")
    for event in [event for event in regions if event.enabled] + regions:
        if event.enabled or (event.device_type == "cuda" and not seen.gpu):
            return USED, f"autocast in {event.dtype}" + ("" if event.enabled else ", on a GPU only"), event
    model = seen.training()
    if model and set(model.parameters) & {"bfloat16", "float16"}:
        return USED, f"The weights are {', '.join(model.parameters)}.", model
    return seen.absent("Everything is computed in float32.")


def tf32(seen: Seen) -> tuple:
    off = "Off for products, which is torch's default. It helps where float32 products take the time: convolutions have it."
    return (USED, "Switched on for products.") if seen.tf32 else seen.absent(off)


def lies_last(seen: Seen) -> tuple:
    model = seen.training()
    formats = Counter(model.weights.values()) if model else Counter()
    if not formats:
        return NOT_APPLICABLE, "No weights of convolutions over images."
    if not formats["channels_last"]:
        return seen.absent("All weights of convolutions are NCHW.")
    late, training = [], False
    for event in seen.all("model", "layer"):
        training = event.training if event.what == "model" else training
        if event.what == "layer" and training and event.kind == "Conv2d" and event.input:
            late.append(event)
    late = late[1:]  # the first one is given the images as they come
    dropped = next((layer for layer in late if layer.input["format"] == "contiguous"), None)
    if dropped:
        said = f"The weights are channels-last, but what goes into {dropped.name} is NCHW again"
        return (NOT_USED, f"{said}: something before it has changed the format.", dropped) if seen.gpu else (
            UNSEEN, f"{said} in this run on the CPU; a GPU may keep it.", dropped)
    return USED, "Weights, and what goes into the layers.", model


def compiles(seen: Seen) -> tuple:
    made = seen.first("compiled")
    if made:
        return USED, f"{made.kind}, mode {made.mode}. The audit watched it uncompiled.", made
    return seen.absent("Nothing is compiled.")


def compiles_once(seen: Seen) -> tuple:
    if not seen.first("compiled"):
        return NOT_APPLICABLE, "Nothing is compiled."
    if not seen.first("captured"):
        return UNSEEN, ("Dynamo compiled nothing in a second run, or there was none: it needs time, and a run without ranks "
                        "and --pretend.")
    again = [event for event in seen.all("recompiled") if "grad_mode" not in event.reason and ".training" not in event.reason]
    if again:
        return NOT_USED, (f"{again[-1].name} was compiled {words.counted(len(again), 'more time', 'more times')}, at last "
                          f"because this had changed: {again[-1].reason}"), again[-1]
    return USED, "Compiled once, and not again, but for the switch to eval mode."


def whole_graphs(seen: Seen) -> tuple:
    if not seen.first("captured"):
        return compiles_once(seen)[:2]
    broken = seen.all("resumed")
    if broken:
        places = len({(event.file, event.line) for event in broken})
        return NOT_USED, (f"{words.counted(places, 'graph break')}: what is compiled of {broken[0].name} ends before this line, "
                          "and begins again there."), broken[0]
    return USED, "No graph breaks."


def in_each_step(seen: Seen, events: list):
    """The first of those events whose line led to one in each step; None where no line did."""
    steps: dict[tuple, set] = {}
    for event in events:
        if event.line and event.by == "own":  # a scaler has to read whether gradients are finite
            steps.setdefault((event.file, event.line), set()).add(event.step)
    most = max(Counter(update.which for update in seen.updates).values(), default=0)  # the last one may have ended the run
    always = next((place for place, those in steps.items() if len(those) >= max(3, most - 1)), None)
    return next((event for event in events if (event.file, event.line) == always), None)


def waits(seen: Seen) -> tuple:
    event = in_each_step(seen, seen.all("read", "sync"))
    if event:
        return NOT_USED, f"In each step the host reads a value ({event.how}): there it waits for the GPU.", event
    return (USED, "No line makes the host wait in each step.") if seen.gpu else (
        UNSEEN, "No line reads a loss in each step. Other waits show on a GPU only.")


def makes_there(seen: Seen) -> tuple:
    event = in_each_step(seen, seen.all("carried"))
    if event:
        return NOT_USED, f"In each step torch.{event.how} makes a tensor on the host that is then copied: give it device=.", event
    return (USED, "No tensor is made on the host and copied in each step.") if seen.gpu else (UNSEEN, NO_GPU)


def fuses(seen: Seen) -> tuple:
    if not seen.updates:
        return UNSEEN, "No update."
    last = seen.updates[-1]
    if any(group["fused"] for group in last.groups):
        return USED, f"{last.optimizer}(fused=True)", last
    if any(group["foreach"] is False for group in last.groups):
        return NOT_USED, f"{last.optimizer}(foreach=False) updates one tensor after the other.", last
    return seen.absent(f"{last.optimizer} without fused=True.") if last.has_fused else (
        NOT_APPLICABLE, f"{last.optimizer} has no fused implementation.")


def works(seen: Seen) -> tuple:
    loader = seen.loader()
    if loader is None:
        return NOT_APPLICABLE, "No DataLoader of torch feeds the training."
    several = loader.num_workers * len(seen.ranks)
    if several > seen.cores:
        return NOT_USED, (f"{words.counted(several, 'worker')}, more than the {words.counted(seen.cores, 'core')} that may be "
                          "used here: they take them from each other."), loader
    if several:
        return USED, f"{words.counted(several, 'worker')}.", loader
    waits = [event for event in seen.all("waited") if event.of in seen.fed()]
    if waits and all(event.cut_out for event in waits):
        return NOT_APPLICABLE, "A batch is cut out of tensors that are in memory: workers would only copy it."
    seconds, share = waited(seen)
    took = f"{words.seconds(seconds)}, {words.share(share)} of a step"
    if seen.gpu and waits and seconds < QUICK and share < LITTLE:
        return NOT_APPLICABLE, f"num_workers=0, and a batch is there after {took}: workers would bring little."
    took = f": {took} in this run" if waits else ""
    return (*seen.absent(f"num_workers=0: the training waits while samples are made{took}."), loader)


def waited(seen: Seen) -> tuple[float, float]:
    """Seconds that the training waits for a batch, and which part of an update that is, both in the middle: 0 if not known. The
    observers make a step longer, so the part is larger without them."""
    waits = [event.seconds for event in seen.all("waited") if event.of in seen.fed()]
    steps = [after.clock - before.clock for before, after in pairwise(seen.updates)]
    if not waits or not steps:
        return 0.0, 0.0
    return median(waits), min(1.0, median(waits) / median(steps))


def pins(seen: Seen) -> tuple:
    loader = seen.loader()
    if loader is None:
        return NOT_APPLICABLE, "No DataLoader of torch feeds the training."
    moves = [event for event in seen.all("move") if event.source == "cpu" and event.shape and event.step]
    if not loader.pin_memory and not any(event.get("pinned") for event in moves):
        return (*seen.absent("pin_memory=False: batches are copied from memory that the GPU cannot read by itself."), loader)
    blocking = in_each_step(seen, [event for event in moves if not event.non_blocking])
    if blocking:
        return NOT_USED, ("Batches are in pinned memory, and the host waits for each copy all the same: add "
                          "non_blocking=True."), blocking
    return USED, "pin_memory=True" + (", non_blocking=True" if moves else ""), loader


def decays(seen: Seen) -> tuple:
    last = {update.which: update for update in seen.updates}
    decayed = [(group, update) for update in last.values() for group in update.groups if group["decay"]]
    if not decayed:
        return NOT_APPLICABLE, "No weight decay."
    flat = sum(group["flat"] for group, _ in decayed)
    where = decayed[0][1]
    some = words.counted(flat, "bias or norm weight decays", "biases and norm weights decay")
    return (NOT_USED, f"{some} like the other weights.", where) if flat else (
        USED, "Only weights with two or more dimensions decay.", where)
