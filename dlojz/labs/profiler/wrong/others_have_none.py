# expect: Seen: a second process \(rank 1\) of `train.py --profile` stops with AttributeError.*the fence profiler.step
# >>> profiler.step
if args.profile:
    profiler.step()
# <<< profiler.step
