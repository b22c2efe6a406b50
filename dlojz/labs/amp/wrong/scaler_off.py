# expect: the backward pass begins at the loss as it is \(the scaler is for cpu and switched off\)
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
scaler = torch.amp.GradScaler(device.type, enabled=False)
# <<< amp.dtype
