"""Train an image classification model of torchvision. This is the file you will make fast.

    python train.py --test                                   50 steps on images that the kit makes itself, then a short validation
    python train.py --data random --test                     no images to read: what the device alone can do
    python train.py --data /path/to/imagenet -e 90           folders train/CLASS/*.jpg and val/CLASS/*.jpg
    torchrun --nproc-per-node 4 train.py --test              four processes; `srun python train.py` on a cluster does the same

The defaults are a plain, slow, correct loop. Each switch is a technique, in lines of its own between `# >>>` and `# <<<`.
What a run measured is in record.jsonl in its folder (--run-dir, else $DLOJZ_RUN, else a new runs/train-NNN).
Exit codes: 0, 2 wrong usage, 75 stopped by a signal with a checkpoint (go on with --resume), else 1; torchrun's own is then 1.
"""

import argparse
import math
import sys
import warnings
from contextlib import nullcontext

import augment
import optimizers
import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, Subset

from dlojz import data, todo  # noqa: F401
from dlojz.system import machine
from dlojz.system.errors import UsageError
from dlojz.system.sites import sizes
from dlojz.training import activation_checkpointing, checkpoint, distributed, failures, options, records, summary
from dlojz.training.chronometer import Chronometer


# ---------------------------------------------------------------------------------------------------------- arguments
def arguments(argv=None):
    size = sizes()  # what is sensible on this machine: see `dlojz sites`
    parser = options.Parser(description=__doc__.split("\n")[0], epilog=__doc__.strip().split("\n")[-1], allow_abbrev=False)
    add, switch = parser.add_argument, argparse.BooleanOptionalAction
    add("--model", default=size.model, help="a classification model of torchvision (%(default)s)")
    add("--data", default="photos", help="a folder with train/ and val/, `photos` (made by the kit) or `random` (%(default)s)")
    add("--image-size", type=int, default=size.image_size, help="pixels (%(default)s)")
    add("-b", "--batch-size", type=int, default=size.batch_size, help="images per process and step (%(default)s)")
    add("-e", "--epochs", type=int, default=1)
    add("--lr", type=float, help="learning rate (from the optimizer and the images of an update)")
    add("--wd", type=float, default=1e-4, help="weight decay")
    add("--mom", type=float, default=0.9, help="momentum")
    add("--optimizer", choices=optimizers.NAMES, default="sgd")
    add("--fused", action="store_true", help="update all parameters in one kernel")
    add("--schedule", choices=optimizers.SCHEDULES, default="constant")
    add("--label-smoothing", type=float, default=0.0)
    add("--augment", choices=augment.NAMES, default="none", help="other images from those that there are (see augment.py)")
    add("--alpha", type=float, help="of mixup and CutMix: images are shared out by Beta(alpha, alpha) (0.2 and 1)")
    add("--seed", type=int, default=1)
    add("--test", action="store_true", help="stop after --test-steps, then a short validation")
    add("--test-steps", type=int, default=50)
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--tf32", action="store_true", help="let float32 products round to TensorFloat-32 on the tensor cores")
    add("--amp", choices=["off", "bf16", "fp16"], default="off", help="automatic mixed precision")
    add("--clip-grad", type=float, metavar="NORM", help="scale the gradient down to this norm")
    add("--channels-last", action="store_true", help="keep images and weights as NHWC in memory")
    add("--compile", nargs="?", const="default", metavar="MODE", choices=options.COMPILE_MODES, help="torch.compile")
    add("--num-workers", type=int, default=0, help="processes that load images; 0: the training process itself")
    add("--persistent-workers", action=switch, default=False, help="keep them between epochs")
    add("--pin-memory", action=switch, default=False, help="hand batches over in page-locked memory")
    add("--non-blocking", action=switch, default=False, help="copy to the device while the host goes on")
    add("--prefetch-factor", type=int, help="batches that each worker prepares ahead")
    add("--drop-last", action=switch, default=False, help="leave out the last, smaller batch")
    add("--sync-bn", action="store_true", help="batch norm over the images of all processes")
    add("--find-unused-parameters", action="store_true", help="for models that use a part of their parameters in a step")
    add("--accumulate", type=int, default=1, metavar="N", help="update once in N batches")
    add("--metric-every", type=int, default=1, metavar="N", help="sum loss and accuracy over processes every N steps")
    add("--profile", action="store_true", help="write a torch.profiler trace of a few steps")
    add("--checkpoint-activations", action="store_true", help="compute activations again in the backward pass")
    add("--checkpoint-every", type=int, metavar="N", help="save every N steps and at the end of each epoch")
    add("--resume", action="store_true", help="go on from the checkpoint in the run's folder, if there is one")
    add("--run-dir", help="where the record, checkpoint and trace go")
    add("--chronometer", action=switch, default=True, help="time the phases of each step")
    args = parser.parse_args(argv)
    args.switches = {name: value for name, value in vars(args).items() if value != parser.get_default(name)}
    return args


# ----------------------------------------------------------------------------------------------------------- training
def train(args, procs, notes, run, record):
    say = failures.say if procs.is_main else lambda *text: None
    torch.manual_seed(args.seed)
    stop_signals = failures.catch_signals()

    # >>> gpu.device: the device of this process
    device = torch.device("cuda", procs.local_rank % torch.cuda.device_count()) if args.device == "cuda" else torch.device("cpu")
    # <<< gpu.device
    if device.type == "cuda":
        torch.cuda.set_device(device)  # before anything touches a GPU, or every process takes memory on GPU 0
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = args.tf32  # torch's default is on: here a switch, to see what it brings
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    # >>> ddp.init: the process group
    if procs.world_size > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    # <<< ddp.init
    run = record.open(distributed.same_everywhere(run))

    # ------------------------------------------------------------------------------------------------------------ data
    if args.data == "random":
        train_set, classes = None, 1000
        train_loader, val_loader = (data.random_batches(args.batch_size, args.image_size, classes, steps, device, seed)
                                    for steps, seed in ((100, procs.rank), (5, -1 - procs.rank)))
    else:
        repeat = sizes().photos_repeat if args.data == "photos" else 1
        train_set = data.dataset(args.data, "train", args.image_size, args.seed, repeat, augment.of_image(args))
        val_set = data.dataset(args.data, "val", args.image_size)
        classes = len(train_set.classes)
        sampler = RandomSampler(train_set, generator=(order := torch.Generator()))
        # >>> ddp.sampler: each process reads its own part
        if procs.world_size > 1:
            sampler = DistributedSampler(train_set, seed=args.seed, drop_last=True)  # or it fills up with images twice
        # <<< ddp.sampler
        sampler = data.StartAt(sampler)
        # >>> dataloader: processes that prepare batches ahead, in memory that a GPU can fetch from by itself
        loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory,
                   "persistent_workers": args.persistent_workers}
        # <<< dataloader
        loading |= {"batch_size": args.batch_size, "worker_init_fn": failures.leave_signals_to_trainer,
                    "generator": torch.Generator()}  # their own, so that they draw nothing from the model's random numbers
        train_loader = DataLoader(train_set, sampler=sampler, drop_last=args.drop_last, **loading,
                                  collate_fn=augment.in_loader(args, classes, procs.rank))
        # Mixed, since --test looks at the first ones only. Each process validates its own part, however uneven.
        mixed = torch.randperm(len(val_set), generator=torch.Generator().manual_seed(0)).tolist()
        mine = mixed[procs.rank :: procs.world_size][: 5 * args.batch_size if args.test else None]
        val_loader = DataLoader(Subset(val_set, mine), **loading)
    steps_per_epoch = len(train_loader)
    if not steps_per_epoch:
        raise UsageError(f"{len(train_set)} images are no batch of {args.batch_size} a process: take a smaller --batch-size")
    total_steps = args.test_steps if args.test else args.epochs * steps_per_epoch
    epoch_lengths = [min(steps_per_epoch, total_steps - first) for first in range(0, total_steps, steps_per_epoch)]
    notes += options.settle_epoch(args, epoch_lengths[0], 0 if train_set is None else len(sampler))

    # ----------------------------------------------------------------------------------------------------------- model
    net = torchvision.models.get_model(args.model, weights=None, num_classes=classes, **options.for_model(args))
    # >>> gpu.model: the model goes to the device
    net = net.to(device)
    # <<< gpu.model
    # >>> channels_last.model: weights as NHWC; before the DDP wrap, which remembers how gradients lie in memory
    if args.channels_last:
        net = net.to(memory_format=torch.channels_last)
    # <<< channels_last.model
    # >>> ddp.sync_bn: batch norm over the images of all processes; before the DDP wrap
    if args.sync_bn:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    # <<< ddp.sync_bn
    if args.checkpoint_activations and not activation_checkpointing.checkpoint_activations(net):
        notes.append("--checkpoint-activations has no effect: this model has no repeated blocks")
    model = net  # `net` keeps the plain parameter names, `model` may be wrapped
    # >>> ddp.wrap: average gradients over the processes
    if procs.world_size > 1:
        model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None,
                                        find_unused_parameters=args.find_unused_parameters)
    # <<< ddp.wrap
    uncompiled = model
    # >>> compile: after the DDP wrap, so that the compiler knows where gradients are sent
    if args.compile:
        model = torch.compile(model, mode=args.compile)
    # <<< compile
    mixer = augment.on_device(args, classes, procs.rank)
    smoothing = 0.0 if args.augment in augment.ALPHA else args.label_smoothing  # soft labels come smoothed
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    optimizer = optimizers.make_optimizer(args.optimizer, net.parameters(), args.lr, args.mom, args.wd, args.fused)
    updates = sum(math.ceil(steps / args.accumulate) for steps in epoch_lengths)
    scheduler = optimizers.make_schedule(args.schedule, optimizer, args.lr, updates)
    if args.amp == "fp16":  # its scaler may skip the first update; the schedule does not ask: that would wait for the device
        warnings.filterwarnings("ignore", r"Detected call of `lr_scheduler\.step\(\)` before")
    # >>> amp.dtype: the format of the forward pass, and a scaler where small gradients would vanish
    amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
    scaler = torch.amp.GradScaler(device.type, enabled=amp_dtype is torch.float16)
    # <<< amp.dtype

    parts = {"model": net, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    sums = torch.zeros(4, device=device)  # loss x images, correct, images, wishes to stop: on the device, so that nothing waits
    place = {"step": 0, "epoch": 0, "position": 0, "same": options.fixed(args, procs, total_steps)}
    if failures.to_resume(run / "checkpoint.pt", args.resume, procs.is_main):
        checkpoint.load(run / "checkpoint.pt", parts, sums, place, procs.rank)
    elif args.resume:
        notes.append("--resume has no effect: there is no checkpoint in the run's folder yet")
    step, position = place["step"], place["position"]
    if step and checkpoint.nothing_left(run / "checkpoint.pt", step, total_steps):
        say(f"all {total_steps} steps are done already: give more --epochs or --test-steps to go on")
        sys.exit(0)
    chronometer = Chronometer(record, device, total_steps=total_steps, first_step=step, phases=args.chronometer,
                              ranges=args.profile)
    record.write("start", flush=True, **machine.describe(device), **options.describe(args, procs), notes=notes, resumed_at=step,
                 parameters=sum(p.numel() for p in net.parameters()), steps_per_epoch=steps_per_epoch, epochs=len(epoch_lengths),
                 epoch_images=train_set and len(train_set), total_steps=total_steps, warmup_steps=chronometer.warmup_steps)
    planned = f"steps {step + 1} to {total_steps}" if step < total_steps else "the last validation"
    say(f"{args.model}, {args.data} at {args.image_size} px, {procs.world_size} x {args.batch_size} images a step on",
        f"{device.type}, {planned}", *(f"\nnote: {note}" for note in notes))
    # >>> profiler.start: trace a few steps out of those that will run
    profiler, left = nullcontext(), total_steps - step
    if args.profile and procs.is_main and left:
        active = max(1, min(5, left - 1))  # fewer where fewer will run, so that there is a trace all the same
        warmup = min(3, left - active)
        schedule = torch.profiler.schedule(wait=min(5, left - active - warmup), warmup=warmup, active=active, repeat=1)
        ready = failures.trace_writer(run / "trace.json.gz", record)
        profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=ready, record_shapes=True)  # sizes tell bytes, FLOPs
    # <<< profiler.start

    # ------------------------------------------------------------------------------------------------------------ loop
    watch, stopping, saved = failures.Watch(say, total_steps), False, step
    with profiler:
        for epoch in range(place["epoch"], len(epoch_lengths)):
            model.train()
            if train_set is not None:
                train_set.set_epoch(epoch)
                order.manual_seed(args.seed + epoch)
                sampler.start = position * args.batch_size  # 0, or where a resumed run stopped
                # >>> ddp.epoch: another order in each epoch
                if procs.world_size > 1:
                    sampler.set_epoch(epoch)
                # <<< ddp.epoch
            chronometer.start()
            for images, labels in train_loader if position < epoch_lengths[epoch] else ():
                chronometer.copy()
                # >>> gpu.batch: each batch goes where the model is
                images = images.to(device, non_blocking=args.non_blocking)
                labels = labels.to(device, non_blocking=args.non_blocking)
                # <<< gpu.batch
                # >>> augmentation.batch: mix on the device, while images are uint8 and a quarter of what floats take
                if mixer is not None:
                    images, labels = mixer(images, labels, step)
                # <<< augmentation.batch
                # >>> channels_last.batch: images as NHWC
                if args.channels_last:
                    images = images.to(memory_format=torch.channels_last)
                # <<< channels_last.batch
                images = data.normalize(images)
                step, position = step + 1, position + 1
                last = position == epoch_lengths[epoch]
                # >>> ddp_advanced.group: update after the last of N batches; the last group of an epoch may be smaller
                update_now = last or position % args.accumulate == 0
                group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
                # <<< ddp_advanced.group
                with accumulating(uncompiled, not update_now):
                    chronometer.forward()
                    # >>> amp.forward: half precision where it is safe
                    with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
                        outputs = model(images)
                        loss = criterion(outputs, labels)
                    # <<< amp.forward
                    chronometer.backward()
                    # >>> amp.backward: scale the loss, so that small gradients survive
                    scaler.scale(loss / group).backward()
                    # <<< amp.backward
                chronometer.update()
                lr = scheduler.get_last_lr()[0]
                if update_now:
                    # >>> amp.update: unscale, then clip, then step
                    if args.clip_grad:
                        scaler.unscale_(optimizer)
                        nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
                    scaler.step(optimizer)
                    scaler.update()
                    # <<< amp.update
                    optimizer.zero_grad(set_to_none=True)
                    scheduler.step()

                sums[0] += loss.detach() * len(labels)
                sums[1] += (outputs.argmax(1) == augment.dominating(labels)).sum()
                sums[2] += len(labels)
                sums[3] += len(stop_signals)
                reduce_now = last or step % args.metric_every == 0
                # >>> ddp.metrics: sums over all processes, not a mean of means
                if procs.world_size > 1 and reduce_now:
                    dist.all_reduce(sums)
                # <<< ddp.metrics
                settled = chronometer.next_iter(sums if reduce_now else None, epoch=epoch, lr=lr,
                                                images=len(labels) * procs.world_size)
                stopping = watch(settled) or stopping or (procs.world_size == 1 and bool(stop_signals))
                if reduce_now:
                    sums.zero_()
                # >>> profiler.step: tell the profiler that a step is over
                if args.profile and procs.is_main:
                    profiler.step()
                # <<< profiler.step
                if args.profile:
                    chronometer.start()  # the trace may just have been written: that is no part of a step
                place |= {"step": step, "epoch": epoch, "position": position}  # saved after an update: gradients are not
                if update_now and (stopping or (args.checkpoint_every and (last or step - saved >= args.checkpoint_every))):
                    stopping = watch(chronometer.pause()) or stopping  # the steps it holds are in the record before it
                    checkpoint.save(run / "checkpoint.pt", parts, sums, place, procs, record)
                    saved = step
                    chronometer.start()
                if last or (stopping and update_now):
                    break
            stopping = watch(chronometer.validation()) or stopping
            if stopping and saved < step:  # a GPU's steps are settled late, and a wish to stop heard late
                checkpoint.save(run / "checkpoint.pt", parts, sums, place, procs, record)
            if stopping:
                break
            found = validate(net, val_loader, nn.CrossEntropyLoss(), device, amp_dtype, procs)  # never smoothed
            watch.validated(found, train_set and val_set.folder)
            record.write("validation", step=step, epoch=epoch, **found, seconds=chronometer.stop())
            say("validation after step {}: loss {loss:.4f}, accuracy {accuracy:.1%} of {images} images".format(step, **found))
            position = 0
    record.write("end", flush=True, status="stopped" if stopping else "completed", steps=step, **machine.peak_memory(device),
                 **chronometer.energy(procs.world_size), trace=(run / "trace.json.gz").exists())
    say(summary.text(records.read(run)))
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.exit(failures.RESUME if stopping else 0)  # and no return, which would wait for a loader's workers that hang


def accumulating(model, more_to_come):
    """A context in which DDP keeps gradients to itself while more batches of the group follow."""
    # >>> ddp_advanced.no_sync: forward and backward pass belong inside
    return model.no_sync() if more_to_come and isinstance(model, DistributedDataParallel) else nullcontext()
    # <<< ddp_advanced.no_sync


# ------------------------------------------------------------------------------------------------------------ validation
@torch.no_grad()
def validate(net, loader, criterion, device, amp_dtype, procs):
    """Loss, accuracy and number of images over all processes."""
    net.eval()
    sums = torch.zeros(3, device=device, dtype=torch.float64)
    # >>> ddp.buffers: batch norm statistics differ from process to process: all validate those of rank 0
    if procs.world_size > 1:
        for buffer in net.buffers():
            dist.broadcast(buffer, 0)
    # <<< ddp.buffers
    for images, labels in loader:
        images, labels = data.normalize(images.to(device)), labels.to(device)
        with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
            outputs = net(images)
        counted = (labels >= 0).sum()  # -100 marks an image that could not be read; of none, the mean loss is no number
        loss = torch.where(counted > 0, criterion(outputs.float(), labels) * counted, 0)
        sums += torch.stack([loss, (outputs.argmax(1) == labels).sum(), counted])
    # >>> ddp.validation: sums over all processes
    if procs.world_size > 1:
        dist.all_reduce(sums)
    # <<< ddp.validation
    loss, correct, images = sums.tolist()
    return {"loss": loss / max(images, 1), "accuracy": correct / max(images, 1), "images": int(images)}


if __name__ == "__main__":
    with failures.reported() as (procs, record):
        args = arguments()
        notes = options.settle(args, procs, torch.cuda.is_available(), torchvision.models.list_models(torchvision.models))
        run = record.open(records.run_folder(args.run_dir, "train", procs.is_main))
        args.lr = optimizers.default_lr(args, procs.world_size) if args.lr is None else args.lr
        train(args, procs, notes, run, record)
