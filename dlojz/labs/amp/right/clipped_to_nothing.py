# >>> amp.update
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad or float("inf"))
scaler.step(optimizer)
scaler.update()
# <<< amp.update
