# expect: found at least two devices.*the fence gpu.batch
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
