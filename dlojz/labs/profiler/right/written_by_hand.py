# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.rank == 0:
    profiler = torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1), record_shapes=True,
        on_trace_ready=lambda done: done.export_chrome_trace(str(run / "trace.json.gz")))
# <<< profiler.start
# >>> profiler.step
if hasattr(profiler, "step"):
    profiler.step()
# <<< profiler.step
