# expect: rank 0 has 5 batches and took 5 steps.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
# <<< ddp_advanced.uneven
