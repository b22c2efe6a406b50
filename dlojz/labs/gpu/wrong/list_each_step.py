# expect: every step asks for a value.*labels.tolist
# >>> gpu.batch
images, labels = (tensor.to(device, non_blocking=args.non_blocking) for tensor in (images, labels))
seen = labels.tolist()
# <<< gpu.batch
