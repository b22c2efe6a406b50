# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    images = sums[2].clone()
    dist.all_reduce(images)
    sums *= procs.world_size / images  # averages, each with the weight of its images
    dist.all_reduce(sums)
    sums *= images / procs.world_size
# <<< ddp.metrics
# >>> ddp.buffers
if procs.world_size > 1:
    for buffer in net.buffers():
        mean = buffer.double()
        dist.all_reduce(mean)
        buffer.copy_(mean / procs.world_size)
# <<< ddp.buffers
