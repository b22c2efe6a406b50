# expect: without --sync-bn, batch norm is converted(.|\n)*ddp.sync_bn
# >>> ddp.sync_bn
if procs.world_size > 1:
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
# <<< ddp.sync_bn
