# expect: 8 of 16 images are read by none(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, num_replicas=2 * procs.world_size, rank=procs.rank, seed=args.seed)
# <<< ddp.sampler
