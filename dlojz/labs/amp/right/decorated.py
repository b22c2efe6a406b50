# >>> amp.dtype
amp_dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.amp)
scaler = torch.amp.GradScaler(device.type, enabled=args.amp == "fp16")


@torch.autocast(device.type, dtype=amp_dtype, enabled=args.amp != "off")
def forward_pass(images, labels):
    outputs = model(images)
    return outputs, criterion(outputs, labels)


# <<< amp.dtype
# >>> amp.forward
outputs, loss = forward_pass(images, labels)
# <<< amp.forward
