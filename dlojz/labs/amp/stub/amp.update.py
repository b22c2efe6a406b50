# TODO: the update by way of the scaler: it skips a step whose gradients overflowed, and finds its next scale.
# Mind that gradients to be clipped must not be scaled any more.
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
if scaler.is_enabled():
    todo("amp")
