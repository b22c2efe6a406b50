# expect: rank 1 was asked to stop, and rank 0 has no word of it after step 2(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    dist.all_reduce(sums[:3])
# <<< ddp.metrics
