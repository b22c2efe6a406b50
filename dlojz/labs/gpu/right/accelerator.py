# >>> gpu.device
device = torch.device("cpu")
if args.device == "cuda":
    torch.cuda.set_device(procs.local_rank % torch.cuda.device_count())
    device = torch.device(torch.accelerator.current_accelerator().type, torch.cuda.current_device())
# <<< gpu.device
# >>> gpu.model
with torch.no_grad():
    net = net.to(device, non_blocking=True)
# <<< gpu.model
# >>> gpu.batch
batch = {"images": images, "labels": labels}
batch = {name: tensor.to(next(net.parameters()).device, non_blocking=args.non_blocking) for name, tensor in batch.items()}
images, labels = batch["images"], batch["labels"]
# <<< gpu.batch
