# expect: running means that are in some places those of one process(.|\n)*ddp.buffers
# >>> ddp.buffers
if procs.world_size > 1:
    for buffer in net.buffers():
        dist.all_reduce(buffer, dist.ReduceOp.MAX)
# <<< ddp.buffers
