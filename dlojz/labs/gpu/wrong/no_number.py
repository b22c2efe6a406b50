# expect: with a specified index.*got:cuda.*the fence gpu.device
# >>> gpu.device
device = torch.device("cuda" if args.device == "cuda" else "cpu")
# <<< gpu.device
