# expect: autocast is on while the backward pass runs.*the fence amp.forward
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
    scaler.scale(loss / group).backward()
# <<< amp.forward
# >>> amp.backward

# <<< amp.backward
