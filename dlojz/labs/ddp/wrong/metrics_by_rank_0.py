# expect: rank \d waits in (.|\n)*rank \d(.|\n)*all processes reach the same collectives(.|\n)*dist.all_reduce\(sums\)
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now and procs.is_main:
    dist.all_reduce(sums)
# <<< ddp.metrics
