# TODO: each process has validated its own part of the images: the numbers of all of them together.
if procs.world_size > 1:
    todo("ddp")
