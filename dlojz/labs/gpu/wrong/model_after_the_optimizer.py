# expect: the optimizer is made when the model's weights are on cpu.*the fence gpu.model
# >>> gpu.model
# <<< gpu.model
# >>> gpu.batch
if step == 0:
    model.to(device)
images, labels = images.to(device, non_blocking=args.non_blocking), labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
