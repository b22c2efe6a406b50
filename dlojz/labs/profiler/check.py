"""profiler: with --profile the main process traces a few settled steps, once, and hears of each step; without it, nothing."""

from dlojz.labs.checking import claim, expect

STEPS, MOST, SETTLED = 20, 10, 2  # steps of the lab's own run; most steps in a trace; steps that come before it
DONE = 12  # steps before a run is resumed
WATCH = ["layers", "told", "profiling"]  # the training's steps and losses are the same in the kit's run, too
START, STEP = "profiler.start", "profiler.step"


def check(probe):
    table(probe.beside("", observe=WATCH), "without --profile no profiler is made, and with it one, in the main process alone")
    profiled = f"--profile --data random --test-steps {STEPS}"
    alone = probe.beside(profiled, observe=WATCH)
    resumed = probe.beside(f"--profile --data random --test-steps {STEPS + DONE} --resume", observe=WATCH,
                           resumed_at={"step": DONE, "epoch": 0, "position": DONE}, when=f"resumed after {DONE} steps")
    # Two batches an update: steps are batches. A second process, on a node of its own: only one traces.
    two = probe.beside("--profile --accumulate 2 --device cpu", observe=[*WATCH, "replicas"], ranks=2, local_ranks=[0, 0],
                       solved=["ddp", "ddp_advanced"])
    two.may_differ("ended.trace")  # a schedule of one's own may be longer than these 4 steps
    for both in (alone, two, resumed):
        table(both, "the profiler hears of each step once, also where an update takes several")
    for both in (alone, resumed):
        both.holds(traced)
    alone.says("a trace is written once, to trace.json.gz in the run's folder, of a few steps that others came before")
    resumed.says("a resumed run leaves its trace, too")
    probe.unverified.append(f"that a run of fewer than {STEPS} steps leaves a trace as well")
    if probe.gpus:
        gpu = probe.beside(f"{profiled} --device cuda", observe=WATCH, solved=["gpu"])
        table(gpu, "kernels of the GPU are in the trace, beside the operators of the CPU")
        gpu.holds(kernels)
    else:
        probe.unverified.append("that the kernels of a GPU are traced: this machine has none")


def table(both, verified):
    both.same("profiler.made.missing", look=START, saw="no profiler is made",
              expected="with --profile a `torch.profiler.profile` goes with the loop")
    both.same("profiler.made.extra", look=START, saw=unasked,
              expected="one, where --profile asks for it, in the process that writes the record: `procs.is_main`")
    both.same("profiler.made.operators", look=START, saw="it sees no operators, since its `activities` are {activities}",
              expected="CPU is among them, and CUDA on a GPU; without `activities=` torch takes both")
    both.same("profiler.unready", look=lambda each: each.facts.first("profiler.made"),
              saw="what the profiler calls when the trace is ready stops with {kind}: {message}",
              expected="`on_trace_ready` is given something that takes one argument, the profiler, and writes its trace")
    both.same("profiler.step", look=STEP, saw=heard, expected="it hears once in each step, so for each batch", claim=verified)


def unasked(each):
    if each.facts is not each.facts.ranks[0]:
        return "this process makes a profiler, too, and its trace goes to the same file"
    return "a profiler is made without --profile, and profiling is not free" if "--profile" not in each.facts.command else \
        "a second profiler is made"


def heard(each):
    here, steps = (len(each.facts.all("profiler.step", **which)) for which in ({"step": each.step}, {}))
    return f"the profiler hears {here} times that this step is over, and {steps} times in the whole run"


@claim("the run leaves its trace", look=START)
def traced(run):
    made, traces, ran = run.need("profiler.made"), run.all("profiler.trace"), f"{run.said}: "
    actions = [step.action for step in run.all("profiler.step")]
    warm = made.warmup if made.warmup is not None else actions.count("warmup")
    expect(made.scheduled, look=made, expected="it waits for some steps, warms up, and records a few",
           saw=f"{ran}the profiler has no schedule: it records each step, from the first to the last")
    expect(made.handler, look=made, expected="something is called with the profiler when the trace is ready, and writes it",
           saw=f"{ran}nobody is told when the trace is ready, so it is thrown away")
    expect(warm > 0 or not any(action.startswith("record") for action in actions), look=made,
           expected="at least one step of warm-up before what is recorded",
           saw=f"{ran}the profiler begins to record without a warm-up: its own start is then part of the first recorded step")
    expect("record_and_save" in actions, look=made, expected=f"a run of {STEPS} steps, the lab's own, is long enough for a trace",
           saw=f"{ran}no trace is ready after {STEPS} steps: the schedule ends later")
    expect(traces, look=made, expected="the trace is written when it is ready",
           saw=f"{ran}steps are recorded, but no trace is exported")
    expect(len(traces) == 1, look=made, expected="one trace a run: the schedule need not begin again",
           saw=f"{ran}{len(traces)} traces are exported, each over the one before")
    expect(made.repeat in (None, 1), look=made, expected="one trace a run: `repeat=1`",
           saw=f"after wait, warmup and active the schedule begins again (`repeat` is {made.repeat}): in a longer run each trace "
               "is written over the one before")
    path = traces[0].path
    expect(run.need("ended").trace and path.startswith("/"), look=made,
           expected="it is in the folder of the run, `run`, and is called trace.json.gz: that is where the views look",
           saw=f"{ran}the trace goes to {path.rpartition('/')[2]}" + ("" if path[0] == "/" else ", where the job was submitted"))
    expect(len(traces[0].steps) <= MOST, look=made, saw=f"{ran}the trace holds {len(traces[0].steps)} steps",
           expected=f"a few steps, {MOST} at most: they are all alike, and a trace of them soon has hundreds of megabytes")
    begun = min(traces[0].steps, default=SETTLED)
    expect(begun >= SETTLED, look=made, expected="let the first steps pass before you record",
           saw=f"{ran}the trace begins in step {begun + 1} of the run, when what happens only once is still going on")


@claim("both sides are in the trace, what the CPU asked for and what the GPU did", look=START)
def kernels(run):
    kinds = run.need("profiler.trace").kinds
    return "kernel" not in kinds and ("on a GPU the trace holds no kernels", run.first("profiler.made"))
