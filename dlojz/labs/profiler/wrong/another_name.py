# expect: AttributeError.*the fence profiler.step
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    tracer = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
