# expect: eleventh process.*weights are on cuda:0 .*cuda:1.*gpu.device
# >>> gpu.device
device = torch.device(args.device, 0)
# <<< gpu.device
