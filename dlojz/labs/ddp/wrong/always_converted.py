# expect: SyncBatchNorm
# >>> ddp.sync_bn
net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
# <<< ddp.sync_bn
