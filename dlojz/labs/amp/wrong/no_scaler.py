# expect: stops with NameError: name 'scaler'.*the fence amp.dtype
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
# <<< amp.dtype
