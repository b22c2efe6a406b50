# expect: DistributedDataParallel is given a model whose weights lie as NCHW
# >>> channels_last.model
# <<< channels_last.model
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
if args.channels_last:
    model = model.to(memory_format=torch.channels_last)
# <<< ddp.wrap
