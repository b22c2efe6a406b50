"""profiler: with --profile one process traces a few settled steps, once; it hears of each step; without the switch, nothing."""

import gzip
import json
from collections import Counter
from pathlib import Path

from dlojz.labs.checking import expect

STEPS, MOST, SETTLED = 24, 10, 2  # steps of the run; most steps in a trace; steps that come before it
WATCH = ["layers", "profiling"]
RECORDS = ("record", "record_and_save")


def check(probe):
    run = probe.run(f"--profile --data random --test-steps {STEPS}", observe=WATCH)
    other = probe.call("train.py", "another_rank", "a second process (rank 1) of `train.py --profile`", observe=WATCH)
    plain = probe.run("", observe=WATCH)
    is_made_where_asked_for(run, plain)
    for each in (run, plain):
        each.finish()
    no_other_makes_one(other)
    probe.verified.append("with --profile the main process makes a profiler, and no other; without it none is made")
    hears_of_each_step(run)
    probe.verified.append("the profiler hears of each step once")
    traces_a_few_steps(run)
    probe.verified.append("a trace is written once, to trace.json.gz in the run's folder, of a few steps that others came before")
    if probe.gpus:
        sees_kernels(probe)
    else:
        probe.unverified.append("that the kernels of a GPU are traced: this machine has none")
    probe.unverified.append(f"that a run of fewer than {STEPS} steps leaves a trace as well")


def is_made_where_asked_for(run, plain):
    expect(run.first("profiler.made") or not run.completed,
           saw=f"`{run.command}` makes no profiler",
           expected="with --profile a `torch.profiler.profile` goes with the loop",
           look="profiler.start")
    made = run.need("profiler.made")
    expect("cpu" in made.activities,
           saw=f"the profiler's `activities` leave out the CPU: they are {' and '.join(made.activities) or 'none at all'}",
           expected="CPU is among them, and CUDA on a GPU, or operators are not seen; without `activities=` torch takes both",
           look=made)
    unasked = plain.first("profiler.made")
    expect(unasked is None,
           saw="without --profile there is a profiler all the same, and profiling is not free",
           expected="a profiler only where --profile asks for one",
           look=unasked)
    # The line that stops is the one that tells the profiler of a step, and what is at fault is called from there.
    failed = run.first("profiler.unready")
    expect(failed is None,
           saw=f"`{run.command}`: what the profiler is to call when the trace is ready stops with {failed and failed.kind}: "
               f"{failed and failed.message}",
           expected="`on_trace_ready` is given something that takes one argument, the profiler, and writes its trace",
           look=made)


def no_other_makes_one(other):
    other.need("trained")
    second = other.first("profiler.made") or other.first("profiler.step")
    expect(second is None,
           saw="a second process (rank 1) profiles, too, and its trace goes to the same file",
           expected="one process traces, the one that writes the record: `procs.is_main`",
           look=second)


def hears_of_each_step(run):
    made, heard = run.need("profiler.made"), run.all("profiler.step")
    expect(made.scheduled,
           saw="the profiler has no schedule: it records each step, from the first to the last",
           expected="it waits for some steps, warms up, and records a few",
           look=made)
    expect(made.handler,
           saw="nobody is told when the trace is ready, so it is thrown away",
           expected="something is called with the profiler when the trace is ready, and writes it",
           look=made)
    times = Counter(step.step for step in heard)
    expect(bool(heard),
           saw=f"in {STEPS} steps the profiler never hears that a step is over, so its schedule stands still",
           expected="it hears of it once in each step",
           look="profiler.step")
    expect(len(heard) >= STEPS,
           saw=f"in {STEPS} steps the profiler hears {len(heard)} times that a step is over",
           expected="it hears of it once in each step",
           look=heard and heard[-1])
    often = next((step for step in heard if times[step.step] > 1), None)
    expect(often is None,
           saw=f"in one step the profiler hears {often and times[often.step]} times that a step is over, so it counts too many",
           expected="it hears of it once in each step",
           look=often)


def traces_a_few_steps(run):
    made, traces = run.need("profiler.made"), run.all("profiler.trace")
    actions = [step.action for step in run.all("profiler.step")]
    recorded = sum(action in RECORDS for action in actions)
    warm = made.warmup if made.warmup is not None else actions.count("warmup")
    expect(warm > 0 or not recorded,
           saw="the profiler begins to record without a step to warm up: its own start is then part of the first recorded step",
           expected="at least one step of warm-up before what is recorded",
           look=made)
    expect(recorded > 0,
           saw=f"`{run.command}`: the profiler records nothing, its schedule begins later than step {STEPS}",
           expected=f"a run of {STEPS} steps is long enough for a trace",
           look=made)
    expect(bool(traces),
           saw=f"`{run.command}`: steps are recorded, but no trace is exported",
           expected="the trace is written when it is ready",
           look=made)
    expect(len(traces) == 1,
           saw=f"`{run.command}`: {len(traces)} traces are exported, each over the one before",
           expected="one trace a run: the schedule need not begin again",
           look=made)
    expect(made.repeat in (None, 1),
           saw=f"after wait, warmup and active the schedule begins again (`repeat` is {made.repeat}): in a run that is longer "
               f"than these {STEPS} steps, such as one of 50, each trace is written over the one before",
           expected="one trace a run: `repeat=1`",
           look=made)
    path, steps_at = Path(traces[0].path), {(step.file, step.line) for step in run.all("profiler.step")}
    by_torch = (traces[0].file, traces[0].line) in steps_at  # a handler of torch's own: no line of the file exports
    expect(path.is_absolute() and (path.parent / "trace.json.gz").is_file(),
           saw=f"the trace goes to {path if not path.is_absolute() else path.name}",
           expected="it is in the folder of the run, `run`, and is called trace.json.gz: that is where the views look for it",
           look=made if by_torch else traces[0])
    steps = traced(path.parent / "trace.json.gz")[0]
    expect(len(steps) <= MOST,
           saw=f"the trace holds {len(steps)} steps, to the end of the run",
           expected=f"a few steps, {MOST} at most: they are all alike, and a trace of them soon has hundreds of megabytes",
           look=made)
    expect(min(steps, default=SETTLED) >= SETTLED,
           saw=f"the trace begins in step {min(steps, default=0) + 1} of the run, when what happens only once is still going on",
           expected="let the first steps pass before you record",
           look=made)


def sees_kernels(probe):
    run = probe.run(f"--profile --data random --test-steps {STEPS} --device cuda", observe=WATCH)
    if "cpu" in run.need("model").devices:
        probe.unverified.append("that kernels are traced: the model stays on the CPU, the lab gpu is not solved in this file")
        return
    kinds = traced(Path(run.need("profiler.trace").path).parent / "trace.json.gz")[1]
    expect("kernel" in kinds and "cpu_op" in kinds,
           saw=f"on a GPU the trace holds {'no kernels' if 'kernel' not in kinds else 'kernels alone'}",
           expected="both sides, what the CPU asked for and what the GPU did",
           look=run.first("profiler.made"))
    probe.verified.append("operators of the CPU and kernels of the GPU are in it")


def traced(file: Path) -> tuple[list[int], set[str]]:
    """The steps in a trace, counted from 0, and the kinds of events."""
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    marks = {event["name"] for event in events if str(event.get("name")).startswith("ProfilerStep#")}
    return sorted(int(mark.partition("#")[2]) for mark in marks), {event.get("cat") for event in events}
