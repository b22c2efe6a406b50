# right: as on cuda
# >>> amp.forward
# What cross_entropy under autocast comes down to on a GPU: logarithms in half precision, their mean in float32.
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    with torch.autocast(device.type, enabled=False):
        logarithms = outputs.log_softmax(1)
    loss = nn.functional.nll_loss(logarithms.float(), labels)
# <<< amp.forward

# right: by hand
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

# right: clipped by hand
# >>> amp.update
scaler.unscale_(optimizer)
if args.clip_grad:
    gradients = [parameter.grad for parameter in net.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_((args.clip_grad / (norm + 1e-6)).clamp(max=1))
scaler.step(optimizer)
scaler.update()
# <<< amp.update

# right: clipped to nothing
# >>> amp.update
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad or float("inf"))
scaler.step(optimizer)
scaler.update()
# <<< amp.update

# right: decorated
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

# right: scaled gradient
# >>> amp.backward
(loss / group).backward(gradient=scaler.scale(torch.ones_like(loss)))
# <<< amp.backward
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad * scaler.get_scale())
scaler.step(optimizer)
scaler.update()
# <<< amp.update

# right: scaled inside
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

# wrong: backward inside · expect: autocast is on while the backward pass runs.*the fence amp.forward
# >>> amp.forward
with torch.autocast(device.type, dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
    scaler.scale(loss / group).backward()
# <<< amp.forward
# >>> amp.backward

# <<< amp.backward

# wrong: clipped before unscaling · expect: clipped before they were unscaled \(scale 65536\).*`nn.utils.clip_grad_norm_
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
    scaler.unscale_(optimizer)
scaler.step(optimizer)
scaler.update()
# <<< amp.update

# wrong: for a gpu only · expect: computes in float32; the autocast around it is for cuda.*amp.forward
# >>> amp.forward
with torch.autocast("cuda", dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward

# wrong: group forgotten · expect: apart from the scale, the loss is multiplied by 1 .*the number of batches.*`scaler.scale\(loss\)
# >>> amp.backward
scaler.scale(loss).backward()
# <<< amp.backward

# wrong: loss not scaled · expect: `backward\(\)` starts from the unscaled loss.*amp.backward
# >>> amp.backward
(loss / group).backward()
# <<< amp.backward
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
# <<< amp.update

# wrong: optimizer steps itself · expect: gradients that the optimizer gets is .*6.55e\+04 times.*unscaled.*`optimizer.step\(\)`
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
scaler.update()
# <<< amp.update

# wrong: scaler with bf16 · expect: --amp bf16.*the scaler is switched on.*`scaler = 
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
scaler = torch.amp.GradScaler(device.type, enabled=args.amp != "off")
# <<< amp.dtype

# wrong: todo left · expect: `todo\("amp"\)` is still called.*says that amp is not written yet.*Where to look: line \d+ .*`todo\("amp"\)`
# >>> amp.update
if args.clip_grad:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
scaler.update()
if scaler.is_enabled():
    todo("amp")
# <<< amp.update

# wrong: weights halved · expect: weights of the model are float16.*`net.half\(\)`
# >>> amp.dtype
amp_dtype = {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[args.amp]
scaler = torch.amp.GradScaler(device.type, enabled=amp_dtype is torch.float16)
if amp_dtype is torch.float16:
    net.half()
# <<< amp.dtype

# wrong: for the cpu only · expect: --amp bf16.*--device cuda.*computes in float32; the autocast around it is for cpu.*amp.forward
# >>> amp.forward
with torch.autocast("cpu", dtype=amp_dtype, enabled=amp_dtype is not None):
    outputs = model(images)
    loss = criterion(outputs, labels)
# <<< amp.forward

# wrong: scaler made each step · expect: step 3: the scale is 1 times that of the first step.*backs off.*the fence amp.backward
# >>> amp.backward
scaler = torch.amp.GradScaler(device.type, enabled=args.amp == "fp16")
scaler.scale(loss / group).backward()
# <<< amp.backward

# wrong: schedule steps too · expect: step 3: the schedule of the learning rate takes one step too many.*the fence amp.update
# >>> amp.update
if args.clip_grad:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
scaler.update()
scheduler.step()
# <<< amp.update

# wrong: clipped by value · expect: gradients are clipped by value.*so that the norm is the limit.*the fence amp.update
# >>> amp.update
if args.clip_grad:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
scaler.update()
# <<< amp.update

# wrong: divided in one of two branches · expect: --accumulate 3 --clip-grad 0.1 --device cpu`, step 1: .*multiplied by 0.1111.*the fence amp.forward
# >>> amp.forward
if args.amp != "off":
    with torch.autocast(device.type, dtype=amp_dtype):
        outputs = model(images)
        loss = criterion(outputs, labels)
else:
    outputs = model(images)
    loss = criterion(outputs, labels) / group
# <<< amp.forward

# wrong: clipped batch by batch · expect: 0.1, as it should be, but their direction is not(.|\n)*the fence amp.backward
# >>> amp.backward
scaler.scale(loss / group).backward()
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
# <<< amp.backward
