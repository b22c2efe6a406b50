# expect: rank \d waits in `\w+` \(line \d+\) for rank \d, which waits, too(.|\n)*dist.broadcast\(buffer
# >>> ddp.buffers
if procs.is_main and procs.world_size > 1:
    for buffer in net.buffers():
        dist.broadcast(buffer, procs.rank)
# <<< ddp.buffers
