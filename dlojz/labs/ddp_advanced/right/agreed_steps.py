# >>> ddp_advanced.unused
model = DistributedDataParallel(net, find_unused_parameters=True) if dist.is_initialized() else net
# <<< ddp_advanced.unused
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, op=dist.ReduceOp.MIN)
del batches[int(count):]
# <<< ddp_advanced.uneven
