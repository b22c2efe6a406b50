"""Which switches of the training script go together: what cannot work is refused before anything starts, in one line."""

from __future__ import annotations

import argparse
import functools
import inspect
import math
import os
import shlex
import sys

from ..system import hardware, machine, suggest
from ..system.arguments import Parser as Parser
from ..system.errors import UsageError

AT_LEAST_ONE = ("image_size", "length", "batch_size", "epochs", "test_steps", "accumulate", "metric_every", "checkpoint_every",
                "prefetch_factor", "chunked_loss", "lora", "replicas", "prefetch")
FIXED = ("model", "data", "image_size", "length", "vocabulary", "mask_documents", "lora", "batch_size", "accumulate",
         "optimizer", "lr", "wd", "mom", "decay", "schedule", "warmup", "label_smoothing", "progressive", "augment", "alpha",
         "clip_grad", "drop_last", "amp", "weights",
         "seed")  # a resumed run needs the same
USUAL = ("resnet18", "resnet50", "efficientnet_b0")  # models
BY_HAND = ("lars", "lamb", "lion", "muon", "adamw8", "adamw16")  # optimizers of optimizers.py
IN_LOADER = ("randaugment", "mixup-cpu")  # what --augment does there
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
CUDA_GRAPHS = ("reduce-overhead", "max-autotune")  # the modes that record them
LARGEST = 1e30  # of --lr and --wd: times a few, still a float32
ALL_TAKE = 224  # pixels that each model of torchvision can work with
ONE_VALUE = "more than 1 value per channel"  # as batch norm puts it
TOO_SMALL = ("Output size is too small", "Kernel size can't be greater than actual input size")  # as pooling and convolutions do


def settle(args, procs, cuda: bool, models: list[str]) -> list[str]:
    """Check ``args`` of train.py (changed in place: ``device`` becomes cpu or cuda); returns notes on what has no effect here.

    A switch that a machine cannot honour but that changes nothing in the result (``--tf32`` on a CPU) is noted and left out,
    so that one command runs everywhere. A combination that would fail later, or mean something else than it says, raises
    UsageError.
    """
    on_cpu = _on_cpu(args, cuda)
    _refuse(_wrong(args, procs, cuda, "a folder, cifar10, photos, tiny or random") | {
        "--alpha must be a number above 0": args.alpha is not None and not 0 < args.alpha < math.inf,
        "--label-smoothing must be between 0 and 1": not 0 <= args.label_smoothing <= 1,
        _unknown(args.model, models): args.model not in models,
        f"--model {args.model} takes an --image-size that {_patch(args.model)} divides": args.image_size % _patch(args.model) > 0,
        "--persistent-workers needs --num-workers 1 or more": args.persistent_workers and not args.num_workers,
        "--prefetch-factor needs --num-workers 1 or more": args.prefetch_factor is not None and not args.num_workers,
        "--warmup must not be negative": args.warmup < 0,
        "--find-lr needs one process: each would sweep by itself": args.find_lr and procs.world_size > 1,
        "--sync-bn needs more than one process: start with torchrun or srun": args.sync_bn and procs.world_size == 1,
        "--sync-bn needs GPUs: torch's SyncBatchNorm has no CPU version": args.sync_bn and on_cpu,
        "--find-unused-parameters needs more than one process: start with torchrun or srun":
            args.find_unused_parameters and procs.world_size == 1,
        # What is computed again would change batch norm's statistics while the backward pass still needs them.
        "--compile-blocks does not go with --checkpoint-activations: compile the whole model":
            args.compile_blocks and args.checkpoint_activations,
    })
    refuse_shape(args, min(2, args.batch_size))
    random = args.data == "random"
    args.pin_memory, pinned = args.pin_memory and not on_cpu, args.pin_memory
    return _settled(args, procs, cuda, [
        ("--pin-memory", pinned and on_cpu, NO_GPU),
        ("--non-blocking", args.non_blocking and on_cpu, NO_GPU),
        ("--pin-memory", pinned and random and not on_cpu, NO_LOADER),
        ("--drop-last", args.drop_last and random, NO_LOADER),
        (f"--augment {args.augment}", args.augment in IN_LOADER and random, NO_LOADER),
        ("--alpha", args.alpha is not None and not _mixes(args.augment), "has no effect: only mixup and CutMix take it"),
    ])


def settle_lm(args, procs, cuda: bool) -> list[str]:
    """The same for train_lm.py."""
    _refuse(_wrong(args, procs, cuda, "stdlib, random or a folder with train.bin and val.bin") | {
        "--vocabulary must be at least 2": args.vocabulary is not None and args.vocabulary < 2,
        "--mask-documents needs documents: --data random has none": args.mask_documents and args.data == "random",
        "--shard needs more than one process: start with torchrun or srun (with --resume, one goes on with what several saved)":
            bool(args.shard) and procs.world_size == 1 and not args.resume,
        "--replicas and --prefetch need --shard": (args.replicas > 1 or args.prefetch is not None) and not args.shard,
        "--async-save needs --shard and --checkpoint-every": args.async_save and not (args.shard and args.checkpoint_every),
        f"--replicas {args.replicas} does not divide the {procs.world_size} processes":
            procs.world_size % max(1, args.replicas) > 0,
        "--shard goes with --compile-blocks, and not with --compile alone: a block is whole only while it computes":
            bool(args.shard and args.compile) and not args.compile_blocks,
        f"--optimizer {args.optimizer} does not go with --shard, which has split what it would pack":
            bool(args.shard) and args.optimizer in BY_HAND,
    })
    return _settled(args, procs, cuda, [])


def _on_cpu(args, cuda: bool) -> bool:
    return args.device == "cpu" or (args.device == "auto" and not cuda)


def _refuse(reasons: dict[str, bool]) -> None:
    for reason, applies in reasons.items():
        if applies:
            raise UsageError(reason)


def _too_small(args) -> dict[str, bool]:
    numbers = {name: getattr(args, name) for name in AT_LEAST_ONE if hasattr(args, name)}
    return {f"--{name.replace('_', '-')} must be at least 1": (1 if value is None else value) < 1
            for name, value in numbers.items()}


def refuse_small(args) -> None:
    """Raises UsageError where a number, such as a batch size, is less than it can be."""
    _refuse(_too_small(args))


def _wrong(args, procs, cuda: bool, sources: str) -> dict[str, bool]:
    """What both scripts refuse, and whether it applies. ``sources``: what --data may be."""
    return _too_small(args) | {
        "--num-workers must not be negative": args.num_workers < 0,
        f"--data needs {sources}": not args.data.strip(),
        # Processes tell each other of stop requests in steps with metrics: Slurm's warning comes a minute before the end.
        "--metric-every is at most 50 with several processes": procs.world_size > 1 and args.metric_every > 50,
        f"--lr and --wd must be numbers from 0 to {LARGEST:g}": not all(0 <= x <= LARGEST for x in (args.lr or 0, args.wd)),
        "--mom must be between 0 and 1": not 0 <= args.mom < 1,
        "--seed must be between 0 and 2**32": not 0 <= args.seed < 2**32,
        "--clip-grad must be a number above 0": args.clip_grad is not None and not 0 < args.clip_grad < math.inf,
        "--device cuda: torch sees no GPU here (`dlojz doctor` says why); leave it out to train on the CPU":
            args.device == "cuda" and not cuda,
        "--resume needs --run-dir, the folder of the run to resume":
            args.resume and not (args.run_dir or os.environ.get("DLOJZ_RUN")),
        "--compile-blocks needs --compile": args.compile_blocks and not args.compile,
        # CUDA graphs replay in fixed memory, and gradient accumulation keeps what one replay left there for the next.
        f"--compile {args.compile} does not go with --accumulate: take another mode":
            args.compile in CUDA_GRAPHS and args.accumulate > 1,
    }


NO_GPU, NO_LOADER = "has no effect on the CPU", "has no effect with --data random, which has no loader"


def _settled(args, procs, cuda: bool, more: list[tuple[str, bool, str]]) -> list[str]:
    """Sets the device; the notes on what has no effect in either script, then ``more``."""
    on_cpu, random = _on_cpu(args, cuda), args.data == "random"
    cores = machine.cores_allowed() // (procs.local_size if procs.launcher == "torchrun" else 1)  # srun gives each its own
    effects = [
        ("--tf32", args.tf32 and on_cpu, NO_GPU),
        (f"--amp {args.amp}", args.amp == "bf16" and on_cpu and hardware.bf16_is_emulated(),
         "is emulated by this CPU: a step takes 5 to 20 times as long as in float32"),
        ("--num-workers", args.num_workers and random, NO_LOADER),
        (f"--num-workers {args.num_workers}", args.num_workers > max(1, cores) and not random,
         f"is more than the cores that this process may use, {max(1, cores)}: workers take turns"),
        *more,
        ("--epochs", args.test and "epochs" in args.switches, "has no effect with --test, which stops after --test-steps"),
        ("--test-steps", not args.test and "test_steps" in args.switches, "has no effect without --test"),
        ("--fused", args.fused and args.optimizer in BY_HAND, f"has no effect: {args.optimizer} is written in Python"),
        (f"--optimizer {args.optimizer}", args.optimizer in ("lars", "lamb") and args.decay == "all" and args.wd > 0,
         "scales the steps of norms and biases, too: with --decay weights it leaves them as they are"),
        ("--mom", args.schedule == "onecycle" and "mom" in args.switches, "has no effect: --schedule onecycle sets it"),
    ]
    args.device = "cpu" if on_cpu else "cuda"
    return [f"{switch} {why}" for switch, applies, why in effects if applies]


def for_model(args) -> dict:
    """What ``torchvision.models.get_model`` must know, besides the number of classes, for images of this size."""
    if args.model in ("googlenet", "inception_v3"):
        return {"aux_logits": False, "init_weights": True}  # one output, as all others; and without a warning
    if args.model.startswith("vit_"):
        return {"image_size": args.image_size}
    return {"input_size": (args.image_size, args.image_size)} if args.model == "maxvit_t" else {}


def epoch_lengths(args, steps: int, images: int | None, notes: list[str]) -> list[int]:
    """The number of steps of each epoch; --test-steps may cut off the last. ``steps``, ``images``: those of a whole epoch in this
    process (None: there is no loader). ``notes`` get what has no effect here, as in `settle`. Raises UsageError where the images
    are too few."""
    kind = "images" if hasattr(args, "image_size") else "rows"
    if not steps:
        raise UsageError(f"{images} {kind} per process are not one batch of {args.batch_size}: use a smaller --batch-size")
    total = args.test_steps if args.test else args.epochs * steps
    lengths = [min(steps, total - first) for first in range(0, total, steps)]
    if kind == "images" and images is not None and lengths[0] * args.batch_size - images == args.batch_size - 1:
        refuse_shape(args, 1)
    if args.accumulate > lengths[0]:
        notes.append(f"--accumulate {args.accumulate} has no effect beyond the {lengths[0]} batches of an epoch, but the default "
                     f"--lr is for {args.accumulate}")
    return lengths


def updates(args, lengths: list[int]) -> int:
    """How often the optimizer steps in epochs of these lengths: the last group of an epoch may have fewer than --accumulate
    batches."""
    return sum(math.ceil(steps / args.accumulate) for steps in lengths)


def refuse_shape(args, images: int) -> None:
    """Raises UsageError where the model cannot be trained with a batch of so many images of --image-size."""
    if args.image_size >= ALL_TAKE:
        return
    trouble = _trouble(args.model, args.image_size, images)
    if ONE_VALUE in trouble and not args.sync_bn:
        which = "--batch-size 1" if args.batch_size == 1 else "the last batch of an epoch has one image, which"
        raise UsageError(f"{which} leaves batch norm one value per channel in {args.model} at {args.image_size} pixels: "
                         f"take {'' if args.batch_size == 1 else '--drop-last, '}another --batch-size or a larger --image-size")
    if any(words in trouble for words in TOO_SMALL):
        low, enough = args.image_size, ALL_TAKE
        while enough - low > 1:
            middle = (low + enough) // 2
            small = any(words in _trouble(args.model, middle, 2) for words in TOO_SMALL)
            low, enough = (middle, enough) if small else (low, middle)
        raise UsageError(f"--model {args.model} takes an --image-size from {enough} up")


@functools.cache
def _trouble(model: str, image_size: int, images: int) -> str:
    """What torch says of a forward pass in training: on the meta device, which has shapes and no numbers, so in no time. Nothing
    of a model that is not torchvision's own, which may do in its forward pass what it likes."""
    import torch
    import torchvision

    builder = inspect.unwrap(torchvision.models.get_model_builder(model))
    if not builder.__code__.co_filename.startswith(os.path.dirname(torchvision.__file__)):
        return ""
    try:
        with torch.device("meta"), torch.no_grad():
            known = for_model(argparse.Namespace(model=model, image_size=image_size))
            net = torchvision.models.get_model(model, weights=None, num_classes=2, **known)
            net(torch.empty(images, 3, image_size, image_size))
    except Exception as error:  # a model that cannot do without numbers, perhaps: the training itself will tell
        return str(error)
    return ""


def fixed(args, procs, total_steps: int) -> dict:
    """What must be the same in a resumed run, to be kept in its checkpoint."""
    lasts = {"steps in all": total_steps} if args.schedule != "constant" else {}
    same = {name: getattr(args, name) for name in FIXED if hasattr(args, name)} | {"processes": procs.world_size} | lasts
    if getattr(args, "shard", None):  # any number of processes reads its shares, and the same rows while there are as many
        del same["processes"]
        same |= {"batch_size": None, "rows per step": procs.world_size * args.batch_size, "shards": "each process's own"}
    return same


def refuse_other(path, then: dict, now: dict) -> None:
    """Raises UsageError where a checkpoint was written by a run that was `fixed` otherwise."""
    for name in then | now:
        if then.get(name) != now.get(name):
            said = f"{name.replace('_', ' ')} {then.get(name)}, not {now.get(name)}"
            raise UsageError(f"{path} was written with {said}: use the same, or a new --run-dir")


def _mixes(augment: str) -> bool:
    return augment.startswith(("mixup", "cutmix"))


def _unknown(model: str, models) -> str:
    """What is said of a model that torchvision has not. Nothing of one that it has: to look for names like it takes a while."""
    near = "" if model in models else ", ".join(suggest.names(model, models, 3) or USUAL)
    return f"--model {shlex.quote(model)} is not a classification model of torchvision: try {near}"


def _patch(model: str) -> int:
    """The number of pixels that must divide the image size: the side of a ViT's patches; MaxViT's windows and strides."""
    if model.startswith("vit_"):
        return int(model.rpartition("_")[2])
    return 224 if model == "maxvit_t" else 1


def title(args, procs) -> str:
    """A run in a few words."""
    size, kind = (f" at {args.image_size} px", "images") if hasattr(args, "image_size") else ("", f"x {args.length} tokens")
    return f"{args.model}, {args.data}{size}, {procs.world_size} x {args.batch_size} {kind} per step"


def describe(args, procs) -> dict:
    """The fields of a ``start`` event that say what was asked for."""
    args = dict(vars(args))
    return {
        "command": shlex.join(sys.argv),
        "switches": args.pop("switches"),
        "args": args,
        **{name: args[name] for name in ("model", "image_size", "length", "batch_size") if name in args},
        "world_size": procs.world_size,
        "global_batch": args["batch_size"] * procs.world_size * args["accumulate"],
    }
