# expect: weights are on cpu when the optimizer is made.*the fence gpu.model
# >>> gpu.model
# <<< gpu.model
# >>> gpu.batch
if step == 0:
    model.to(device)
images, labels = images.to(device, non_blocking=args.non_blocking), labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
