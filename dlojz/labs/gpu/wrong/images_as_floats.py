# expect: the images that the model is given are not those that the loader gave.*format.*gpu.batch|as float32.*one byte.*`images = 
# >>> gpu.batch
images = images.float().to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
