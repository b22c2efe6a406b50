# expect: --amp bf16.*norm of the gradients that the optimizer gets is 0.3, .*clip_grad_norm_
# >>> amp.update
scaler.unscale_(optimizer)
nn.utils.clip_grad_norm_(net.parameters(), args.clip_grad or 0.3)
scaler.step(optimizer)
scaler.update()
# <<< amp.update
