# expect: weights are on cpu when the optimizer is made.*gpu.device
# >>> gpu.device
device = torch.device("cpu")
# <<< gpu.device
