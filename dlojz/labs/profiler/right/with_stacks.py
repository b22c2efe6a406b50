# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    profiler = torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=4, warmup=2, active=3, repeat=1), with_stack=True, profile_memory=True,
        on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
