# expect: rank 0 has 4 batches and took 4 steps
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MAX)
batches = batches[:count]
# <<< ddp_advanced.uneven
