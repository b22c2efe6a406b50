# expect: rank 1 joins the process group as number 0(.|\n)*ddp.init
# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", rank=procs.local_rank, world_size=procs.world_size)
# <<< ddp.init
