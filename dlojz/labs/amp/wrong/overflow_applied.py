# expect: step 2: the gradients had overflowed, and the optimizer used them
# >>> amp.update
scaler.unscale_(optimizer)
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
scaler.update()
# <<< amp.update
