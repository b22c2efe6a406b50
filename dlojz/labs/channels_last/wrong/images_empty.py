# expect: step 1: the images that the model is given are not those that the loader gave.*channels_last.batch
# >>> channels_last.batch
if args.channels_last:
    images = torch.empty_like(images, memory_format=torch.channels_last)
# <<< channels_last.batch
