# expect: the trace goes to trace.json.gz.*in the folder of the run
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=lambda done: done.export_chrome_trace("trace.json.gz"))
# <<< profiler.start
