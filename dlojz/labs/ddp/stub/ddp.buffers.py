# TODO: with several processes the statistics of batch norm differ from one to the other: all must validate with the same.
if procs.world_size > 1:
    todo("ddp")
