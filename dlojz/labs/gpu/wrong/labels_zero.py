# expect: labels that the loss compares with are not those.*gpu.batch
# >>> gpu.batch
images = images.to(device, non_blocking=args.non_blocking)
labels = torch.zeros_like(labels, device=device)
# <<< gpu.batch
