# expect: weights are on cpu when the optimizer is made.*gpu.model
# >>> gpu.model
net = net.to(device)
for parameter in net.parameters():
    parameter.data = parameter.data.cpu()
for buffer in net.buffers():
    buffer.data = buffer.data.cpu()
# <<< gpu.model
