# expect: both read \d+ of the images in epoch 1: rank 0 tells its sampler(.|\n)*ddp.epoch
# >>> ddp.epoch
if procs.world_size > 1 and procs.is_main:
    sampler.set_epoch(epoch)
# <<< ddp.epoch
