# expect: rank 0 has 8 batches and took \d steps, rank 1 has 6 batches and took \d steps, rank 2 has 4 batches and took 4(.|\n)*ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
count = torch.tensor(len(batches), device=device)
if procs.world_size > 1:
    dist.broadcast(count, 0)
batches = batches[:count]
# <<< ddp_advanced.uneven
