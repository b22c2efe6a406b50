# >>> gpu.batch
images, labels = images.to(device, non_blocking=args.non_blocking), labels.to(device, non_blocking=args.non_blocking)
if step % 2 == 1:
    print("labels of this batch:", labels.cpu().tolist(), "brightness", images.float().mean().item())
# <<< gpu.batch
