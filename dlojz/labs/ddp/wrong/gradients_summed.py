# expect: not the mean of the two gradients: it is 2 times that
# >>> ddp.wrap
if procs.world_size > 1:
    def summed(gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient

    for parameter in net.parameters():
        parameter.register_hook(summed)
# <<< ddp.wrap
