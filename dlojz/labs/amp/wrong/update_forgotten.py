# expect: stops with RuntimeError.*since the last update.*the fence amp.update
# >>> amp.update
if args.clip_grad:
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
# <<< amp.update
