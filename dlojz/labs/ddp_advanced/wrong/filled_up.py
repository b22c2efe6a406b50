# expect: rank 0 has 8 batches and took 8 steps, .*rank 2 has 4 batches and took 8 steps(.|\n)*no batch is trained on twice
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.all_reduce(count, dist.ReduceOp.MAX)
batches = (batches * 2)[:count]
# <<< ddp_advanced.uneven
