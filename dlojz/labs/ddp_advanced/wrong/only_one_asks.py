# expect: rank . waits in .* for rank ., which
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.is_main and procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MIN)
batches = batches[:count]
# <<< ddp_advanced.uneven
