# expect: given a model with BatchNorm2d(.|\n)*before it is wrapped
# >>> ddp.sync_bn
pass
# <<< ddp.sync_bn
# >>> ddp.wrap
if procs.world_size > 1:
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    if args.sync_bn:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
# <<< ddp.wrap
