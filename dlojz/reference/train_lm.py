"""Train a language model on text: train.py's sibling, with the model in lm.py.

    python train_lm.py --test                                50 steps on the Python library's own sources, then a short validation
    python train_lm.py --model 124m --length 1024 --vocabulary 50304 --data random --amp bf16 --compile --fused --test
    python train_lm.py --data /path/to/tokens -e 1           a folder with train.bin and val.bin (uint16) and manifest.json
    torchrun --nproc-per-node 4 train_lm.py --test           four processes; `srun python train_lm.py` on a cluster does the same
    torchrun --nproc-per-node 4 train_lm.py --shard --test   each holds a quarter of the model, not a copy of it: see sharding.py

A row is --length tokens of packed documents. What a run measured is in record.jsonl in its folder: its unit is the token.
Exit codes: 0, 2 wrong usage, 75 stopped by a signal with a checkpoint (continue with --resume), else 1; torchrun's own is then 1.
"""

import argparse
import math
from contextlib import nullcontext
from pathlib import Path

import lm
import optimizers
import saving
import sharding
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

from dlojz import Training, data, sites, todo  # noqa: F401
from dlojz.data import texts
from dlojz.training import distributed, failures, options, records


# ---------------------------------------------------------------------------------------------------------- arguments
def arguments(argv=None):
    size = sites.sizes()  # what is sensible on this machine: see `dlojz sites`
    parser = options.Parser(description=__doc__.split("\n")[0], epilog=__doc__.strip().split("\n")[-1], allow_abbrev=False)
    add, switch = parser.add_argument, argparse.BooleanOptionalAction
    add("--model", choices=lm.PRESETS, default=size.lm, help="its size (%(default)s)")
    add("--data", default="stdlib", help="a folder with tokens, `stdlib` (Python's own sources) or `random` (%(default)s)")
    add("--length", type=int, default=size.length, help="tokens of a row, the model's context (%(default)s)")
    add("--vocabulary", type=int, help="different tokens that the model knows (those of the data, rounded up to 64)")
    add("--mask-documents", action="store_true", help="tokens see their own document only, and not those packed before it")
    add("-b", "--batch-size", type=int, default=size.rows, help="rows per process and step (%(default)s)")
    add("-e", "--epochs", type=int, default=1)
    add("--lr", type=float, help="learning rate (from the optimizer and the model's size)")
    add("--wd", type=float, default=0.1, help="weight decay")
    add("--mom", type=float, default=0.9, help="momentum")
    add("--optimizer", choices=["sgd", "adamw", "adamw8", "adamw16"], default="adamw",
        help="adamw8, adamw16: states of so many bits instead of 32")
    add("--fused", action="store_true", help="update all parameters in one kernel")
    add("--schedule", choices=optimizers.SCHEDULES, default="constant")
    add("--clip-grad", type=float, metavar="NORM", default=1.0, help="scale the gradient down to this norm (%(default)s)")
    add("--seed", type=int, default=1)
    add("--test", action="store_true", help="stop after --test-steps, then a short validation")
    add("--test-steps", type=int, default=50)
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--tf32", action="store_true", help="let float32 products round to TensorFloat-32 on the tensor cores")
    add("--amp", choices=["off", "bf16"], default="off", help="automatic mixed precision")
    add("--weights", choices=["float32", "bf16"], default="float32", help="what all is kept and computed in (%(default)s)")
    add("--compile", nargs="?", const="default", metavar="MODE", choices=options.COMPILE_MODES, help="torch.compile")
    add("--compile-blocks", action="store_true", help="torch.compile, each block by itself: one is compiled, all use it")
    add("--num-workers", type=int, default=0, help="processes that load rows; 0: the training process itself")
    add("--shard", nargs="?", const="zero3", choices=["zero2", "zero3"],
        help="each process holds a part of the model (FSDP2); zero2: blocks stay whole from forward to backward")
    add("--replicas", type=int, default=1, metavar="N", help="with --shard, N groups of processes hold a model each (HSDP)")
    add("--prefetch", type=int, metavar="N", help="with --shard, gather N blocks ahead of the one that computes")
    add("--accumulate", type=int, default=1, metavar="N", help="update once in N batches")
    add("--metric-every", type=int, default=1, metavar="N", help="sum the loss over processes every N steps")
    add("--profile", action="store_true", help="write a torch.profiler trace of a few steps")
    add("--checkpoint-activations", nargs="?", const="all", choices=["all", "products"],
        help="compute activations again in the backward pass: all of a block, or all but its products")
    add("--chunked-loss", type=int, default=1, metavar="N", help="compute logits and loss in N parts, one at a time")
    add("--lora", type=int, metavar="RANK", help="train two thin matrices beside each linear layer, and nothing else")
    add("--checkpoint-every", type=int, metavar="N", help="save every N steps and at the end of each epoch")
    add("--async-save", action="store_true", help="with --shard, training goes on while a checkpoint is written")
    add("--resume", action="store_true", help="resume from the checkpoint in the run's folder, if it exists")
    add("--run-dir", help="where the record, checkpoint and trace go")
    add("--chronometer", action=switch, default=True, help="time the phases of each step")
    args = parser.parse_args(argv)
    args.switches = {name: value for name, value in vars(args).items() if value != parser.get_default(name)}
    return args


# ----------------------------------------------------------------------------------------------------------- training
def train(args: argparse.Namespace, procs: distributed.Processes, notes: list[str], run: Path | None, record: records.Writer):
    """Train and validate in the folder ``run`` (None: rank 0 knows it), and end the process with exit code 0, or 75 when stopped.

    A batch: int64 (batch, length + 1), of which all but the last are the inputs and all but the first the targets. Raises
    UsageError where data, model or checkpoint do not fit ``args``; StopTraining where the loss stays NaN or infinite.
    """
    torch.manual_seed(args.seed)
    training = Training(procs, record, failures.catch_signals())
    device = torch.device("cuda", procs.local_rank % torch.cuda.device_count()) if args.device == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)  # before anything touches a GPU, or every process takes memory on GPU 0
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    if procs.world_size > 1 or args.shard:  # one process goes on alone with what several have saved
        alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1} if procs.world_size == 1 else {}
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", device_id=device if device.type == "cuda" else None,
                                **alone)
    run = record.open(distributed.same_everywhere(run))

    # ------------------------------------------------------------------------------------------------------------ data
    if args.data == "random":
        train_set, vocabulary, separator = None, args.vocabulary or 256, None
        train_loader = texts.RandomTokens(args.batch_size, args.length, vocabulary, 100, device, seed=procs.rank)
        val_loader = texts.RandomTokens(args.batch_size, args.length, vocabulary, 5, device, seed=-1 - procs.rank)
    else:
        train_set, val_set = (texts.Tokens(args.data, split, args.length) for split in ("train", "val"))
        vocabulary, separator = texts.settled(train_set, args.vocabulary, args.mask_documents)
        sampler = RandomSampler(train_set, generator=(order := torch.Generator()))
        if procs.world_size > 1:
            sampler = DistributedSampler(train_set, seed=args.seed, drop_last=True)
        sampler = data.Resumable(sampler, train_set, order, args.seed)
        loading = {"batch_size": args.batch_size, "num_workers": args.num_workers, "pin_memory": device.type == "cuda",
                   "worker_init_fn": failures.leave_signals_to_trainer, "generator": torch.Generator()}
        train_loader = DataLoader(train_set, sampler=sampler, drop_last=True, **loading)
        val_loader = DataLoader(data.part(val_set, procs, 5 * args.batch_size if args.test else None), **loading)
    epoch_lengths = options.epoch_lengths(args, len(train_loader), train_set and len(sampler), notes)

    # ----------------------------------------------------------------------------------------------------------- model
    shape = lm.shape(args.model, vocabulary, args.length)
    with device:  # billions of random numbers take a CPU a minute
        net = network(args, shape)
    if args.compile_blocks:
        for block in net.blocks:
            block.forward = torch.compile(block.forward, mode=args.compile)  # FSDP's hooks stay outside
    model = net  # `net` keeps the plain parameter names, `model` may be wrapped
    if args.shard:  # before the optimizer is made: it is to know the parts, and not the whole parameters
        sharding.shard(net, sharding.make_mesh(device.type, args.replicas), sharding.precision(args.amp), args.shard == "zero2")
        if args.prefetch:
            sharding.prefetch(net, args.prefetch)
    elif procs.world_size > 1:
        model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None,
                                        broadcast_buffers=False,  # angles, which never change
                                        gradient_as_bucket_view=True,  # or each gradient is copied to be sent, and back
                                        bucket_cap_mb=100)  # fewer, larger messages than 25 MB make: see docs/day4.md
    uncompiled = model
    if args.compile and not args.compile_blocks:
        model = torch.compile(model, mode=args.compile)
    args.lr = lm.default_lr(shape) if args.lr is None else args.lr
    groups = [{"params": [p for p in net.parameters() if p.requires_grad], "weight_decay": args.wd}]
    optimizer = optimizers.make_optimizer(args.optimizer, groups, args.lr, args.mom, args.fused)
    scheduler = optimizers.make_schedule(args.schedule, optimizer, args.lr, options.updates(args, epoch_lengths))
    autocast = {"device_type": device.type, "dtype": torch.bfloat16, "enabled": args.amp == "bf16" and not args.shard}

    parameters = sum(p.numel() for p in net.parameters())
    parts, shares = {"model": net, "optimizer": optimizer, "scheduler": scheduler}, None
    if args.shard:  # no process has all of these two: in a checkpoint each writes what it has
        shares = sharding.Shares(parts.pop("model"), parts.pop("optimizer"), wait=not args.async_save)
    sums = torch.zeros(2, device=device)  # loss x tokens, tokens: on the device, so that nothing waits
    chronometer = training.begin(args, run, device, epoch_lengths, parts, sums, notes, shares,
                                 unit="tokens", steps_per_epoch=len(train_loader), parameters=parameters,
                                 epoch_images=train_set and len(train_set) * args.length,
                                 flops_per_image=shape.flops_per_token(parameters))
    step, position = training.step, training.position  # of the training, of the epoch: 0, or those of the checkpoint
    profiler, left = nullcontext(), sum(epoch_lengths) - step
    if args.profile and procs.is_main and left:
        profiler = failures.profiler(run / "trace.json.gz", record, left)

    # ------------------------------------------------------------------------------------------------------------ loop
    with profiler:
        for epoch in range(training.epoch, len(epoch_lengths)):
            model.train()
            if train_set is not None:
                sampler.begin(epoch, position * args.batch_size)  # at row 0, or where a resumed run stopped
                sampler.set_epoch(epoch)
            chronometer.start()
            for batch in train_loader if position < epoch_lengths[epoch] else ():
                chronometer.copy()
                batch = batch.to(device, non_blocking=True)
                tokens, targets = batch[:, :-1], batch[:, 1:]
                mask = lm.documents(tokens, separator) if args.mask_documents else None
                step, position = step + 1, position + 1
                last = position == epoch_lengths[epoch]
                update_now = last or position % args.accumulate == 0
                group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
                with accumulating(uncompiled, not update_now):
                    chronometer.forward()
                    with torch.autocast(**autocast):
                        loss = model(tokens, targets, mask)
                    chronometer.backward()
                    (loss / group).backward()
                chronometer.update()
                lr = scheduler.get_last_lr()[0]
                if update_now:
                    if args.clip_grad:
                        nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                    scheduler.step()

                sums += torch.stack([loss.detach() * targets.numel(), loss.new_full((), targets.numel())])
                reduce_now = last or step % args.metric_every == 0
                if procs.world_size > 1 and reduce_now:
                    dist.all_reduce(sums)
                total = sums if reduce_now else None
                settled = chronometer.next_iter(total, epoch=epoch, lr=lr, images=targets.numel() * procs.world_size)
                if args.profile and procs.is_main:
                    profiler.step()
                training.step_done(settled, sums, reduced=reduce_now, updated=update_now)
                if training.should_save():
                    training.save()
                if last or (training.stop and update_now):
                    break
            training.epoch_done(chronometer.validation())
            if training.stop:
                break
            found = validate(net, val_loader, device, autocast, procs, separator if args.mask_documents else None)
            training.validated(found, train_set and val_set.folder)
            position = 0
    training.end(**distributed.held(optimizer))


def network(args: argparse.Namespace, shape: lm.Shape) -> lm.Transformer:
    """The model that the switches ask for."""
    net = lm.Transformer(shape, args.checkpoint_activations or "", args.chunked_loss)
    if args.weights == "bf16":
        for weight in net.parameters():  # and not what is no weight: the angles of the rotary embedding
            weight.data = weight.data.bfloat16()
    return saving.add_lora(net, args.lora) if args.lora else net


def accumulating(model: nn.Module, more_to_come: bool):
    """A context in which DDP keeps gradients to itself while more batches of the group follow; FSDP is told so."""
    if isinstance(model, sharding.FSDPModule):
        sharding.accumulate(model, more_to_come)
    return model.no_sync() if more_to_come and isinstance(model, DistributedDataParallel) else nullcontext()


# ------------------------------------------------------------------------------------------------------------ validation
@torch.no_grad()
def validate(net: nn.Module, loader: DataLoader | texts.RandomTokens, device: torch.device, autocast: dict,
             procs: distributed.Processes, separator: int | None = None) -> dict[str, float]:
    """``loss`` per token, ``bits`` per token and number of ``images`` (tokens) over the batches of all processes. All call.

    ``separator``: of documents, where they are to be masked.
    """
    net.eval()
    sums = torch.zeros(2, device=device, dtype=torch.float64)
    for batch in loader:
        batch = batch.to(device)
        tokens, targets = batch[:, :-1], batch[:, 1:]
        with torch.autocast(**autocast):
            loss = net(tokens, targets, None if separator is None else lm.documents(tokens, separator))
        sums += torch.stack([loss.double() * targets.numel(), sums.new_full((), targets.numel())])
    if procs.world_size > 1:
        dist.all_reduce(sums)
    loss, tokens = sums.tolist()
    loss /= max(tokens, 1)
    return {"loss": loss, "bits": loss / math.log(2), "images": int(tokens)}


if __name__ == "__main__":
    with failures.reported() as (procs, record):
        args = arguments()
        notes = options.settle_lm(args, procs, torch.cuda.is_available())
        run = record.open(records.run_folder(args.run_dir, "train_lm", procs.is_main))
        train(args, procs, notes, run, record)
