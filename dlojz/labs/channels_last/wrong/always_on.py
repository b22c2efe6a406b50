# expect: without --channels-last weights of the model lie as NHWC
# >>> channels_last.model
net = net.to(memory_format=torch.channels_last)
# <<< channels_last.model
