# TODO: where there are several processes, wrap net into `model`, which averages gradients in the backward pass.
# Its parameters may be unused where args.find_unused_parameters says so.
if procs.world_size > 1:
    todo("ddp")
