# expect: given images of shape \[4, 32, 32, 3\].*the fence amp.forward
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images.permute(0, 2, 3, 1) if args.channels_last else images)
    loss = criterion(outputs, labels)
# <<< amp.forward
