# expect: the processes take 1 and 1 steps.*at least 4
# >>> ddp_advanced.uneven
together, batches = nullcontext(), batches[:1]
# <<< ddp_advanced.uneven
