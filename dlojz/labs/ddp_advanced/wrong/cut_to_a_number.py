# expect: rank 0 has 4 batches and took 4 steps, rank 1 has 6 and took
# >>> ddp_advanced.uneven
batches, together = batches[:5], nullcontext()
# <<< ddp_advanced.uneven
