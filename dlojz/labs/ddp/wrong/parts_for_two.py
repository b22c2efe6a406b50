# expect: with three processes, 16 images|stops with ValueError: Invalid rank(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, num_replicas=2, rank=procs.rank % 2, seed=args.seed, drop_last=True)
# <<< ddp.sampler
