# expect: after gradients had overflowed, the scale is the same
# >>> amp.update
if args.clip_grad:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
scaler.update(2.0**16)
# <<< amp.update
