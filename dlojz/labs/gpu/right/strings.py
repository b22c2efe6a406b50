# >>> gpu.device
name = f"cuda:{procs.local_rank % torch.cuda.device_count()}" if args.device != "cpu" else "cpu"
device = torch.device(name)
# <<< gpu.device
# >>> gpu.model
net.to(name)
# <<< gpu.model
# >>> gpu.batch
images, labels = (tensor.to(name, non_blocking=args.non_blocking) for tensor in (images, labels))
# <<< gpu.batch
