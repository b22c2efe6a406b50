# expect: all validate with -?[\d.]+ as a running mean that was -?[\d.]+ and -?[\d.]+ when training paused(.|\n)*ddp.buffers
# >>> ddp.buffers
if procs.world_size > 1:
    for buffer in net.buffers():
        dist.all_reduce(buffer)
# <<< ddp.buffers
