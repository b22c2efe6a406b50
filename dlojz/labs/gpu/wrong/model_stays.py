# expect: weights are on cpu when the optimizer is made.*gpu.model
# >>> gpu.model
net = net
# <<< gpu.model
