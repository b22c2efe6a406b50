"""What to try next, for each pattern of `diagnosis`: in the order in which it tends to bring most, without what is on already."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .facts import ODD_SIZES, Facts
from .stragglers import waiting

MOST = 0.5  # where more of the kernels' time is in half precision, that is on already; half of a step
LAYOUT = 0.02  # part of a step spent in changing layouts, from which on --channels-last is the first thing to try
# What the operators of a trace show to be on.
SEEN = (("--compile", re.compile(r"Torch-Compiled Region|CompiledFunction")), ("--fused", re.compile(r"aten::_fused_(sgd|ada)")))
MATTER = 0.05  # part of a step that convolutions, or all products, take where it matters how they are computed
# Switches of train.py, and what a script that has no such switch writes in its place; the longer ones first.
CALLS = {
    "--amp bf16": "torch.autocast(device.type, dtype=torch.bfloat16)",
    "--tf32": 'torch.set_float32_matmul_precision("high")',
    "--channels-last": "model and images .to(memory_format=torch.channels_last)",
    "--compile reduce-overhead": 'torch.compile(model, mode="reduce-overhead")',
    "--compile max-autotune": 'torch.compile(model, mode="max-autotune")',
    "--compile": "torch.compile(model)",
    "--fused": "fused=True in the optimizer",
    "--num-workers": "DataLoader(num_workers=…)",
    "--persistent-workers": "persistent_workers=True",
    "--pin-memory": "DataLoader(pin_memory=True)",
    "--non-blocking": ".to(device, non_blocking=True)",
    "--batch-size": "batch size",
    "--accumulate N": "gradient accumulation",
}
SWITCH = re.compile("|".join(map(re.escape, CALLS)))


@dataclass(frozen=True)
class Try:
    """``what`` to do, with the ``switches`` of train.py that do it, if there are any."""

    what: str
    switches: tuple[str, ...] = ()

    def said(self, on: frozenset[str] = frozenset(), has: frozenset[str] | None = None) -> str:
        """In words, with the switches that are not on yet; empty where all of them are. ``has``: the switches of the script, for
        those that it lacks are said as calls; None: it has all of them."""
        left = [switch for switch in self.switches if not is_on(switch, on)]
        if self.switches and not left:
            return ""
        text = f"{self.what}: {', '.join(left)}" if left else self.what
        return SWITCH.sub(lambda each: each[0] if has is None or each[0].split()[0] in has else CALLS[each[0]], text)


def is_on(switch: str, on: frozenset[str]) -> bool:
    """``--amp bf16`` is on with any ``--amp``; of ``--compile`` there are several that differ."""
    return switch in on or (not switch.startswith("--compile ") and switch.split()[0] in on)


def turned_on(args: dict, unwritten: Iterable[str] = ()) -> frozenset[str]:
    """The switches of a run that are on, from its record's ``args``: ``--amp`` and ``--amp bf16``. ``unwritten``: the arguments
    whose technique the file that ran does not have yet."""
    on = set()
    for name, value in args.items():
        if not value or value in ("off", "none") or name in unwritten:
            continue
        switch = f"--{name.replace('_', '-')}"
        on |= {switch, f"{switch} {value}"}
    return frozenset(on)


def tries(pattern: str, facts: Facts, on: frozenset[str] = frozenset(), has: frozenset[str] | None = None) -> list[str]:
    """Two things to try."""
    on |= {switch for switch, operators in SEEN if any(operators.match(row.name) for row in facts.operators)}
    return [text for each in NEXT[pattern](facts) if (text := each.said(on, has))][:2]


def _loader(facts: Facts) -> list[Try]:
    if facts.on_gpu and facts.share("copy") > facts.share("loader"):
        return [PINNED, Try("send fewer bytes: uint8 images that are normalised on the GPU"),
                Try("send the next batch while this one is computed: copy on a stream of its own")]
    return [Try("more processes that load: --num-workers, up to the cores of the job, with --persistent-workers"),
            Try("do less for each image: decode to a smaller size, keep uint8 until the device, prepare the data set once")]


def _launch(facts: Facts) -> list[Try]:
    if facts.holey:
        named = f"look at {facts.hole.lines[0][0]}: cProfile or py-spy say what it calls" if facts.hole.lines else \
            "profile Python: python -m cProfile -s tottime SCRIPT, or py-spy, names the functions that fill the hole"
        return [Try(named), Try("is something made, read or written in the loop? Batches: in the workers of a DataLoader. "
                                "Checkpoints and logs: less often")]
    more = "more to do for each call: a larger --batch-size, one operator on a whole tensor instead of a loop over its parts"
    return [Try(more),
            Try("fewer launches (with CUDA graphs: one for all)", ("--compile reduce-overhead", "--fused")),
            Try("less Python between operators: cProfile or py-spy says where it is spent")]


def _synchronisation(facts: Facts) -> list[Try]:
    first = facts.syncs[0] if facts.syncs else None
    out = [Try("leave numbers on the GPU (no .item(), .cpu(), print of a tensor in the loop); read them every N steps")]
    if first is not None and first.asked in ("aten::to", "aten::copy_", "aten::_to_copy"):
        out.insert(0, PINNED)
    elif first is not None and first.asked == "torch.cuda.synchronize()":
        out = [Try("take torch.cuda.synchronize() out of the loop: time with events")]
    return [*out, Try("replace what depends on values (nonzero, boolean masks, if tensor > 0) by torch.where and fixed shapes"),
            Try('find the lines that wait: torch.cuda.set_sync_debug_mode("warn")')]


def _communication(facts: Facts) -> list[Try]:
    if waiting(facts):
        return [Try("find the slow process and what it does: trace another rank, time its loader"),
                Try("split the work evenly: the same number of equal batches per process, and less work for one process alone "
                    "(validation, checkpoints)")]
    return [Try("send less often: a larger --batch-size, or --accumulate N under no_sync"),
            Try("send fewer bytes: gradients in bf16 (a DDP communication hook); send them beside the backward pass (buckets)")]


def _memory(facts: Facts) -> list[Try]:
    if facts.prepared >= MOST * facts.seconds:
        return [Try("prepare batches in the workers of a DataLoader, not in the loop"),
                Try("do less for each item: smaller images first, uint8 until the device, one operator on the whole batch")]
    if facts.updating >= MOST * facts.seconds:
        return [Try("the update in one pass over the parameters", ("--fused",)),
                Try("fewer updates, which cost the same for any batch: a larger --batch-size, or --accumulate N"),
                Try("less to update: an optimizer that keeps fewer numbers of each parameter, or a smaller model")]
    # Autocast begins at products: without any, all stays as it is.
    half = [Try("half as many bytes", ("--amp bf16",))] if facts.half < MOST and _matters(facts, facts.products) else []
    passes = Try("fuse elementwise work, norms and the update into fewer passes", ("--compile", "--fused"))
    last = [Try("all channels of a pixel beside each other, as convolutions and norms read them", ("--channels-last",))] \
        if _matters(facts, facts.convolutions) else []
    rest = [Try("fewer norms and elementwise layers: each is a pass over all activations"),
            Try("more GPUs: each brings its own memory bandwidth")]
    if not facts.on_gpu:
        return [*half, *last, passes, *rest]
    turned = facts.kinds.get("layout", 0.0) / facts.seconds >= LAYOUT
    first = [Try("kernels turn the layout of images around and back", ("--channels-last",))] if turned else []
    return [*first, passes, *half, *([] if turned else last), *rest]


def _arithmetic(facts: Facts) -> list[Try]:
    images = _matters(facts, facts.convolutions)
    fewer = Try("fewer operations: smaller images, or a smaller model" if images else "fewer operations: a smaller model")
    if not facts.on_gpu:
        half = [Try("half precision, where the CPU has instructions for it", ("--amp bf16",))] if facts.half < MOST else []
        return [*half, *([Try("the layout kernels like", ("--channels-last",))] if images else []), fewer,
                Try("all cores of the job for each process: OMP_NUM_THREADS")]
    missed = sum(row.seconds for row in facts.missed)
    if missed and missed >= 0.1 * facts.seconds:
        cores, sizes = Try("use the tensor cores", ("--amp bf16", "--tf32")), Try("sizes that are multiples of 8")
        layout = [Try("the layout that tensor cores want for convolutions", ("--channels-last",))] if images else []
        by_size = sum(row.seconds for row in facts.missed if row.why.startswith(ODD_SIZES))
        return [sizes, *layout, fewer] if by_size >= 0.5 * missed else [cores, *layout, sizes, fewer]
    return [Try("this GPU is at its limit: use more GPUs, or a model with fewer operations"),
            Try("the best kernels for the sizes at hand", ("--compile max-autotune", *(["--channels-last"] if images else []))),
            fewer]


def _matters(facts: Facts, seconds: float) -> bool:
    return seconds >= MATTER * facts.seconds


PINNED = Try("copy from pinned memory, without blocking", ("--pin-memory", "--non-blocking"))
NEXT = {"loader": _loader, "launch": _launch, "synchronisation": _synchronisation, "communication": _communication,
        "memory_bandwidth": _memory, "arithmetic": _arithmetic}
