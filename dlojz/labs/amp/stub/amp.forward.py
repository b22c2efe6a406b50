# TODO: the forward pass and the loss under autocast, in the format amp_dtype (None: as they are).
outputs = model(images)
loss = criterion(outputs, labels)
if amp_dtype is not None:
    todo("amp")
