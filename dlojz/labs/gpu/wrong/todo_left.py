# expect: `todo\("gpu"\)` is still called.*says that gpu is not written yet.*Where to look: line \d+ .*`todo\("gpu"\)`
# >>> gpu.device
device = torch.device("cuda", procs.local_rank % torch.cuda.device_count()) if args.device == "cuda" else torch.device("cpu")
if args.device == "cuda":
    todo("gpu")
# <<< gpu.device
