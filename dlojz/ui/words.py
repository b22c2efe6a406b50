"""Numbers and switches as people say them: the same words in a picture, a page and a text."""

from __future__ import annotations

import math

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "lamb": "LAMB", "lars": "LARS", "lion": "Lion"}

AUGMENTATIONS = {"randaugment": "RandAugment", "mixup-cpu": "mixup in the loader", "mixup": "mixup",
                 "cutmix-loop": "CutMix image by image", "cutmix": "CutMix"}

# switch -> what it is called where it is on. What has words of its own (precision, optimizer, sizes) is not in here.
SWITCHES = {
    "channels_last": "channels-last",
    "compile": "torch.compile",
    "compile_blocks": "block by block",
    "mask_documents": "documents masked",
    "fused": "fused update",
    "checkpoint_activations": "activation checkpointing",
    "sync_bn": "SyncBatchNorm",
    "clip_grad": "clipped gradients",
    "label_smoothing": "label smoothing",
    "augment": "augmented",
    "num_workers": "loader workers",
    "persistent_workers": "kept workers",
    "pin_memory": "pinned memory",
    "non_blocking": "non-blocking copies",
    "prefetch_factor": "batches ahead of each worker",
    "drop_last": "last batch dropped",
    "find_unused_parameters": "unused parameters searched",
    "accumulate": "batches accumulated",
    "profile": "profiled",
}
COUNTED = ("num_workers", "prefetch_factor", "accumulate")
LAB = {"channels_last": "channels_last", "compile": "compile", "compile_blocks": "compile", "amp": "amp", "sync_bn": "ddp",
       "profile": "profiler",
       "num_workers": "dataloader", "pin_memory": "dataloader", "prefetch_factor": "dataloader",
       "persistent_workers": "dataloader", "accumulate": "ddp_advanced", "augment": "augmentation"}


YEAR = 365.25 * 86400  # seconds


def number(value: float) -> str:
    """Three or four figures: ``12.3``, ``979``, ``5,600``."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    size = abs(value)  # the limits are where the next format rounds to one figure more: 99.96 is 100, and not 100.0
    if size >= 9.995:
        return f"{value:,.0f}" if size >= 99.95 else f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.0995 or not size else f"{value:.2g}"


def loss(value: float) -> str:
    """``2.3026``, ``12,345``, ``1.23e+12``: as many figures as one can compare, also where a training diverges."""
    if not math.isfinite(value):
        return number(value)
    size = abs(value)
    return f"{value:.4f}" if size < 999.995 else f"{value:,.0f}" if size < 1e7 else f"{value:.3g}"


def gigabytes(value: float) -> str:
    """``44.7 MB``, ``0.97 GB``, ``80.0 GB``."""
    if 0 < value < 9.95e7:
        return f"{number(value / 1e6)} MB"
    return f"{value / 1e9:.1f} GB" if value >= 9.995e9 else f"{value / 1e9:.2f} GB"


def seconds(value: float) -> str:
    """``3.2 µs``, ``16.0 ms``, ``2.15 s``, ``5 min 23 s``, ``25 min``, ``1 h 5 min``, ``3 d 4 h``, ``15 days``, ``12 years``."""
    if value >= 1.95 * YEAR:
        years = value / YEAR
        return "more than 1,000 years" if years > 1000 else f"{years:.1f} years" if years < 9.95 else f"{years:.0f} years"
    if value >= 9.5 * 86400:
        return f"{value / 86400:.0f} days"
    if value >= 599.5:
        return duration(value)
    if value >= 99.5:
        minutes, rest = divmod(round(value), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{number(value)} s" if value >= 0.9995 else f"{number(value * 1000)} ms" if value >= 9.995e-5 or not value \
        else f"{number(value * 1e6)} µs"


def ratio(value: float) -> str:
    return f"{value:.2f}x" if value < 9.995 else f"{value:.1f}x"


def share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.0095 or not value else f"{value:.1%}"


def count(value: float) -> str:
    """A number of times on average: ``3``, ``1.5``, ``1,204``."""
    return f"{value:,.0f}" if value >= 20 or abs(value - round(value)) < 0.005 else number(value)


def counted(count: int, word: str, plural: str = "") -> str:
    return f"{count:,} {word if count == 1 else plural or word + 's'}"


def gpu_minutes(minutes: float) -> str:
    return f"{minutes:g} GPU-minute{'' if minutes == 1 else 's'}"


def precision(args: dict, unwritten: set[str] | frozenset = frozenset()) -> str:
    """The format that products are computed in, as far as the switches and the fences that are written say. A script
    of one's own may have none that says it."""
    if not {"amp", "tf32"} & args.keys():
        return "not recorded"
    plain = "TF32" if args.get("tf32") else "FP32"
    asked = {"bf16": "BF16 (autocast)", "fp16": "FP16 (autocast, scaled loss)"}.get(args.get("amp"))
    if asked and "amp" in unwritten:
        return f"{plain}; amp is not written yet"
    return asked or plain


def optimizer(args: dict) -> str:
    """``SGD, lr 0.1, momentum 0.9, weight decay 0.0001, onecycle``"""
    if not args.get("optimizer"):
        return "not recorded"
    name = args["optimizer"]
    said = [OPTIMIZERS.get(name, name) + (", fused" if args.get("fused") else "")]
    for key, word in (("lr", "lr"), ("mom", "momentum"), ("wd", "weight decay")):
        if isinstance(args.get(key), (int, float)) and (key != "mom" or name == "sgd"):
            said.append(f"{word} {args[key]:g}")
    if args.get("schedule") not in (None, "constant"):
        said.append(str(args["schedule"]))
    return ", ".join(said)


def switches(args: dict, unwritten: set[str] | frozenset = frozenset()) -> list[str]:
    """The techniques that are on, as people call them."""
    said = []
    for key, word in SWITCHES.items():
        value = args.get(key)
        if not value or _off(value) or (key == "accumulate" and value == 1) or (key == "fused"):
            continue
        text = word
        if key in COUNTED:
            text = f"{value} {word}" if value != 1 else f"1 {word.replace('workers', 'worker')}"
        elif key == "compile" and value not in (True, "default"):
            text = f"{word} ({value})"
        elif key == "augment":
            text = AUGMENTATIONS.get(value, str(value)) + (f" (alpha {args['alpha']:g})" if args.get("alpha") else "")
        elif key in ("clip_grad", "label_smoothing"):
            text = f"{word} ({value:g})" if isinstance(value, (int, float)) else word
        said.append(text + (" (not written yet)" if LAB.get(key) in unwritten else ""))
    return said


def _off(value) -> bool:
    return value is None or value is False or value in ("off", "none")


def switch(name: str, value) -> str:
    """A switch and its value where it is on: ``amp bf16``, ``channels last``; else an empty text."""
    if _off(value):
        return ""
    said = name.replace("_", " ")
    return said if value is True else f"{said} {difference(value)}"


def difference(value) -> str:
    """The value of a switch in a table of runs."""
    if value is True:
        return "on"
    if _off(value):
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """``8 s``, ``2 min``, ``1 h 5 min``, ``3 d 4 h``."""
    seconds = round(seconds)
    if seconds < 100:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"
