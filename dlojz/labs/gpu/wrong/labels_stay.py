# expect: outputs on cuda:1 with labels on cpu
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
