# TODO: where there are several processes, join them in a process group: NCCL where device is a GPU, else gloo.
if procs.world_size > 1:
    todo("ddp")
