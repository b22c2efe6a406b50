# expect: the layer stem.2 \(ReLU\) is giving NCHW
# >>> channels_last.model
if args.channels_last:
    net = net.to(memory_format=torch.channels_last)
    for module in net.modules():
        if isinstance(module, (nn.MaxPool2d, nn.ReLU)):
            module.register_forward_hook(lambda module, inputs, output: output.contiguous())
# <<< channels_last.model
