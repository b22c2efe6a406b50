# expect: in one step the profiler hears 2 times that a step is over
# >>> profiler.step
if args.profile and procs.is_main:
    profiler.step()
    profiler.step()
# <<< profiler.step
