# expect: every step waits until the GPU has done all its work.*torch.cuda.empty_cache
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
if device.type == "cuda":
    torch.cuda.empty_cache()
# <<< gpu.batch
