# TODO: with --profile, trace a few steps that are neither the first ones nor many, in one process: trace.json.gz in the folder `run`.
profiler = nullcontext()
if args.profile:
    todo("profiler")
