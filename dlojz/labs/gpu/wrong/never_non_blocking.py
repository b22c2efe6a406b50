# expect: with --non-blocking the host waits for the copy of a tensor of shape \[4, 3, 32, 32\].*`images = 
# >>> gpu.batch
images = images.to(device)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
