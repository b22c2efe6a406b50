# TODO: the format of the forward pass (args.amp is "off", "bf16" or "fp16"), and a gradient scaler that is
# enabled where small gradients would vanish without it.
amp_dtype = None
scaler = torch.amp.GradScaler(device.type, enabled=False)
if args.amp != "off":
    todo("amp")
