# expect: the gradients that the optimizer gets are still multiplied by the scale, 65536.*`optimizer.step\(\)`
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
scaler.update()
# <<< amp.update
