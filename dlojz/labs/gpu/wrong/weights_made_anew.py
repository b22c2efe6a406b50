# expect: weights are others than those that it was made with.*gpu.model
# >>> gpu.model
net = torchvision.models.get_model(args.model, weights=None, num_classes=classes).to(device)
# <<< gpu.model
