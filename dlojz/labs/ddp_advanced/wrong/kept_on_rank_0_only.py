# expect: in the backward pass of batch 1, rank 1 sends gradients and rank 0 does not.*the fence ddp_advanced.no_sync
# >>> ddp_advanced.no_sync
keep = more_to_come and isinstance(model, DistributedDataParallel) and dist.get_rank() == 0
return model.no_sync() if keep else nullcontext()
# <<< ddp_advanced.no_sync
