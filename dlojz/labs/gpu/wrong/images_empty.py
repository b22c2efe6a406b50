# expect: images that the model is given are not those that the loader gave.*gpu.batch
# >>> gpu.batch
images = torch.empty_like(images, device=device)
labels = labels.to(device, non_blocking=args.non_blocking)
# <<< gpu.batch
