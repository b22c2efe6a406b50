# expect: weights and buffers are on (cpu and cuda:1|cuda:1 and cpu)
# >>> gpu.model
for parameter in net.parameters():
    parameter.data = parameter.data.to(device)
# <<< gpu.model
