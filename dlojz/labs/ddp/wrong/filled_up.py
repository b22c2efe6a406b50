# expect: 16 images are filled up to 18: 2 of them(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, seed=args.seed)
# <<< ddp.sampler
