# expect: every step asks for a value.*`print\("labels", labels\)`
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
print("labels", labels)
# <<< gpu.batch
