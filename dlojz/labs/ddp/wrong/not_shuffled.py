# expect: order of the first|in which they lie
# >>> ddp.sampler
if procs.world_size > 1:
    sampler = DistributedSampler(train_set, shuffle=False)
# <<< ddp.sampler
