# expect: invalid device ordinal \(there is no GPU 10 here, there are 3\).*the fence gpu.device
# >>> gpu.device
device = torch.device("cuda", procs.local_rank) if args.device == "cuda" else torch.device("cpu")
# <<< gpu.device
