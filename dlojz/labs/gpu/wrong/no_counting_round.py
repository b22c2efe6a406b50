# expect: the process with local_rank 10 takes the GPU 10, which is not there.*counts round.*gpu.device
# >>> gpu.device
device = torch.device("cuda", procs.local_rank) if args.device == "cuda" else torch.device("cpu")
# <<< gpu.device
