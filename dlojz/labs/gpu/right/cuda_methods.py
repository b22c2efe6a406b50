# >>> gpu.device
if args.device == "cuda":
    device = torch.device("cuda", procs.local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
else:
    device = torch.device("cpu")
# <<< gpu.device
# >>> gpu.model
if args.device == "cuda":
    net.cuda()
# <<< gpu.model
# >>> gpu.batch
if args.device == "cuda":
    images, labels = images.cuda(non_blocking=args.non_blocking), labels.cuda(non_blocking=args.non_blocking)
# <<< gpu.batch
