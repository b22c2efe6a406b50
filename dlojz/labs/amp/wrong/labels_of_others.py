# expect: the labels that the loss compares with are not those of the images.*`loss = 
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels.flip(0))
# <<< amp.forward
