# >>> profiler.start
# TODO: with --profile, trace a few steps that are neither the first ones nor many, in one process: trace.json.gz in the folder `run`.
profiler = nullcontext()
if args.profile:
    todo("profiler")
# <<< profiler.start

# >>> profiler.step
# TODO: tell the profiler that a step is over.
# <<< profiler.step
