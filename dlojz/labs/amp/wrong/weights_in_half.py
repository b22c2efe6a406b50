# expect: weights of the model are bfloat16.*`net.to\(amp_dtype\)
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
scaler = torch.amp.GradScaler(device.type, enabled=amp_dtype is torch.float16)
if amp_dtype is not None:
    net.to(amp_dtype)
# <<< amp.dtype
