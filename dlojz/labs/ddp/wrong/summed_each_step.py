# expect: as the (loss|accuracy) after step 2;(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1:
    dist.all_reduce(sums)
# <<< ddp.metrics
