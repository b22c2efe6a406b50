# expect: DistributedDataParallel of rank 0 is given device_ids=\[0\](.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[0] if device.type == "cuda" else None)
# <<< ddp.wrap
