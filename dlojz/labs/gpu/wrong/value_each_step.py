# expect: every step asks for a value.*labels.max
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
if labels.max().item() >= classes:
    raise ValueError("a label that is no class")
# <<< gpu.batch
