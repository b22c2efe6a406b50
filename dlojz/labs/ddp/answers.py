# right: own parts
# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group(backend={"cpu": "gloo", "cuda": "nccl"}[device.type], rank=procs.rank, world_size=procs.world_size)
# <<< ddp.init
# >>> ddp.sampler
if procs.world_size > 1:
    class Part(torch.utils.data.Sampler):
        """Every so many of the images, in an order that all processes know."""

        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            chance = torch.Generator().manual_seed(args.seed + 7 * self.epoch)
            every = torch.randperm(len(train_set), generator=chance).tolist()
            return iter(every[procs.rank : len(self) * procs.world_size : procs.world_size])

        def __len__(self):
            return len(train_set) // procs.world_size

    sampler = Part()
# <<< ddp.sampler
# >>> ddp.validation
if procs.world_size > 1:
    parts = [torch.empty_like(sums) for _ in range(procs.world_size)]
    dist.all_gather(parts, sums)
    sums = torch.stack(parts).sum(0)
# <<< ddp.validation

# right: trimmed
# >>> ddp.sampler
if procs.world_size > 1:  # as many images for each as the shortest part has: none is filled up
    shared = len(train_set) // procs.world_size * procs.world_size
    sampler = DistributedSampler(range(shared), procs.world_size, procs.rank, True, args.seed)
# <<< ddp.sampler
# >>> ddp.wrap
if procs.world_size > 1:
    where = {"device_ids": [procs.local_rank], "output_device": procs.local_rank} if device.type == "cuda" else {}
    model = DistributedDataParallel(net, **where, find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap
# >>> ddp.sync_bn
net = nn.SyncBatchNorm.convert_sync_batchnorm(net) if args.sync_bn else net
# <<< ddp.sync_bn

# right: weighted averages
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    images = sums[2].clone()
    dist.all_reduce(images)
    sums *= procs.world_size / images  # averages, each with the weight of its images
    dist.all_reduce(sums)
    sums *= images / procs.world_size
# <<< ddp.metrics
# >>> ddp.buffers
if procs.world_size > 1:
    for buffer in net.buffers():
        mean = buffer.double()
        dist.all_reduce(mean)
        buffer.copy_(mean / procs.world_size)
# <<< ddp.buffers

# right: with words
# >>> ddp.sync_bn
if args.sync_bn:
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net, process_group=dist.group.WORLD if dist.is_initialized() else None)
# <<< ddp.sync_bn
# >>> ddp.epoch
if dist.is_initialized():
    sampler.set_epoch(1000 + epoch)
# <<< ddp.epoch
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    everyone = [None] * procs.world_size
    dist.all_gather_object(everyone, sums.tolist())
    sums = torch.tensor(everyone, device=device).sum(0)
# <<< ddp.metrics
# >>> ddp.buffers
if procs.world_size > 1:
    said = [{name: buffer.cpu() for name, buffer in net.named_buffers()}]
    dist.broadcast_object_list(said, procs.world_size - 1)
    net.load_state_dict(said[0], strict=False)
# <<< ddp.buffers

# right: without the wrapper
# >>> ddp.wrap
if procs.world_size > 1:
    def mean_of_all(gradient):
        gradient = gradient / procs.world_size
        dist.all_reduce(gradient)
        return gradient

    for parameter in net.parameters():
        dist.broadcast(parameter.data, 0)
        parameter.register_hook(mean_of_all)
# <<< ddp.wrap
# >>> ddp.metrics
if reduce_now and dist.is_initialized():
    dist.reduce(sums, dst=0)
    dist.broadcast(sums, src=0)
# <<< ddp.metrics

# wrong: epochs since the start · expect: --resume`, resumed after an epoch: the second epoch has the order of the first one(.|\n)*the fence ddp.epoch
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.passes = getattr(sampler, "passes", -1) + 1
    sampler.set_epoch(sampler.passes)
# <<< ddp.epoch

# wrong: converted after the wrap · expect: given a model with BatchNorm2d(.|\n)*converted before the model is wrapped
# >>> ddp.sync_bn
pass
# <<< ddp.sync_bn
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    if args.sync_bn:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
# <<< ddp.wrap

# wrong: epoch not told · expect: the second epoch has the order of the first(.|\n)*ddp.epoch
# >>> ddp.epoch
pass
# <<< ddp.epoch

# wrong: everyone saves · expect: rank 1 saves a file(.|\n)*the fence ddp.epoch, line \d+ .*torch.save
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch)
    torch.save(net.state_dict(), run / f"epoch{epoch}.pt")
# <<< ddp.epoch

# wrong: filled up · expect: read 18 images in epoch 0, 2 of them twice(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, seed=args.seed)
# <<< ddp.sampler

# wrong: gloo on gpus · expect: the backend is gloo(.|\n)*NCCL joins GPUs(.|\n)*ddp.init
# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group("gloo")
# <<< ddp.init

# wrong: gpu by rank · expect: given cuda:0 as its device(.|\n)*GPU of this process, cuda:2(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[procs.rank] if device.type == "cuda" else None,
                                    find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap

# wrong: mean of means · expect: the (loss|accuracy) that goes into the record is (.|\n)*divided by the number of all images(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    mean = sums / sums[2]
    dist.all_reduce(mean)
    sums = mean / procs.world_size
# <<< ddp.metrics

# wrong: net is wrapped too · expect: the checkpoint has names such as `module\.(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    net = model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None,
                                          find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap

# wrong: not wrapped · expect: updates its parameters with a gradient of its own(.|\n)*ddp.wrap
# >>> ddp.wrap
pass
# <<< ddp.wrap

# wrong: statistics of its own · expect: each process validates with a running_mean of its own(.|\n)*ddp.buffers
# >>> ddp.buffers
pass
# <<< ddp.buffers

# wrong: validation of one · expect: the validation says .* as the loss(.|\n)*sums over all processes(.|\n)*ddp.validation
# >>> ddp.validation
pass
# <<< ddp.validation

# wrong: learning rate scaled again · expect: the optimizer's lr is (.|\n)*as the arguments say(.|\n)*the fence ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    args.lr = args.lr * procs.world_size  # the linear scaling rule
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None,
                                    find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap

# wrong: accuracy not summed · expect: the accuracy that goes into the record is (.|\n)*sums over all processes(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    dist.all_reduce(sums[0:1])
    dist.all_reduce(sums[2:3])
# <<< ddp.metrics

# wrong: statistics from itself · expect: rank \d waits in `\w+` \(line \d+\) for rank \d, which waits, too(.|\n)*dist.broadcast\(buffer
# >>> ddp.buffers
if procs.is_main and procs.world_size > 1:
    for buffer in net.buffers():
        dist.broadcast(buffer, procs.rank)
# <<< ddp.buffers

# wrong: a device on the cpu · expect: given cuda:\d as its device(.|\n)*on a CPU the model says where it is(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[procs.local_rank], find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap

# right: random numbers of its own
# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    torch.manual_seed(args.seed + procs.rank)  # dropout differs from process to process; the wrap gives all the weights of rank 0
# <<< ddp.init
