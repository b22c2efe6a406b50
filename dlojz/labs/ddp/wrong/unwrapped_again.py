# expect: each updates its parameters with the gradient of its own batch alone
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None).module
# <<< ddp.wrap
