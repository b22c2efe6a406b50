# expect: --find-unused-parameters[^`]*`: DistributedDataParallel is not told that parameters may be unused(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
# <<< ddp.wrap
