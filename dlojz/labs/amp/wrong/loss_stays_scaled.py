# expect: --amp fp16.*step 1: the loss is .* and goes into the record as .*amp.backward
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
loss = scaler.scale(loss)
# <<< amp.forward
# >>> amp.backward
(loss / group).backward()
# <<< amp.backward
