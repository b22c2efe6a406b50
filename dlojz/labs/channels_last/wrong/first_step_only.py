# expect: step 2: the model is given images that lie as NCHW.*for each step
# >>> channels_last.batch
if args.channels_last and step == 0:
    images = images.to(memory_format=torch.channels_last)
# <<< channels_last.batch
