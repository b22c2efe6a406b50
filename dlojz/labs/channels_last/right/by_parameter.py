# >>> channels_last.model
if args.channels_last:
    for parameter in net.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:
    images = images.contiguous(memory_format=torch.channels_last)
# <<< channels_last.batch
