# expect: the images go to the GPU as float32.*one byte.*`images = 
# >>> gpu.batch
images = images.float().to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
