# expect: rank 0 has 8 batches and took \d steps, rank 1 has 6 batches and took \d steps, rank 2 has 4 batches
# >>> ddp_advanced.uneven: right for two processes, by what --uneven takes from the second
together = nullcontext()
if procs.is_main and args.uneven and procs.world_size > 1:
    batches = batches[:-2]
# <<< ddp_advanced.uneven
