# expect: --device cpu.*weights are on cuda:.*gpu.device
# >>> gpu.device
device = torch.device("cuda", procs.local_rank % torch.cuda.device_count())
# <<< gpu.device
