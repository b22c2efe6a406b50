# >>> amp.dtype
amp_dtype = getattr(torch, {"off": "float32", "bf16": "bfloat16", "fp16": "float16"}[args.amp])
half = args.amp != "off"
scaler = torch.amp.GradScaler(device=device.type, enabled=amp_dtype is torch.float16)
# <<< amp.dtype
# >>> amp.forward
region = torch.amp.autocast(device.type, torch.float16 if args.amp == "fp16" else torch.bfloat16, half)
with region:
    loss = criterion(outputs := model(images), labels)
    scaled = scaler.scale(loss / group)
# <<< amp.forward
# >>> amp.backward
torch.autograd.backward(scaled)
# <<< amp.backward
# >>> amp.update
scaler.unscale_(optimizer)
if args.clip_grad:
    norm = nn.utils.get_total_norm([p.grad for p in net.parameters()])
    nn.utils.clip_grads_with_norm_(net.parameters(), args.clip_grad, norm)
scaler.step(optimizer)
scaler.update()
# <<< amp.update
