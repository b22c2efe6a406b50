# expect: clipped while they were still multiplied by the scale
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
scaler.step(optimizer)
scaler.update()
# <<< amp.update
