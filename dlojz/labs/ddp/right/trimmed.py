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
