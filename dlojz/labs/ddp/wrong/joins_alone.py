# expect: stops with ValueError(.|\n)*the fence ddp.init
# >>> ddp.init
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
# <<< ddp.init
