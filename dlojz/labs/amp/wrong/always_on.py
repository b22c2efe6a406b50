# expect: `train.py --clip-grad 0.5 --device cpu`, step 1: the layer stem.0 \(Conv2d\) computes in bfloat16.*amp.forward
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward
