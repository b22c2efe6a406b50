# expect: without --profile there is a profiler all the same
# >>> profiler.start
profiler = nullcontext()
if procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
# >>> profiler.step
if procs.is_main:
    profiler.step()
# <<< profiler.step
