# expect: the images are float32 before they are normalized.*one byte
# >>> channels_last.batch
if args.channels_last:
    images = images.to(torch.float32, memory_format=torch.channels_last)
# <<< channels_last.batch
