# expect: the whole model is converted in every step.*`net.to\(memory_format
# >>> channels_last.model
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:
    net.to(memory_format=torch.channels_last)
    images = images.to(memory_format=torch.channels_last)
# <<< channels_last.batch
