# expect: the norm of the gradients that the optimizer gets is 1.*it is 0.5, the limit
# >>> amp.update
scaler.step(optimizer)
scaler.update()
# <<< amp.update
