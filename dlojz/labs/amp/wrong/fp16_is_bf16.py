# expect: --amp fp16.*\(Conv2d\) computes in bfloat16
# >>> amp.forward
with torch.autocast(device.type, dtype=torch.bfloat16, enabled=args.amp != "off"):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward
