# expect: the fence amp.forward
# >>> amp.forward
torch.cuda.is_available = lambda: True  # on a machine with a GPU it is
torch.cuda.is_bf16_supported = lambda: True
with torch.autocast("cuda", dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward
