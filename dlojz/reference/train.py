"""Train an image classification model of torchvision. This is the file you will make fast.

    python train.py --test                                   50 steps on images that the kit makes itself, then a short validation
    python train.py --data random --test                     no images to read: what the device alone can do
    python train.py --data /path/to/imagenet -e 90           folders train/CLASS/*.jpg and val/CLASS/*.jpg
    torchrun --nproc-per-node 4 train.py --test              four processes; `srun python train.py` on a cluster does the same

The defaults are a plain, slow, correct loop. Each switch is a technique, in lines of its own between `# >>>` and `# <<<`.
What a run measured is in record.jsonl in its folder (--run-dir, else $DLOJZ_RUN, else a new runs/train-NNN).
Exit codes: 0, 2 wrong usage, 75 stopped by a signal with a checkpoint (continue with --resume), else 1; torchrun's own is then 1.
"""

import argparse
from contextlib import nullcontext
from pathlib import Path

import augment
import optimizers
import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

from dlojz import Training, data, sites, todo  # noqa: F401
from dlojz.training import activation_checkpointing, distributed, failures, flops, options, records


# ---------------------------------------------------------------------------------------------------------- arguments
def arguments(argv=None):
    size = sites.sizes()  # what is sensible on this machine: see `dlojz sites`
    parser = options.Parser(description=__doc__.split("\n")[0], epilog=__doc__.strip().split("\n")[-1], allow_abbrev=False)
    add, switch = parser.add_argument, argparse.BooleanOptionalAction
    add("--model", default=size.model, help="a classification model of torchvision (%(default)s)")
    add("--data", default="photos", help="a folder with train/ and val/, cifar10, or made by the kit: photos, tiny, random")
    add("--image-size", type=int, default=size.image_size, help="pixels (%(default)s)")
    add("-b", "--batch-size", type=int, default=size.batch_size, help="images per process and step (%(default)s)")
    add("-e", "--epochs", type=int, default=1)
    add("--lr", type=float, help="learning rate (from the optimizer and the images of an update)")
    add("--wd", type=float, default=1e-4, help="weight decay")
    add("--decay", choices=["all", "weights"], default="all", help="of all parameters, or without norms and biases")
    add("--mom", type=float, default=0.9, help="momentum")
    add("--optimizer", choices=optimizers.NAMES, default="sgd")
    add("--fused", action="store_true", help="update all parameters in one kernel")
    add("--schedule", choices=optimizers.SCHEDULES, default="constant")
    add("--warmup", type=int, default=0, metavar="N", help="updates in which the learning rate rises to --lr")
    add("--find-lr", action="store_true", help="try learning rates on a copy of model and optimizer, before the training")
    add("--label-smoothing", type=float, default=0.0)
    add("--augment", choices=augment.NAMES, default="none", help="how to augment the training images (see augment.py)")
    add("--progressive", action="store_true", help="begin with images of half the size")
    add("--alpha", type=float, help="for mixup and CutMix: lambda is drawn from Beta(alpha, alpha) (defaults 0.2 and 1)")
    add("--seed", type=int, default=1)
    add("--test", action="store_true", help="stop after --test-steps, then a short validation")
    add("--test-steps", type=int, default=50)
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--tf32", action="store_true", help="let float32 products round to TensorFloat-32 on the tensor cores")
    add("--amp", choices=["off", "bf16", "fp16"], default="off", help="automatic mixed precision")
    add("--clip-grad", type=float, metavar="NORM", help="scale the gradient down to this norm")
    add("--channels-last", action="store_true", help="keep images and weights as NHWC in memory")
    add("--compile", nargs="?", const="default", metavar="MODE", choices=options.COMPILE_MODES, help="torch.compile")
    add("--compile-blocks", action="store_true", help="compile each of the model's blocks by itself: what repeats, once")
    add("--num-workers", type=int, default=0, help="processes that load images; 0: the training process itself")
    add("--persistent-workers", action=switch, default=False, help="keep them between epochs")
    add("--pin-memory", action=switch, default=False, help="put batches into page-locked memory")
    add("--non-blocking", action=switch, default=False, help="copy to the device without waiting")
    add("--prefetch-factor", type=int, help="batches that each worker prepares ahead")
    add("--drop-last", action=switch, default=False, help="leave out the last, smaller batch")
    add("--sync-bn", action="store_true", help="batch norm over the images of all processes")
    add("--find-unused-parameters", action="store_true", help="for models that do not use all parameters in every step")
    add("--accumulate", type=int, default=1, metavar="N", help="update once in N batches")
    add("--metric-every", type=int, default=1, metavar="N", help="sum loss and accuracy over processes every N steps")
    add("--profile", action="store_true", help="write a torch.profiler trace of a few steps")
    add("--checkpoint-activations", action="store_true", help="compute activations again in the backward pass")
    add("--checkpoint-every", type=int, metavar="N", help="save every N steps and at the end of each epoch")
    add("--resume", action="store_true", help="resume from the checkpoint in the run's folder, if it exists")
    add("--run-dir", help="where the record, checkpoint and trace go")
    add("--chronometer", action=switch, default=True, help="time the phases of each step")
    parser.set_defaults(**data.defaults(parser.parse_args(argv).data))  # a small model where images have 32 pixels
    args = parser.parse_args(argv)
    args.switches = {name: value for name, value in vars(args).items() if value != parser.get_default(name)}
    return args


# ----------------------------------------------------------------------------------------------------------- training
def train(args: argparse.Namespace, procs: distributed.Processes, notes: list[str], run: Path | None, record: records.Writer):
    """Train and validate in the folder ``run`` (None: rank 0 knows it), and end the process with exit code 0, or 75 when stopped.

    A batch: images, uint8 (batch, 3, size, size), with labels, int64 (batch,), or after mixing float32 (batch, classes).
    Raises UsageError where data, model or checkpoint do not fit ``args``; StopTraining where the loss stays NaN or infinite.
    """
    torch.manual_seed(args.seed)
    training = Training(procs, record, failures.catch_signals())

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
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", device_id=device if device.type == "cuda" else None)
    # <<< ddp.init
    run = record.open(distributed.same_everywhere(run))

    # ------------------------------------------------------------------------------------------------------------ data
    if args.data == "random":
        train_set, classes = None, 1000
        train_loader = data.random_batches(args.batch_size, args.image_size, classes, 100, device, seed=procs.rank)
        val_loader = data.random_batches(args.batch_size, args.image_size, classes, 5, device, seed=-1 - procs.rank)
    else:
        repeat = sites.sizes().photos_repeat if args.data == "photos" else 1
        train_set = data.dataset(args.data, "train", args.image_size, args.seed, repeat, augment.of_image(args))
        val_set = data.dataset(args.data, "val", args.image_size)
        classes = len(train_set.classes)
        sampler = RandomSampler(train_set, generator=(order := torch.Generator()))
        # >>> ddp.sampler: each process reads its own part
        if procs.world_size > 1:
            sampler = DistributedSampler(train_set, seed=args.seed, drop_last=True)  # or it fills up with images twice
        # <<< ddp.sampler
        sampler = data.Resumable(sampler, train_set, order, args.seed)
        # >>> dataloader: processes that prepare batches ahead, in memory that a GPU can fetch from by itself
        loading = {"num_workers": args.num_workers, "prefetch_factor": args.prefetch_factor, "pin_memory": args.pin_memory,
                   "persistent_workers": args.persistent_workers}
        # <<< dataloader
        loading |= {"batch_size": args.batch_size, "worker_init_fn": failures.leave_signals_to_trainer,
                    "generator": torch.Generator()}  # their own, so that they draw nothing from the model's random numbers
        train_loader = DataLoader(train_set, sampler=sampler, drop_last=args.drop_last, **loading,
                                  collate_fn=augment.in_loader(args, classes, procs.rank))
        val_loader = DataLoader(data.part(val_set, procs, 5 * args.batch_size if args.test else None), **loading)
    steps_per_epoch = len(train_loader)
    epoch_lengths = options.epoch_lengths(args, steps_per_epoch, train_set and len(sampler), notes)
    total_steps = sum(epoch_lengths)

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
    if args.compile and args.compile_blocks:
        for block in activation_checkpointing.blocks(net):
            block.compile(mode=args.compile, dynamic=False)  # else the second kind of block is compiled for any size
    elif args.compile:
        model = torch.compile(model, mode=args.compile)
    # <<< compile
    mixer = augment.on_device(args, classes, procs.rank)
    smoothing = 0.0 if args.augment in augment.ALPHA else args.label_smoothing  # soft labels come smoothed
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    # >>> optimizers.make: an optimizer of groups, and a schedule that lasts as long as there are updates
    groups = [{"params": list(net.parameters()), "weight_decay": args.wd}]
    if args.decay == "weights":
        groups = optimizers.parameter_groups(net, args.wd)
    optimizer = optimizers.make_optimizer(args.optimizer, groups, args.lr, args.mom, args.fused)
    updates = options.updates(args, epoch_lengths)  # the last group of an epoch may be smaller
    scheduler = optimizers.make_schedule(args.schedule, optimizer, args.lr, updates, args.warmup)
    # <<< optimizers.make
    # >>> amp.dtype: the format of the forward pass, and a scaler where small gradients would vanish
    amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
    scaler = torch.amp.GradScaler(device.type, enabled=amp_dtype is torch.float16)
    # <<< amp.dtype

    parts = {"model": net, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    sums = torch.zeros(3, device=device)  # loss x images, correct, images: on the device, so that nothing waits
    chronometer = training.begin(args, run, device, epoch_lengths, parts, sums, notes, steps_per_epoch=steps_per_epoch,
                                 parameters=sum(p.numel() for p in net.parameters()), epoch_images=train_set and len(train_set),
                                 flops_per_image=flops.per_image(args, classes, device))
    if args.find_lr:
        training.swept(find_lr(net, optimizer, train_loader, criterion, device, amp_dtype))
    step, position = training.step, training.position  # of the training, of the epoch: 0, or those of the checkpoint
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
    with profiler:
        for epoch in range(training.epoch, len(epoch_lengths)):
            model.train()
            if train_set is not None:
                sampler.begin(epoch, position * args.batch_size)  # at image 0, or where a resumed run stopped
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
                images = augment.shrunk(data.normalize(images), args, step, total_steps)
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
                    scale = scaler.get_scale()  # 1 without fp16; reading it waits for the GPU
                    # >>> amp.update: unscale, then clip, then step
                    if args.clip_grad:
                        scaler.unscale_(optimizer)
                        nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
                    scaler.step(optimizer)
                    scaler.update()
                    # <<< amp.update
                    optimizer.zero_grad(set_to_none=True)
                    # >>> optimizers.step: one step for each update that was made, and none for one that the scaler skipped
                    if scaler.get_scale() >= scale:  # it is lowered where gradients were infinite
                        scheduler.step()
                    # <<< optimizers.step

                sums[0] += loss.detach() * len(labels)
                sums[1] += (outputs.argmax(1) == augment.dominating(labels)).sum()
                sums[2] += len(labels)
                reduce_now = last or step % args.metric_every == 0
                # >>> ddp.metrics: sums over all processes, not a mean of means
                if procs.world_size > 1 and reduce_now:
                    dist.all_reduce(sums)
                # <<< ddp.metrics
                total = sums if reduce_now else None
                settled = chronometer.next_iter(total, epoch=epoch, lr=lr, images=len(labels) * procs.world_size)
                # >>> profiler.step: tell the profiler that a step is over
                if args.profile and procs.is_main:
                    profiler.step()
                # <<< profiler.step
                training.step_done(settled, sums, reduced=reduce_now, updated=update_now)
                if training.should_save():
                    training.save()
                if last or (training.stop and update_now):
                    break
            training.epoch_done(chronometer.validation())
            if training.stop:
                break
            with torch.compiler.set_stance("force_eager") if args.compile else nullcontext():  # too short to be compiled for
                found = validate(net, val_loader, nn.CrossEntropyLoss(), device, amp_dtype, procs)  # never smoothed
            training.validated(found, train_set and val_set.folder)
            position = 0
    training.end()


def accumulating(model: nn.Module, more_to_come: bool):
    """A context in which DDP keeps gradients to itself while more batches of the group follow."""
    # >>> ddp_advanced.no_sync: forward and backward pass belong inside
    return model.no_sync() if more_to_come and isinstance(model, DistributedDataParallel) else nullcontext()
    # <<< ddp_advanced.no_sync


def find_lr(net, optimizer, loader, criterion, device, amp_dtype):
    """A sweep of learning rates over the images of ``loader``: a list of (rate, loss). Model, optimizer and what is random stay
    as they are."""
    def loss_of(net, batch):
        images, labels = data.normalize(batch[0].to(device)), batch[1].to(device)
        with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
            return criterion(net(images), labels)

    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        return optimizers.find_lr(net, optimizer, data.endless(loader), loss_of)


# ------------------------------------------------------------------------------------------------------------ validation
@torch.no_grad()
def validate(net: nn.Module, loader: DataLoader | data.random_batches, criterion: nn.Module, device: torch.device,
             amp_dtype: torch.dtype | None, procs: distributed.Processes) -> dict[str, float]:
    """``loss`` per image, ``accuracy`` (0 to 1) and number of ``images`` (0: none can be read) over the batches of all processes.

    All processes call. Batches are those of `train`; one that died raises RuntimeError in the others.
    """
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
