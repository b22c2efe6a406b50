# expect: `todo\("ddp"\)` is still called.*says that ddp is not written yet.*Where to look: line \d+ .*`todo\("ddp"\)`
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    dist.all_reduce(sums)
if procs.world_size > 1 and reduce_now:
    todo("ddp")
# <<< ddp.metrics
