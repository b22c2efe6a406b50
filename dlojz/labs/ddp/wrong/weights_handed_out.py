# expect: each updates its parameters with the gradient of its own batch alone
# >>> ddp.wrap
if procs.world_size > 1:
    def same_weights(*_):
        for parameter in net.parameters():
            dist.broadcast(parameter.data, 0)

    net.register_forward_pre_hook(same_weights)
# <<< ddp.wrap
