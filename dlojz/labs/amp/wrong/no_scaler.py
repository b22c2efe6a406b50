# expect: stops with .*scaler.*the fences of amp, and what the rest of the file needs
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
# <<< amp.dtype
