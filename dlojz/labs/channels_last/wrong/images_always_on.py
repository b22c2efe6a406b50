# expect: train.py --device cpu`, step 1: the model is given images that lie as NHWC.*channels_last.batch
# >>> channels_last.batch
images = images.to(memory_format=torch.channels_last)
# <<< channels_last.batch
