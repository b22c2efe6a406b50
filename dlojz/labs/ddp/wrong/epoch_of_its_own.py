# expect: in epoch 0: rank 0 tells its sampler the epochs \[0, 1\], rank 1 \[1, 2\](.|\n)*ddp.epoch
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch + procs.rank)
# <<< ddp.epoch
