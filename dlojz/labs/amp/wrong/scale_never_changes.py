# expect: step 3: the scale is 1 times that of the first step.*backs off.*amp.update
# >>> amp.update
if args.clip_grad:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
scaler.update(2.0**16)
# <<< amp.update
