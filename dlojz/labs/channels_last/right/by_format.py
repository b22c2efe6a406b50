# >>> channels_last.model
memory_format = torch.channels_last if args.channels_last else torch.preserve_format
net.to(memory_format=memory_format) if args.channels_last else net
# <<< channels_last.model
# >>> channels_last.batch
images = images.to(memory_format=memory_format)
# <<< channels_last.batch
