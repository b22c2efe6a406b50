# expect: the loader gives 4 images and the model gets 2
# >>> channels_last.batch
if args.channels_last:
    images, labels = images[::2].to(memory_format=torch.channels_last), labels[::2]
# <<< channels_last.batch
