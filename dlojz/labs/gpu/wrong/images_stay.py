# expect: images that the model is given are on cpu.*gpu.batch
# >>> gpu.batch
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
