# expect: given images that lie as NCHW
# >>> channels_last.batch
if args.channels_last:
    images.to(memory_format=torch.channels_last)
# <<< channels_last.batch
