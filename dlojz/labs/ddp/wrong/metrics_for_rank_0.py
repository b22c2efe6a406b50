# expect: rank 1 has .* as the loss after step 2(.|\n)*ddp.metrics
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    dist.reduce(sums, 0)
# <<< ddp.metrics
