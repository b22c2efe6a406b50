# expect: without --channels-last the images lie as NHWC
# >>> channels_last.batch
images = images.to(memory_format=torch.channels_last)
# <<< channels_last.batch
