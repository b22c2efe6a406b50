# expect: weights are on cpu.*gpu.model
# >>> gpu.model
net = net
# <<< gpu.model
