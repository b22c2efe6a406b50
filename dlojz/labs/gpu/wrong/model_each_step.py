# expect: the model is moved in every step.*`net.to\(device\)
# >>> gpu.model
net.to(device)
# <<< gpu.model
# >>> gpu.batch
net.to(device)
images, labels = images.to(device, non_blocking=args.non_blocking), labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
