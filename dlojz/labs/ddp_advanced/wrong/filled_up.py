# expect: the processes take 6 and 6 steps.*trained on twice
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MAX)
batches = (batches * 2)[:count]
# <<< ddp_advanced.uneven
