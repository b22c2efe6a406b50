# expect: the model is on the cpu, autocast is switched on for cuda
# >>> amp.forward
with torch.autocast("cuda", dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward
