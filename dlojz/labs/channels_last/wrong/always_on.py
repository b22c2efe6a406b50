# expect: train.py --device cpu`, .*weights.* lie as NHWC.*channels_last.model
# >>> channels_last.model
net = net.to(memory_format=torch.channels_last)
# <<< channels_last.model
