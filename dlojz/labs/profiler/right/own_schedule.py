# >>> profiler.start
def plan(number):
    actions = torch.profiler.ProfilerAction
    if number in (3, 4):
        return actions.WARMUP
    return {5: actions.RECORD, 6: actions.RECORD, 7: actions.RECORD_AND_SAVE}.get(number, actions.NONE)


profiler = nullcontext()
if args.profile and procs.is_main:
    profiler = torch.profiler.profile(schedule=plan, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
