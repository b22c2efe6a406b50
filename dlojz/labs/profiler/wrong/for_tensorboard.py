# expect: the trace goes to \S+pt.trace.json.*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=torch.profiler.tensorboard_trace_handler(run))
# <<< profiler.start
