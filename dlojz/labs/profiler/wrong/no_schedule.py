# expect: the profiler has no schedule: it records each step
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    profiler = torch.profiler.profile(on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
