# expect: --seed 7 deals out the images in the order of the default seed(.|\n)*ddp.sampler
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, drop_last=True)
# <<< ddp.sampler
