# TODO: where there are several processes, a sampler that gives each of them its own part of train_set. No image twice in an epoch.
if procs.world_size > 1:
    todo("ddp")
