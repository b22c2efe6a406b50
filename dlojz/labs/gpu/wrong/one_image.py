# expect: the shape of a batch is \[1, 3, 32, 32\].*\[4, 3, 32, 32\].*gpu.batch
# >>> gpu.batch
images = images[:1].to(device, non_blocking=args.non_blocking)
labels = labels[:1].to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
