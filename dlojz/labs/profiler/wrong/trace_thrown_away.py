# expect: nobody is told when the trace is ready, so it is thrown away
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule)
# <<< profiler.start
