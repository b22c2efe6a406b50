# expect: the trace begins in step 2 of the run
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
