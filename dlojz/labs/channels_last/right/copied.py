# >>> channels_last.model
if args.channels_last:
    net = nn.utils.convert_conv2d_weight_memory_format(net, torch.channels_last)
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:
    there = torch.empty_like(images, memory_format=torch.channels_last)
    images = there.copy_(images)
# <<< channels_last.batch
