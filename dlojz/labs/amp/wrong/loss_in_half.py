# expect: the loss is computed in bfloat16.*`loss = criterion
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
loss = criterion(outputs, labels)
# <<< amp.forward
