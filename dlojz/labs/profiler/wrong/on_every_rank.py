# expect: a second process \(rank 1\) profiles, too
# >>> profiler.start
profiler = nullcontext()
if args.profile:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
# >>> profiler.step
if args.profile:
    profiler.step()
# <<< profiler.step
