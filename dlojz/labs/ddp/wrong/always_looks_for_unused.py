# expect: DistributedDataParallel looks for unused parameters in each step(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None, find_unused_parameters=True)
# <<< ddp.wrap
