# expect: DistributedDataParallel of rank 0 is given device_ids=\[0\](.|\n)*local rank, its number on this node, is 2(.|\n)*ddp.wrap
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[procs.rank] if device.type == "cuda" else None,
                                    find_unused_parameters=args.find_unused_parameters)
# <<< ddp.wrap
