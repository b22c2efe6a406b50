# expect: both read the same 8 images in epoch 0(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, procs.world_size, procs.local_rank, seed=args.seed, drop_last=True)
# <<< ddp.sampler
