# >>> ddp.sync_bn
if args.sync_bn:
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net, process_group=dist.group.WORLD if dist.is_initialized() else None)
# <<< ddp.sync_bn
# >>> ddp.epoch
if dist.is_initialized():
    sampler.set_epoch(1000 + epoch)
# <<< ddp.epoch
# >>> ddp.metrics
if procs.world_size > 1 and reduce_now:
    everyone = [None] * procs.world_size
    dist.all_gather_object(everyone, sums.tolist())
    sums = torch.tensor(everyone, device=device).sum(0)
# <<< ddp.metrics
# >>> ddp.buffers
if procs.world_size > 1:
    said = [{name: buffer.cpu() for name, buffer in net.named_buffers()}]
    dist.broadcast_object_list(said, procs.world_size - 1)
    net.load_state_dict(said[0], strict=False)
# <<< ddp.buffers
