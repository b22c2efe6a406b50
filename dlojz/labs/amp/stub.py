# >>> amp.dtype
# TODO: the format of the forward pass (args.amp is "off", "bf16" or "fp16"), and a gradient scaler that is
# enabled where small gradients would vanish without it.
amp_dtype = None
scaler = torch.amp.GradScaler(device.type, enabled=False)
if args.amp != "off":
    todo("amp")
# <<< amp.dtype

# >>> amp.forward
# TODO: the forward pass and the loss under autocast, in the format amp_dtype (None: as they are).
outputs = model(images)
loss = criterion(outputs, labels)
if amp_dtype is not None:
    todo("amp")
# <<< amp.forward

# >>> amp.backward
# TODO: the backward pass from the loss as the scaler scales it. It belongs outside of autocast. What is scaled stays
# loss / group: with --accumulate, `group` batches add up their gradients for one update (else it is 1).
(loss / group).backward()
if scaler.is_enabled():
    todo("amp")
# <<< amp.backward

# >>> amp.update
# TODO: the update by way of the scaler: it skips a step whose gradients overflowed, and finds its next scale.
# Mind that gradients to be clipped must not be scaled any more.
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
if scaler.is_enabled():
    todo("amp")
# <<< amp.update
