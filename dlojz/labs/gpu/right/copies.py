# >>> gpu.model
for tensor in [*net.parameters(), *net.buffers()]:
    tensor.data = tensor.data.to(device=device)
# <<< gpu.model
# >>> gpu.batch
images = torch.empty_like(images, device=device).copy_(images, non_blocking=args.non_blocking)
labels = torch.empty_like(labels, device=device).copy_(labels, args.non_blocking)
if step % 1000 == 999:
    print("the largest label is", labels.max().item())
# <<< gpu.batch
