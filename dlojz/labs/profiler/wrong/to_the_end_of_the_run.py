# expect: the trace holds 1\d steps, to the end of the run
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=1, active=1000, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
