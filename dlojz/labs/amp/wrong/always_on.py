# expect: `train.py --clip-grad 0.5 --device cpu`: the convolutions compute in bfloat16
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward
