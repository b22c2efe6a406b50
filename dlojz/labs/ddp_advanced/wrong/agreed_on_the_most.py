# expect: rank 0 has 8 batches and took \d steps
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MAX)
batches = batches[:count]
# <<< ddp_advanced.uneven
