# expect: the loader gives 4 images and the model gets 1.*gpu.batch
# >>> gpu.batch
images = images[:1].to(device, non_blocking=args.non_blocking)
labels = labels[:1].to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
