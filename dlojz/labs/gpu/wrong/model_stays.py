# expect: weights and buffers are on cpu.*gpu.model
# >>> gpu.model
net = net
# <<< gpu.model
