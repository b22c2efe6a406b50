# expect: steps are recorded, but no trace is exported
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=lambda done: print(done.key_averages().table(row_limit=5)))
# <<< profiler.start
