# expect: takes the GPU 3, which is not there.*gpu.device
# >>> gpu.device
device = torch.device("cuda", procs.local_rank // torch.cuda.device_count()) if args.device == "cuda" else torch.device("cpu")
# <<< gpu.device
