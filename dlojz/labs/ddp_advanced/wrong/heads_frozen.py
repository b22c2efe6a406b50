# expect: step \d: \d+ parameters have no gradient(.|\n)*whichever head it is(.|\n)*ddp_advanced.unused
# >>> ddp_advanced.unused
model = net
if procs.world_size > 1:
    for head in net.heads[1:]:
        head.requires_grad_(False)
    model = DistributedDataParallel(net, find_unused_parameters=True)
# <<< ddp_advanced.unused
