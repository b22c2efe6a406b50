# expect: weights are on cuda:2 .*cuda:1.*gpu.device
# >>> gpu.device
number = min(procs.local_rank, torch.cuda.device_count() - 1)
device = torch.device("cuda", number) if args.device == "cuda" else torch.device("cpu")
# <<< gpu.device
