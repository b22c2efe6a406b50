# expect: beside the scale, the loss is multiplied by 1 .*the number of batches.*the fence amp.backward
# >>> amp.backward
scaler.scale(loss).backward()
for parameter in net.parameters():
    parameter.grad.div_(group)
# <<< amp.backward
