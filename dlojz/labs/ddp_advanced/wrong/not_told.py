# expect: Expected to have finished reduction.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    model = DistributedDataParallel(net)
# <<< ddp_advanced.unused
