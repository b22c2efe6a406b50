# expect: step 2: the norm of the gradients that the optimizer gets is .*that of the gradient of the loss itself
# >>> amp.backward
scaler.scale(loss).backward()
for parameter in net.parameters():
    parameter.grad.div_(group)
# <<< amp.backward
