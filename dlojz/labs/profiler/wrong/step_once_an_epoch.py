# expect: in 24 steps the profiler hears 1 times that a step is over
# >>> profiler.step
if args.profile and procs.is_main and last:
    profiler.step()
# <<< profiler.step
