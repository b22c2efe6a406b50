# expect: in 24 steps the profiler never hears that a step is over.*the fence profiler.step
# >>> profiler.step
if args.profile and procs.is_main:
    profiler.step
# <<< profiler.step
