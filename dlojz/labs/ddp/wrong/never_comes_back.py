# expect: rank 0 waits in line \d+ for rank 1, which is still in line \d+(.|\n)*Where to look: line \d+ .*while procs.rank == 1
# >>> ddp.epoch
if procs.world_size > 1:
    sampler.set_epoch(epoch)
    while procs.rank == 1:
        pass
# <<< ddp.epoch
