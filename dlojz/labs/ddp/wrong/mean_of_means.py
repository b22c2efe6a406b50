# expect: as the (loss|accuracy) after step 2;(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    mean = sums / sums[2]
    dist.all_reduce(mean)
    sums = mean / procs.world_size
# <<< ddp.metrics
