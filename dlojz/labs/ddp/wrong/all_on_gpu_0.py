# expect: --device cuda --sync-bn.*(stops with|is on)(.|\n)*ddp
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[0] if device.type == "cuda" else None)
# <<< ddp.wrap
