# expect: the schedule begins again \(`repeat` is 0\).*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=10, warmup=2, active=8)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
