# expect: 15 images are filled up to 16: both read 1 of them(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, seed=args.seed)
# <<< ddp.sampler
