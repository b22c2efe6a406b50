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

# wrong: all on gpu 0 · expect: DistributedDataParallel of rank 0 is given device_ids=\[0\](.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[0] if device.type == "cuda" else None)
# <<< ddp.wrap

# wrong: always converted · expect: SyncBatchNorm
# >>> ddp.sync_bn
net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
# <<< ddp.sync_bn

# wrong: always looks for unused · expect: DistributedDataParallel looks for unused parameters in each step(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None, find_unused_parameters=True)
# <<< ddp.wrap

# wrong: batch norm not converted · expect: given a model with BatchNorm2d(.|\n)*ddp.sync_bn
# >>> ddp.sync_bn
pass
# <<< ddp.sync_bn

# wrong: converted after the wrap · expect: given a model with BatchNorm2d(.|\n)*before it is wrapped
# >>> ddp.sync_bn
pass
# <<< ddp.sync_bn
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    if args.sync_bn:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
# <<< ddp.wrap

# wrong: converted for several · expect: without --sync-bn, batch norm is converted(.|\n)*ddp.sync_bn
# >>> ddp.sync_bn
if procs.world_size > 1:
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
# <<< ddp.sync_bn

# wrong: epoch not told · expect: the second epoch deals out the images in the order of the first(.|\n)*ddp.epoch
# >>> ddp.epoch
pass
# <<< ddp.epoch

# wrong: epoch of its own · expect: in epoch 0: rank 0 tells its sampler the epochs \[0, 1\], rank 1 \[1, 2\](.|\n)*ddp.epoch
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch + procs.rank)
# <<< ddp.epoch

# wrong: epoch told to rank 0 · expect: both read \d+ of the images in epoch 1: rank 0 tells its sampler(.|\n)*ddp.epoch
# >>> ddp.epoch
if procs.world_size > 1 and procs.is_main:
    sampler.set_epoch(epoch)
# <<< ddp.epoch

# wrong: everyone prints · expect: rank 1 prints `epoch 0`(.|\n)*print
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch)
    print(f"epoch {epoch}")
# <<< ddp.epoch

# wrong: everyone saves · expect: rank 1 saves a file, too(.|\n)*torch.save
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch)
    torch.save(net.state_dict(), run / f"epoch{epoch}.pt")
# <<< ddp.epoch

# wrong: filled up · expect: 16 images are filled up to 18: 2 of them(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, seed=args.seed)
# <<< ddp.sampler

# wrong: gloo on gpus · expect: backend of the process group is gloo(.|\n)*it is nccl
# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group("gloo")
# <<< ddp.init

# wrong: gpu by rank · expect: DistributedDataParallel of rank 0 is given device_ids=\[0\](.|\n)*local rank, its number on this node, is 2(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[procs.rank] if device.type == "cuda" else None,
                                    find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap

# wrong: gradients summed · expect: not the mean of the two gradients: it is 2 times that
# >>> ddp.wrap
if procs.world_size > 1:
    def summed(gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient

    for parameter in net.parameters():
        parameter.register_hook(summed)
# <<< ddp.wrap

# wrong: half of the images · expect: 8 of 16 images are read by none(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, num_replicas=2 * procs.world_size, rank=procs.rank, seed=args.seed)
# <<< ddp.sampler

# wrong: joins alone · expect: stops with ValueError(.|\n)*the fence ddp.init
# >>> ddp.init
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
# <<< ddp.init

# wrong: joins by local rank · expect: rank 1 joins the process group as number 0(.|\n)*ddp.init
# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", rank=procs.local_rank, world_size=procs.world_size)
# <<< ddp.init

# wrong: mean of means · expect: as the (loss|accuracy) after step 2;(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    mean = sums / sums[2]
    dist.all_reduce(mean)
    sums = mean / procs.world_size
# <<< ddp.metrics

# wrong: metrics by rank 0 · expect: rank \d waits in (.|\n)*rank \d(.|\n)*all processes reach the same collectives(.|\n)*dist.all_reduce\(sums\)
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now and procs.is_main:
    dist.all_reduce(sums)
# <<< ddp.metrics

# wrong: metrics for rank 0 · expect: rank 1 has .* as the loss after step 2(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    dist.reduce(sums, 0)
# <<< ddp.metrics

# wrong: metrics of one · expect: rank 0 has .* as the loss after step 2 \(its own alone\)(.|\n)*ddp.metrics
# >>> ddp.metrics
pass
# <<< ddp.metrics

# wrong: metrics of two · expect: with three processes, rank \d has .* after step \d(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now and procs.rank < 2:
    theirs = torch.empty_like(sums)
    for sender in range(2):
        if procs.rank == sender:
            dist.send(sums, 1 - sender)
        else:
            dist.recv(theirs, sender)
    sums += theirs
# <<< ddp.metrics

# wrong: metrics without the last · expect: rank 0 has .* as the loss after step 2 \(its own alone\)(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and step % args.metric_every == 0:
    dist.all_reduce(sums)
# <<< ddp.metrics

# wrong: net is wrapped too · expect: the checkpoint has names such as `module\.(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    net = model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None,
                                          find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap

# wrong: never comes back · expect: rank 0 waits in line \d+ for rank 1, which is still in line \d+(.|\n)*Where to look: line \d+ .*while procs.rank == 1
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch)
    while procs.rank == 1:
        pass
# <<< ddp.epoch

# wrong: no group · expect: rank 0 joins no process group(.|\n)*the fence ddp.init
# >>> ddp.init
pass
# <<< ddp.init

# wrong: not shuffled · expect: order of the first|in which they lie
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, shuffle=False)
# <<< ddp.sampler

# wrong: not wrapped · expect: each updates its parameters with the gradient of its own batch alone(.|\n)*ddp.wrap
# >>> ddp.wrap
pass
# <<< ddp.wrap

# wrong: part by local rank · expect: both read the same 8 images in epoch 0(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, procs.world_size, procs.local_rank, seed=args.seed, drop_last=True)
# <<< ddp.sampler

# wrong: parts by chance · expect: both read \d+ of the images in epoch 0(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    chance = torch.Generator().manual_seed(args.seed + procs.rank)
    sampler = RandomSampler(train_set, num_samples=len(train_set) // procs.world_size, generator=chance)
    sampler.set_epoch = lambda epoch: chance.manual_seed(args.seed + procs.rank + 100 * epoch)
# <<< ddp.sampler

# wrong: parts for two · expect: with three processes, 16 images|stops with ValueError: Invalid rank(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, num_replicas=2, rank=procs.rank % 2, seed=args.seed, drop_last=True)
# <<< ddp.sampler

# wrong: reads all · expect: both read the same 16 images(.|\n)*ddp.sampler
# >>> ddp.sampler
pass
# <<< ddp.sampler

# wrong: seed forgotten · expect: --seed 7 deals out the images in the order of the default seed(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, drop_last=True)
# <<< ddp.sampler

# wrong: statistics forgotten · expect: all validate with 0.0000 as a running mean that was(.|\n)*ddp.buffers
# >>> ddp.buffers
for module in net.modules():
    if isinstance(module, nn.BatchNorm2d):
        module.reset_running_stats()
# <<< ddp.buffers

# wrong: statistics from itself · expect: rank \d waits in `\w+` \(line \d+\) for rank \d, which waits, too(.|\n)*dist.broadcast\(buffer
# >>> ddp.buffers
if procs.is_main and procs.world_size > 1:
    for buffer in net.buffers():
        dist.broadcast(buffer, procs.rank)
# <<< ddp.buffers

# wrong: statistics of its own · expect: each validates with the running means and variances of its own batches(.|\n)*ddp.buffers
# >>> ddp.buffers
pass
# <<< ddp.buffers

# wrong: statistics of the largest · expect: running means that are in some places those of one process(.|\n)*ddp.buffers
# >>> ddp.buffers
if procs.world_size > 1:
    for buffer in net.buffers():
        dist.all_reduce(buffer, dist.ReduceOp.MAX)
# <<< ddp.buffers

# wrong: statistics summed · expect: all validate with -?[\d.]+ as a running mean that was -?[\d.]+ and -?[\d.]+ when training paused(.|\n)*ddp.buffers
# >>> ddp.buffers
if procs.world_size > 1:
    for buffer in net.buffers():
        dist.all_reduce(buffer)
# <<< ddp.buffers

# wrong: summed each step · expect: as the (loss|accuracy) after step 2;(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1:
    dist.all_reduce(sums)
# <<< ddp.metrics

# wrong: todo left · expect: `todo\("ddp"\)` is still called.*says that ddp is not written yet.*Where to look: line \d+ .*`todo\("ddp"\)`
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    dist.all_reduce(sums)
if procs.world_size > 1 and reduce_now:
    todo("ddp")
# <<< ddp.metrics

# wrong: unused parameters forgotten · expect: --find-unused-parameters[^`]*`: DistributedDataParallel is not told that parameters may be unused(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
# <<< ddp.wrap

# wrong: unwrapped again · expect: each updates its parameters with the gradient of its own batch alone
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None).module
# <<< ddp.wrap

# wrong: validation averaged · expect: rank 0 says that it has validated 1 images(.|\n)*ddp.validation
# >>> ddp.validation
if procs.world_size > 1:
    dist.all_reduce(sums)
    sums /= procs.world_size
# <<< ddp.validation

# wrong: validation of one · expect: rank 0 says that it has validated 2 images; it has looked at 2, both together at 3(.|\n)*ddp.validation
# >>> ddp.validation
pass
# <<< ddp.validation

# wrong: weights handed out · expect: each updates its parameters with the gradient of its own batch alone
# >>> ddp.wrap
if procs.world_size > 1:
    def same_weights(*_):
        for parameter in net.parameters():
            dist.broadcast(parameter.data, 0)

    net.register_forward_pre_hook(same_weights)
# <<< ddp.wrap
