# >>> ddp.wrap
if procs.world_size > 1:
    def mean_of_all(gradient):
        gradient = gradient / procs.world_size
        dist.all_reduce(gradient)
        return gradient

    for parameter in net.parameters():
        dist.broadcast(parameter.data, 0)
        parameter.register_hook(mean_of_all)
# <<< ddp.wrap
# >>> ddp.metrics
if reduce_now and dist.is_initialized():
    dist.reduce(sums, dst=0)
    dist.broadcast(sums, src=0)
# <<< ddp.metrics
