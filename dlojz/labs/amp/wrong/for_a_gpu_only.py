# expect: computes in float32; the autocast around it is for cuda.*amp.forward
# >>> amp.forward
with torch.autocast("cuda", dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward
