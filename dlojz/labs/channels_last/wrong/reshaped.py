# expect: step 1: the images that the model is given are not those that the loader gave.*channels_last.batch
# >>> channels_last.batch
if args.channels_last:
    n, c, h, w = images.shape
    images = images.reshape(n, h, w, c).permute(0, 3, 1, 2)
# <<< channels_last.batch
