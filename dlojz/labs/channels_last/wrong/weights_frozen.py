# expect: parameters do not ask for gradients.*channels_last.model
# >>> channels_last.model
if args.channels_last:
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            weight = layer.weight.detach().contiguous(memory_format=torch.channels_last)
            layer.weight = nn.Parameter(weight, requires_grad=False)
# <<< channels_last.model
