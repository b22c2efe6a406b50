# >>> gpu.device
# TODO: the device of this process. Where args.device is "cuda", the GPU with the number procs.local_rank
# (0 where one process trains alone; count round where there are fewer GPUs than processes). Else the CPU.
device = torch.device("cpu")
if args.device == "cuda":
    todo("gpu")
# <<< gpu.device

# >>> gpu.model
# TODO: the model's parameters and buffers go to the device, before the optimizer is made from them.
if device.type == "cuda":
    todo("gpu")
# <<< gpu.model

# >>> gpu.batch
# TODO: images and labels go to the device. args.non_blocking says whether the host may go on meanwhile.
if device.type == "cuda":
    todo("gpu")
# <<< gpu.batch
