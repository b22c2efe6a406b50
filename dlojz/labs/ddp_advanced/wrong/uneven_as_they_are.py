# expect: rank 0 has 4 batches and took 4 steps.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
# <<< ddp_advanced.uneven
