# expect: `todo\("profiler"\)` is still called.*says that profiler is not written yet.*Where to look: line \d+ .*`todo\("profiler"\)`
# >>> profiler.start
profiler, left = nullcontext(), total_steps - step
if args.profile and procs.is_main and left:
    active = max(1, min(5, left - 1))  # fewer where fewer will run, so that there is a trace all the same
    warmup = min(3, left - active)
    schedule = torch.profiler.schedule(wait=min(5, left - active - warmup), warmup=warmup, active=active, repeat=1)
    ready = failures.trace_writer(run / "trace.json.gz", record)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=ready, record_shapes=True)  # sizes tell bytes, FLOPs
if args.profile:
    todo("profiler")
# <<< profiler.start
