# right: activities named
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

# right: own schedule
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

# right: with stacks
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    profiler = torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=4, warmup=2, active=3, repeat=1), with_stack=True, profile_memory=True,
        on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start

# right: written by hand
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

# wrong: half of the training · expect: --resume`, resumed after 12 steps: no trace is ready after 20 steps.*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=total_steps // 2, warmup=2, active=4, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start

# wrong: begins again later · expect: the schedule begins again \(`repeat` is 0\).*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=10, warmup=2, active=8)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start

# wrong: export for a handler · expect: calls when the trace is ready stops with TypeError: .*export_chrome_trace.*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=torch.profiler.profile.export_chrome_trace)
# <<< profiler.start

# wrong: for tensorboard · expect: the trace goes to \S+pt.trace.json.*line \d+ of train.py, `profiler = torch
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=torch.profiler.tensorboard_trace_handler(run))
# <<< profiler.start

# wrong: in another folder · expect: the trace goes to trace.json.gz, where the job was submitted
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=lambda done: done.export_chrome_trace("trace.json.gz"))
# <<< profiler.start

# wrong: no schedule · expect: the profiler has no schedule: it records each step
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    profiler = torch.profiler.profile(on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start

# wrong: on every rank · expect: \(rank 1\)`, before the first step: this process makes a profiler, too
# >>> profiler.start
profiler = nullcontext()
if args.profile:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
# >>> profiler.step
if args.profile:
    profiler.step()
# <<< profiler.step

# wrong: step never called · expect: step 1: the profiler hears 0 times that this step is over, and 0 times.*the fence profiler.step
# >>> profiler.step
if args.profile and procs.is_main:
    profiler.step
# <<< profiler.step

# wrong: step without a profiler · expect: Seen: `train.py` stops with AttributeError.*Expected: it trains.*the fence profiler.step
# >>> profiler.step
profiler.step()
# <<< profiler.step

# wrong: todo left · expect: `todo\("profiler"\)` is still called.*says that profiler is not written yet.*Where to look: line \d+ .*`todo\("profiler"\)`
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

# wrong: trace thrown away · expect: nobody is told when the trace is ready, so it is thrown away
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule)
# <<< profiler.start

# wrong: waits too long · expect: no trace is ready after 20 steps: the schedule ends later
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    schedule = torch.profiler.schedule(wait=15, warmup=3, active=5, repeat=1)
    profiler = torch.profiler.profile(schedule=schedule, on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start

# wrong: stepped by update · expect: --accumulate 2.*step 1: the profiler hears 0 times.*so for each batch.*profiler.step
# >>> profiler.step
if args.profile and procs.is_main and update_now:
    profiler.step()
# <<< profiler.step

# wrong: on every node · expect: \(rank 1\)`, before the first step: this process makes a profiler, too.*the fence profiler.start
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.local_rank == 0:
    profiler = torch.profiler.profile(schedule=torch.profiler.schedule(wait=2, warmup=2, active=3, repeat=1),
                                      on_trace_ready=lambda prof: prof.export_chrome_trace(str(run / "trace.json.gz")))
# <<< profiler.start
# >>> profiler.step
if args.profile and procs.local_rank == 0:
    profiler.step()
# <<< profiler.step

# wrong: other arguments · expect: at the end of the training `args.batch_size` is 1.*as the switches say.*the fence profiler.start
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    args.batch_size = 1  # small traces
    profiler = torch.profiler.profile(schedule=torch.profiler.schedule(wait=2, warmup=2, active=3, repeat=1),
                                      on_trace_ready=lambda prof: prof.export_chrome_trace(str(run / "trace.json.gz")))
# <<< profiler.start

# wrong: one thread · expect: torch's setting `threads` is 1.*as the machine has it.*the fence profiler.start
# >>> profiler.start
profiler = nullcontext()
if args.profile and procs.is_main:
    torch.set_num_threads(1)  # for a trace that is easier to read
    profiler = torch.profiler.profile(schedule=torch.profiler.schedule(wait=5, warmup=3, active=5, repeat=1), record_shapes=True,
                                      on_trace_ready=failures.trace_writer(run / "trace.json.gz", record))
# <<< profiler.start
