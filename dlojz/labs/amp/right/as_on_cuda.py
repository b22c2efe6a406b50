# >>> amp.forward
# What cross_entropy under autocast comes down to on a GPU: logarithms in half precision, their mean in float32.
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    with torch.autocast(device.type, enabled=False):
        logarithms = outputs.log_softmax(1)
    loss = nn.functional.nll_loss(logarithms.float(), labels)
# <<< amp.forward
