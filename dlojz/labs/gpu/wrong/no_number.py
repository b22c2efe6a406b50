# expect: `cuda` without a number.*gpu.device
# >>> gpu.device
device = torch.device("cuda" if args.device == "cuda" else "cpu")
# <<< gpu.device
