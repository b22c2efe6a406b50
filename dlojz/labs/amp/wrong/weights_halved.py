# expect: weights of the model are float16.*`net.half\(\)`
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
scaler = torch.amp.GradScaler(device.type, enabled=amp_dtype is torch.float16)
if amp_dtype is torch.float16:
    net.half()
# <<< amp.dtype
