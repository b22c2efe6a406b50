# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = labels.to(device, non_blocking=args.non_blocking)
brightness = images.float().mean()  # other formats, on the GPU: nothing comes back
share = nn.functional.one_hot(labels, classes).half().mean(0)
# <<< gpu.batch
