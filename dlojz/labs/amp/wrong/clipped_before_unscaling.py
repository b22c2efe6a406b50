# expect: clipped while they were still multiplied by the scale, 65536.*`nn.utils.clip_grad_norm_
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
    scaler.unscale_(optimizer)
scaler.step(optimizer)
scaler.update()
# <<< amp.update
