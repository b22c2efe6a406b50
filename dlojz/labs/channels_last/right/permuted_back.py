# >>> channels_last.model
if args.channels_last:
    net = net.to(memory_format=torch.channels_last)
# <<< channels_last.model
# >>> channels_last.batch
if args.channels_last:  # lies as NHWC, is shown as NCHW
    images = images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
# <<< channels_last.batch
