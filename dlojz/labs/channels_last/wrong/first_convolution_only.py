# expect: 2 of 5 weights with 4 dimensions lie as NCHW
# >>> channels_last.model
if args.channels_last:
    next(net.children()).to(memory_format=torch.channels_last)
# <<< channels_last.model
