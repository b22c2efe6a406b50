# expect: weights are on cuda:0 .*cuda:1.*the fence gpu.model
# >>> gpu.model
net = net.to("cuda:0" if args.device == "cuda" else "cpu")
# <<< gpu.model
