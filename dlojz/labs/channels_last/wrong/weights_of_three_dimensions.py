# expect: stops with RuntimeError.*the fence channels_last.model
# >>> channels_last.model
if args.channels_last:
    for parameter in net.parameters():
        parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
# <<< channels_last.model
