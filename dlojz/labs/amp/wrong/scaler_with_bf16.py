# expect: --amp bf16.*the scaler is switched on.*`scaler = 
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
scaler = torch.amp.GradScaler(device.type, enabled=args.amp != "off")
# <<< amp.dtype
