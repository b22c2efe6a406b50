# >>> gpu.model
state = net.state_dict()
with torch.device(device):
    net = torchvision.models.get_model(args.model, weights=None, num_classes=classes, **switches.for_model(args))
net.load_state_dict(state)
# <<< gpu.model
# >>> gpu.batch
images, labels = images.to(device.type, non_blocking=args.non_blocking), labels.to(device, labels.dtype, args.non_blocking)
# <<< gpu.batch
