# expect: rank 0 has 8 batches and took \d steps.*the fence ddp_advanced.uneven
# >>> ddp_advanced.uneven
together = nullcontext()
# <<< ddp_advanced.uneven
