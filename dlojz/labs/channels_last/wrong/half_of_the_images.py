# expect: step 1: the images have the shape \[2, 3, 32, 32\].*channels_last.batch
# >>> channels_last.batch
if args.channels_last:
    images, labels = images[::2].to(memory_format=torch.channels_last), labels[::2]
# <<< channels_last.batch
