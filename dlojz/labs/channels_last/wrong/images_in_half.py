# expect: the images are float16 before they are normalized.*one byte
# >>> channels_last.batch
if args.channels_last:
    images = (images / 255).half().to(memory_format=torch.channels_last)
# <<< channels_last.batch
