# expect: rank 0 has 8 batches and took \d steps
# >>> ddp_advanced.uneven
together = model.join(enable=procs.world_size == 1) if procs.world_size > 1 else nullcontext()
# <<< ddp_advanced.uneven
