# >>> amp.dtype
amp_dtype, scaler = None, None
if args.amp == "bf16":
    amp_dtype = torch.bfloat16
if args.amp == "fp16":
    amp_dtype = torch.float16
    scaler = torch.amp.GradScaler(device.type, init_scale=2.0**12)
scaler = scaler or torch.amp.GradScaler(device.type, enabled=False)
# <<< amp.dtype
# >>> amp.forward
if amp_dtype is None:
    outputs = model(images)
else:
    with torch.autocast(device_type=device.type, dtype=amp_dtype):
        outputs = model(images)
loss = criterion(outputs.float(), labels)
# <<< amp.forward
# >>> amp.backward
if scaler.is_enabled():
    scaler.scale(loss / group).backward()
else:
    (loss / group).backward()
# <<< amp.backward
# >>> amp.update
if scaler.is_enabled():
    scaler.unscale_(optimizer)
if args.clip_grad:
    torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
if scaler.is_enabled():
    scaler.step(optimizer)
    scaler.update()
else:
    optimizer.step()
# <<< amp.update
