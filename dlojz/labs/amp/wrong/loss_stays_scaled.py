# expect: --amp fp16.*step 1: the loss goes into the record as .*the variable `loss` stays
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
loss = scaler.scale(loss)
# <<< amp.forward
# >>> amp.backward
(loss / group).backward()
# <<< amp.backward
