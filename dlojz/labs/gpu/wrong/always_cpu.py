# expect: weights and buffers are on cpu.*gpu.device
# >>> gpu.device
device = torch.device("cpu")
# <<< gpu.device
