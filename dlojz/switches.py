"""Which switches of the training script go together: what cannot work is refused before anything starts, in one line."""

from __future__ import annotations

import os
import shlex
import sys

from .errors import UsageError

AT_LEAST_ONE = ("image_size", "batch_size", "epochs", "test_steps", "accumulate", "metric_every", "checkpoint_every", "prefetch_factor")


def settle(args, procs, cuda: bool, models: list[str]) -> list[str]:
    """Check ``args`` (changed in place: ``device`` becomes cpu or cuda); returns notes on what has no effect here.

    A switch that a machine cannot honour but that changes nothing in the result (``--tf32`` on a CPU) is noted and left out, so that
    one command runs everywhere. A combination that would fail later, or mean something else than it says, raises UsageError.
    """
    on_cpu = args.device == "cpu" or (args.device == "auto" and not cuda)
    refuse = {f"--{name.replace('_', '-')} must be at least 1": (1 if getattr(args, name) is None else getattr(args, name)) < 1
              for name in AT_LEAST_ONE}
    refuse |= {
        "--num-workers must not be negative": args.num_workers < 0,
        "--lr, --wd and --mom must not be negative": min(args.lr or 0, args.wd, args.mom) < 0,
        "--clip-grad must be above 0": args.clip_grad is not None and not args.clip_grad > 0,
        "--label-smoothing lies between 0 and 1": not 0 <= args.label_smoothing <= 1,
        f"--model {args.model} is not a classification model of torchvision: try {', '.join(_near(args.model, models))}": args.model not in models,
        "--device cuda: torch sees no GPU here (`dlojz doctor` says why); leave it out to train on the CPU": args.device == "cuda" and not cuda,
        "--persistent-workers needs --num-workers 1 or more": args.persistent_workers and not args.num_workers,
        "--prefetch-factor needs --num-workers 1 or more": args.prefetch_factor is not None and not args.num_workers,
        "--sync-bn needs more than one process: start with torchrun or srun": args.sync_bn and procs.world_size == 1,
        "--sync-bn needs GPUs: torch's SyncBatchNorm has no CPU version": args.sync_bn and on_cpu,
        "--find-unused-parameters needs more than one process: start with torchrun or srun": args.find_unused_parameters and procs.world_size == 1,
        "--resume needs --run-dir: the folder of the run to go on with": args.resume and not (args.run_dir or os.environ.get("DLOJZ_RUN")),
        # CUDA graphs replay fixed memory; checkpointing and gradient accumulation keep tensors of one replay for the next.
        "--compile reduce-overhead does not go with --accumulate: compile without it": args.compile == "reduce-overhead" and args.accumulate > 1,
    }
    for reason, applies in refuse.items():
        if applies:
            raise UsageError(reason)

    no_gpu, no_loader = "has no effect on the CPU", "has no effect with --data random, which has no loader"
    random = args.data == "random"
    effects = [
        ("--tf32", args.tf32 and on_cpu, no_gpu),
        ("--pin-memory", args.pin_memory and on_cpu, no_gpu),
        ("--non-blocking", args.non_blocking and on_cpu, no_gpu),
        ("--num-workers", args.num_workers and random, no_loader),
        ("--pin-memory", args.pin_memory and random and not on_cpu, no_loader),
        ("--drop-last", args.drop_last and random, no_loader),
    ]
    args.device = "cpu" if on_cpu else "cuda"
    args.pin_memory = args.pin_memory and not on_cpu
    return [f"{switch} {why}" for switch, applies, why in effects if applies]


def _near(name: str, models: list[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, models, 3) or ["resnet18", "resnet50", "efficientnet_b0"]


def describe(args, procs) -> dict:
    """The fields of a ``start`` event that say what was asked for."""
    args = dict(vars(args))
    return {
        "command": shlex.join(sys.argv),
        "switches": args.pop("switches"),
        "args": args,
        "model": args["model"],
        "image_size": args["image_size"],
        "batch_size": args["batch_size"],
        "world_size": procs.world_size,
        "global_batch": args["batch_size"] * procs.world_size * args["accumulate"],
    }
