# expect: gradients that the optimizer gets is .*6.55e\+04 times.*unscaled.*`optimizer.step\(\)`
# >>> amp.update
if args.clip_grad:
    nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad)
optimizer.step()
scaler.update()
# <<< amp.update
