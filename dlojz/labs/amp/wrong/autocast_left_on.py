# expect: autocast is on while the backward pass runs
# >>> amp.forward
if amp_dtype is not None:
    torch.set_autocast_dtype(device.type, amp_dtype)
    torch.set_autocast_enabled(device.type, True)
outputs = model(images)
loss = criterion(outputs, labels)
# <<< amp.forward
