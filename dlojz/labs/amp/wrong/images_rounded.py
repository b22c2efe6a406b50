# expect: --amp bf16.*step 1: the images that the model is given are not those.*all digits
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images.to(amp_dtype or torch.float32).float())
    loss = criterion(outputs, labels)
# <<< amp.forward
