# expect: step 1: the images that the model is given are not those that the loader gave.*channels_last.batch
# >>> channels_last.batch
if args.channels_last:
    n, c, h, w = images.shape
    images = images.as_strided((n, c, h, w), (c * h * w, 1, w * c, c))
# <<< channels_last.batch
