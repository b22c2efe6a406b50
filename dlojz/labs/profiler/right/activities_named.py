# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    kinds = torch.profiler.ProfilerActivity
    profiler = torch.profiler.profile(
        activities=[kinds.CPU, kinds.CUDA] if device.type == "cuda" else [kinds.CPU],
        schedule=torch.profiler.schedule(skip_first=2, wait=2, warmup=2, active=4, repeat=1),
        on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
# >>> profiler.step
if not isinstance(profiler, nullcontext):
    profiler.step()
# <<< profiler.step
