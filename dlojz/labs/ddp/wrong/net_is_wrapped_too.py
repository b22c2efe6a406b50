# expect: the checkpoint has names such as `module\.(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    net = model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None,
                                          find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap
