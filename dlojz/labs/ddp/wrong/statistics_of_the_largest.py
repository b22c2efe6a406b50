# expect: running means that come from one process in some places(.|\n)*ddp.buffers
# >>> ddp.buffers
if procs.world_size > 1:
    for buffer in net.buffers():
        dist.all_reduce(buffer, dist.ReduceOp.MAX)
# <<< ddp.buffers
