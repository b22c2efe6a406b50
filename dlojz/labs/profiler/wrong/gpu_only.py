# expect: `activities` leave out the CPU: they are .*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule, gpu = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1), [torch.profiler.ProfilerActivity.CUDA]
    ready = failures.trace_writer(run / "trace.json.gz", record)
    profiler = torch.profiler.profile(activities=gpu, schedule=schedule, on_trace_ready=ready)
# <<< profiler.start
