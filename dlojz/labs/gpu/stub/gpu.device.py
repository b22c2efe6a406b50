# TODO: the device of this process. Where args.device is "cuda", the GPU with the number procs.local_rank
# (0 where one process trains alone; count round where there are fewer GPUs than processes). Else the CPU.
device = torch.device("cpu")
if args.device == "cuda":
    todo("gpu")
