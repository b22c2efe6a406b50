# expect: rank 0 has 8 batches and took \d steps, rank 1 has 6 batches and took
# >>> ddp_advanced.uneven
batches, together = batches[:5], nullcontext()
# <<< ddp_advanced.uneven
