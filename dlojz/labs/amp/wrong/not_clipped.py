# expect: norm of the gradients that the optimizer gets is 1.59, .*the norm is 0.5
# >>> amp.update
scaler.step(optimizer)
scaler.update()
# <<< amp.update
