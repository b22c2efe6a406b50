# expect: stops with RuntimeError.*graph has changed.*the fence ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    model = DistributedDataParallel(net, static_graph=True)
# <<< ddp_advanced.unused
