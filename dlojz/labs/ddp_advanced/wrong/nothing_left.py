# expect: rank 2 has 4 batches and took 1 step\.(.|\n)*at least 4
# >>> ddp_advanced.uneven
together, batches = nullcontext(), batches[:1]
# <<< ddp_advanced.uneven
