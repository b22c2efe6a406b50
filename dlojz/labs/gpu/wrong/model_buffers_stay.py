# expect: weights and buffers are on (cpu and cuda:0|cuda:0 and cpu).*gpu.model
# >>> gpu.model
for parameter in net.parameters():
    parameter.data = parameter.data.to(device)
# <<< gpu.model
