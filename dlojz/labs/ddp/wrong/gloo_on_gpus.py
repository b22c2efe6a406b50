# expect: backend of the process group is gloo(.|\n)*it is nccl
# >>> ddp.init
if procs.world_size > 1:
    dist.init_process_group("gloo")
# <<< ddp.init
