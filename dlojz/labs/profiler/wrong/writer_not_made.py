# expect: is to call when the trace is ready stops with TypeError: trace_writer.*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer)
# <<< profiler.start
