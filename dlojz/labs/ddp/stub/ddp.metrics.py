# TODO: loss and accuracy of all processes, not of this one: with several of them, and where reduce_now says that it is time.
if procs.world_size > 1 and reduce_now:
    todo("ddp")
