# expect: weights are others than those that it was made with.*channels_last.model
# >>> channels_last.model
if args.channels_last:
    net = torchvision.models.get_model(args.model, weights=None, num_classes=classes).to(device, memory_format=torch.channels_last)
# <<< channels_last.model
