# expect: without --non-blocking the host goes on while a tensor of shape \[4\].*`labels = 
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=True)
# <<< gpu.batch
