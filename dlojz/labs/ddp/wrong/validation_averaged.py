# expect: rank 0 says that it has validated 1 images(.|\n)*ddp.validation
# >>> ddp.validation
if procs.world_size > 1:
    dist.all_reduce(sums)
    sums /= procs.world_size
# <<< ddp.validation
